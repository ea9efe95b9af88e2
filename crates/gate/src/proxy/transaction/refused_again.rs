//! A head that was refused before and comes again: if its buckets refuse it again, nothing else is asked. Answer, record
//! and events are made as for a request that is read.

use std::rc::Rc;

use http::header::EXPECT;
use http::{Method, Request};
use http_body::Body as _;

use super::access_record::AccessRecord;
use super::context::RequestContext;
use super::discard_body::MAX_DISCARDED;
use super::refused_heads::RefusedHead;
use super::response_future::ResponseFuture;
use super::server::Server;
use super::service::{Service, attempt, routes_by_head};
use crate::engine::{KnownAttempt, Refusal};
use crate::policy::attempt::AttemptBody;
use crate::proxy::body::ClientBody;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::request::question::VisibleBody;
use crate::proxy::request::response_terms::ResponseTerms;
use crate::proxy::request::target;
use crate::proxy::respond::{Negotiation, language_of};
use crate::proxy::runtime_config::WorkerConfig;
use crate::time::Time;

/// A refusal whose head was not parsed.
pub(in crate::proxy) struct RefusedAgain {
    pub(in crate::proxy) response: ResponseFuture,
    pub(in crate::proxy) terms: ResponseTerms,
    /// Bytes of the request's body.
    pub(in crate::proxy) body_len: u64,
}

impl Service {
    /// Whether some heads were refused, so that the next one may be among them.
    pub(in crate::proxy) fn may_refuse_again(&self) -> bool {
        !self.server.refused_heads.is_empty()
    }

    /// Refuses a request whose head was refused before; `None` if it is unknown, or if it is not refused again.
    pub(in crate::proxy) fn refuse_again(&self, head: &[u8]) -> Option<RefusedAgain> {
        let (server, connection) = (&self.server, &self.connection);
        let config = server.config.current();
        let known = server.refused_heads.find(&config, connection, head)?;
        let now = server.engine.clock().now();
        let shared = &config.shared;
        let refusal = server.engine.refuse_known(&shared.rules, &known.attempt, now)?;
        connection.state.request_begins(now);
        if known.body_len > 0 {
            connection.state.linger();
        }
        let RequestContext { summary, mut record, .. } = known.context(server, connection, now);
        record.refused(&shared.rules, &refusal);
        let negotiation = Negotiation { language: known.language, ..summary.negotiation() };
        let response = server.refusal_response(connection, shared, &refusal, &negotiation, &summary);
        let delay = shared.refuse_on(connection).delay;
        let response = ResponseFuture::delayed(delay, connection, record.finish(response));
        Some(RefusedAgain { response, terms: known.terms, body_len: known.body_len })
    }
}

impl RefusedHead {
    fn context(
        &self,
        server: &Rc<Server>,
        connection: &Rc<DownstreamConnection>,
        now: Time,
    ) -> RequestContext {
        let mut summary = self.summary.clone();
        if summary.id_is_ours {
            summary.request_id = server.ids.next();
        }
        let mut entry = self.entry.clone();
        entry.request_id = Some(summary.request_id.clone());
        entry.at = now;
        RequestContext::new(summary, AccessRecord::with(server, connection, entry))
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
        // With challenges, each refusal is counted and may carry an offer.
        let has_offers = config.shared.rules.policy.pardon.is_some();
        if self.tracer.is_some() || has_offers {
            return;
        }
        let head = connection.head.borrow();
        self.refused_heads.refused(config, connection, &head, |source| {
            let (shared, entry) = (&config.shared, context.record.entry());
            let mut summary = context.summary.clone();
            summary.permit_origin(&shared.rules.policy, Some(&refusal.route), request.headers());
            let pages = shared.refuse_on(connection).pages_of(refusal.route);
            Some(RefusedHead {
                source,
                attempt: self.known_attempt(config, connection, request, visible, entry.at)?,
                entry: entry.detached()?,
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
        let host = target::validate_again(connection, request).ok()?;
        let client = config.client_of(connection, request).ok()?;
        let has_body = !request.body().is_end_stream();
        let body = if has_body { AttemptBody::Unread } else { visible.without_any() };
        let attempt = attempt(request, &host, client, shared.tls_of(connection), body);
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
