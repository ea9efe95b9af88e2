//! A head that was refused before and comes again: if its buckets refuse it again, nothing else is asked. Answer, record
//! and events are made as for a request that is read. All of it happens at once, so they are made in what is kept of the head.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use http::header::EXPECT;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;

use super::context::RequestContext;
use super::discard_body::MAX_DISCARDED;
use super::refusal::refusal_response;
use super::refused_heads::RefusedHead;
use super::server::Server;
use super::service::{Service, attempt, routes_by_head};
use crate::engine::{KnownAttempt, Refusal};
use crate::event::Event;
use crate::policy::attempt::AttemptBody;
use crate::proxy::body::{ClientBody, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::request::question::VisibleBody;
use crate::proxy::request::response_terms::ResponseTerms;
use crate::proxy::request::signature::Monitors;
use crate::proxy::request::target;
use crate::proxy::respond::{CachedRefusal, Negotiation, RenderedRefusal, language_of};
use crate::proxy::runtime_config::WorkerConfig;
use crate::time::{Span, Time};

/// A refusal whose head was not parsed.
pub(in crate::proxy) struct RefusedAgain<T> {
    /// Its response, encoded.
    pub(in crate::proxy) encoded: T,
    /// Bytes of the request's head, and of its body.
    pub(in crate::proxy) head_len: usize,
    pub(in crate::proxy) body_len: u64,
}

/// The answer to a head that comes again.
pub(in crate::proxy) enum RepeatedAnswer<'a> {
    /// One that was rendered before.
    Kept { refusal: &'a CachedRefusal, request_id: &'a HeaderValue, body: Bytes },
    /// Any other.
    New(Response<ResponseBody>),
}

impl Service {
    /// Whether some heads were refused, so that the next one may be among them.
    pub(in crate::proxy) fn may_refuse_again(&self) -> bool {
        !self.server.refused_heads.is_empty()
    }

    /// Refuses a request whose head was refused before; `None` if it is unknown, or if it is not refused again.
    pub(in crate::proxy) fn refuse_again<T>(
        &self,
        head: &[u8],
        encode: impl FnOnce(RepeatedAnswer<'_>, ResponseTerms) -> T,
    ) -> Option<RefusedAgain<T>> {
        let (server, connection) = (&self.server, &self.connection);
        let config = server.config.current();
        let known = server.refused_heads.find(&config, connection, head)?;
        let now = server.engine.clock().now();
        let shared = &config.shared;
        // By reference: it is large.
        let Some(refusal) = &server.engine.refuse_known(&shared.rules, &known.attempt, now) else {
            return None;
        };
        connection.state.request_begins(now);
        if known.body_len > 0 {
            connection.state.linger();
        }
        let summary = &known.summary;
        let id = if summary.id_is_ours { server.ids.next() } else { summary.request_id.clone() };
        let negotiation = Negotiation { language: known.language, request_id: &id, ..summary.negotiation() };
        let rendered = server.rendered_refusal(connection, shared, refusal, &negotiation);
        let answer = match &rendered {
            RenderedRefusal::Kept(kept)
                if kept.length() <= ResponseBody::SHORT && !summary.allows_origin() =>
            {
                RepeatedAnswer::Kept { refusal: kept, request_id: &id, body: kept.body(&id) }
            }
            _ => RepeatedAnswer::New(refusal_response(rendered, summary, &id)),
        };
        let (status, bytes) = answer.status_and_length();
        let encoded = encode(answer, known.terms);
        let ended = server.engine.clock().now();
        connection.state.response_begins();
        connection.state.response_ends(ended);
        let entry = &mut *known.entry.borrow_mut();
        (entry.request_id, entry.status, entry.bytes, entry.complete) = (Some(id), status, bytes, true);
        (entry.at, entry.duration, entry.added) = (now, ended.since(now), ended.since(now));
        refusal.record_again(&shared.rules, &mut entry.attempt);
        server.events.emit(&Event::RequestCompleted(entry));
        Some(RefusedAgain { encoded, head_len: head.len(), body_len: known.body_len })
    }
}

impl RepeatedAnswer<'_> {
    /// The status, and the bytes of the body.
    fn status_and_length(&self) -> (StatusCode, u64) {
        match self {
            Self::Kept { refusal, body, .. } => (refusal.status(), body.len() as u64),
            Self::New(response) => {
                (response.status(), response.body().size_hint().exact().unwrap_or_default())
            }
        }
    }
}

