//! The access record of one request, emitted when its response has been sent.

use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, HOST, REFERER, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};

use super::redact;
use super::server::Server;
use crate::engine::{ConcurrencyPermits, Refusal};
use crate::event::{AccessLogEntry, Event};
use crate::policy::Policy;
use crate::policy::attempt::Client;
use crate::proxy::body::{AtEnd, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::time::{Span, Time};

/// The record while it is being written.
pub(super) struct AccessRecord(Box<AccessRecordInner>);

/// Made once a request and never moved: it is the largest thing there is about one.
struct AccessRecordInner {
    answered: AccessLogEntry,
    paused_at: Option<Time>,
    paused_for: Span,
    permits: ConcurrencyPermits,
    /// Whether it is counted among those of its prefix that are at an upstream.
    is_counted: bool,
    server: Rc<Server>,
    connection: Arc<DownstreamConnection>,
}

impl AccessRecord {
    /// Begins with the head of a request.
    pub(super) fn begin<B>(
        gate: &Rc<Server>,
        connection: &Arc<DownstreamConnection>,
        request: &Request<B>,
        client: Client,
        request_id: HeaderValue,
        at: Time,
    ) -> Self {
        let header = |name| request.headers().get(name).cloned();
        let (target, referer) = redacted(gate, request);
        let answered = AccessLogEntry {
            client,
            method: request.method().clone(),
            target,
            version: request.version(),
            host: header(HOST),
            referer,
            user_agent: header(USER_AGENT),
            request_id: Some(request_id),
            route: None,
            refused_by: None,
            status: StatusCode::OK,
            bytes: 0,
            complete: false,
            at,
            duration: Span::ZERO,
            added: Span::ZERO,
        };
        let (gate, connection) = (Rc::clone(gate), Arc::clone(connection));
        let places = ConcurrencyPermits::default();
        Self(Box::new(AccessRecordInner {
            answered,
            paused_at: None,
            paused_for: Span::ZERO,
            permits: places,
            is_counted: false,
            server: gate,
            connection,
        }))
    }

    /// The attempt of this route was admitted.
    pub(super) fn admitted(&mut self, policy: &Policy, route: usize) {
        self.0.answered.route = policy.routes.get(route).map(|route| Arc::clone(&route.name));
    }

    /// The attempt was refused.
    pub(super) fn refused(&mut self, policy: &Policy, refusal: &Refusal) {
        self.admitted(policy, refusal.route);
        let first = refusal.violated().next().and_then(|standing| policy.limits.get(standing.charge.limit));
        self.0.answered.refused_by = first.map(|limit| Arc::clone(&limit.name));
    }

    /// The attempt is one of those on their way until its answer has left, or the client has.
    pub(super) fn hold_permits(&mut self, places: ConcurrencyPermits) {
        self.0.permits = places;
    }

    /// It goes to an upstream, and is one of its prefix' there until its answer has left, or the client has. Says how
    /// many these are.
    pub(super) fn count_at_upstream(&mut self) -> usize {
        let count = self.0.connection.permit().request_begins();
        self.0.is_counted = count.is_some();
        count.unwrap_or(0)
    }

    /// Its places, for what goes on after the answer.
    pub(super) fn take_permits(&mut self) -> ConcurrencyPermits {
        std::mem::take(&mut self.0.permits)
    }

    /// From now on the gate waits for somebody else: the upstream, a client that still sends, or the time at which an
    /// attempt that is held is due.
    pub(super) fn pause(&mut self, now: Time) {
        self.0.paused_at = Some(now);
    }

    /// That wait is over.
    pub(super) fn resume(&mut self, now: Time) {
        let away = self.0.paused_at.take().map_or(Span::ZERO, |left| now.since(left));
        self.0.paused_for = self.0.paused_for.plus(away);
    }

    /// The attempt is not held any more.
    pub(super) fn end_hold(&mut self) {
        self.0.permits.release_held();
    }

    /// Ends with this answer: everybody hears of it when it has left.
    pub(super) fn finish(mut self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        let record = &mut self.0;
        record.connection.state.response_begins();
        record.answered.status = response.status();
        record.answered.added =
            record.server.engine.clock().now().since(record.answered.at).minus(record.paused_for);
        if record.connection.state.closes_after_next() {
            set_connection_close(&mut response);
        }
        response.body_mut().at_end(self.0);
        response
    }
}

/// Apart, because it stands on the way of every answer.
#[cold]
fn set_connection_close(response: &mut Response<ResponseBody>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Target and `Referer` as they may be told. Most have no query, and nobody has to ask for the routes.
fn redacted<B>(gate: &Server, request: &Request<B>) -> (Uri, Option<HeaderValue>) {
    let (target, referer) = (request.uri(), request.headers().get(REFERER));
    let has_query = target.query().is_some() || referer.is_some_and(|value| value.as_bytes().contains(&b'?'));
    if !has_query {
        return (target.clone(), referer.cloned());
    }
    let local = gate.config.current();
    let policy = &local.shared.rules.policy;
    (redact::redact_target(target, policy), referer.map(|value| redact::redact_referer(value, policy)))
}

impl Drop for AccessRecordInner {
    fn drop(&mut self) {
        if self.is_counted {
            self.connection.permit().request_ends();
        }
    }
}

impl AtEnd for AccessRecordInner {
    fn ended(&mut self, bytes: u64, complete: bool) {
        let now = self.server.engine.clock().now();
        self.connection.state.response_ends(now);
        if !complete && self.answered.version < Version::HTTP_11 {
            // It may have been told no length, and takes the end of the connection for the end of the answer.
            self.connection.state.abort();
        }
        self.answered.bytes = bytes;
        self.answered.complete = complete;
        self.answered.duration = now.since(self.answered.at);
        self.server.events.emit(&Event::RequestCompleted(&self.answered));
    }
}