impl Server {
    /// Takes note of the head of a request that was refused, or of the question about it.
    pub(super) fn has_refused(
        &self,
        config: &Rc<WorkerConfig>,
        connection: &DownstreamConnection,
        request: &Request<ClientBody>,
        visible: VisibleBody,
        refusal: &Refusal,
        context: &RequestContext,
    ) {
        // With challenges, each refusal is counted and may carry an offer. One that is held is not answered at once.
        let has_offers = config.shared.rules.policy.pardon.is_some();
        let is_held = config.shared.refuse_on(connection).delay > Span::ZERO;
        if self.tracer.is_some() || has_offers || is_held {
            return;
        }
        let head = connection.head.borrow();
        self.refused_heads.refused(config, connection, head.bytes(), |source| {
            let (shared, entry) = (&config.shared, context.record.entry());
            let mut summary = context.summary.clone();
            summary.permit_origin(&shared.rules.policy, Some(&refusal.route), request.headers());
            let pages = shared.refuse_on(connection).pages_of(refusal.route);
            Some(RefusedHead {
                source,
                attempt: self.known_attempt(config, connection, request, visible, entry.at)?,
                entry: RefCell::new(entry.detached()?),
                language: language_of(pages, summary.accept(), request.headers()),
                summary: summary.detached()?,
                // A question has another method than the request that it asks about.
                terms: ResponseTerms { is_head: context.summary.is_head(), ..ResponseTerms::of(request) },
                body_len: body_len(request)?,
            })
        });
    }

    /// What an attempt is charged to whenever its head comes; `None` if that may change with something else than the rules.
    fn known_attempt(
        &self,
        config: &WorkerConfig,
        connection: &DownstreamConnection,
        request: &Request<ClientBody>,
        visible: VisibleBody,
        now: Time,
    ) -> Option<KnownAttempt> {
        let (shared, rules) = (&config.shared, &config.shared.rules);
        // An order for a certificate may begin at any time, and then the gate answers this path itself.
        if shared.validation_hosts.is_some() && request.uri().path().starts_with("/.well-known/") {
            return None;
        }
        // A signature expires.
        if shared.client.monitors.is_some() && Monitors::may_have_signed(request.headers()) {
            return None;
        }
        let host = target::validate_again(connection, request).ok()?;
        let client = config.client_of(connection, request).ok()?;
        let shown = shared.shown_by(connection, request, now, || true).ok()?;
        let has_body = !request.body().is_end_stream();
        let body = if has_body { AttemptBody::Unread } else { visible.without_any() };
        let attempt = attempt(request, &host, client, shown.client(), body);
        let (routes, requirement) = routes_by_head(&rules.policy, &attempt, has_body).ok()?;
        let (routes, may_be_known) = match requirement {
            None => (routes, false),
            Some(_) => (rules.policy.certain_routes(&attempt, &routes), rules.policy.knows_owners()),
        };
        self.engine.known_attempt(rules, &attempt, routes, may_be_known, now)
    }
}

/// Bytes of a body that is discarded behind the answer; `None` if the connection would close, the client waits for
/// `100 Continue`, or the head names no length.
fn body_len(request: &Request<ClientBody>) -> Option<u64> {
    let is_simple = *request.method() != Method::CONNECT && !request.headers().contains_key(EXPECT);
    let length = if request.body().is_end_stream() { Some(0) } else { request.body().size_hint().exact() };
    length.filter(|length| is_simple && *length <= MAX_DISCARDED)
}
