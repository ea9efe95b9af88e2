//! The access record of one request, emitted when its response has been sent. `redact` hides secrets in it.

use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, HOST, REFERER, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};

use super::redact;
use super::server::Server;
use crate::engine::{ConcurrencyPermits, Refusal};
use crate::event::{AccessLogEntry, Event};
use crate::net::connection_limit::ClientLoad;
use crate::policy::Policy;
use crate::policy::attempt::Client;
use crate::proxy::body::{AtEnd, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::time::{Span, Time};

/// An access record in progress.
pub(super) struct AccessRecord(Box<AccessRecordInner>);

/// Boxed and never moved: it is the largest value of a request.
struct AccessRecordInner {
    entry: AccessLogEntry,
    paused_at: Option<Time>,
    paused_for: Span,
    permits: ConcurrencyPermits,
    /// Whether the request counts for its prefix as one at an upstream.
    is_counted: bool,
    server: Rc<Server>,
    connection: Arc<DownstreamConnection>,
}

impl AccessRecord {
    /// Begins with the head of a request.
    pub(super) fn begin<B>(
        server: &Rc<Server>,
        connection: &Arc<DownstreamConnection>,
        request: &Request<B>,
        client: Client,
        request_id: HeaderValue,
        at: Time,
    ) -> Self {
        let header = |name| request.headers().get(name).cloned();
        let (target, referer) = redacted(server, request);
        let entry = AccessLogEntry {
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
        Self(Box::new(AccessRecordInner {
            entry,
            paused_at: None,
            paused_for: Span::ZERO,
            permits: ConcurrencyPermits::default(),
            is_counted: false,
            server: Rc::clone(server),
            connection: Arc::clone(connection),
        }))
    }

    /// The attempt of this route was admitted.
    pub(super) fn admitted(&mut self, policy: &Policy, route: usize) {
        self.0.entry.route = policy.routes.get(route).map(|route| Arc::clone(&route.name));
    }

    /// The attempt was refused.
    pub(super) fn refused(&mut self, policy: &Policy, refusal: &Refusal) {
        self.admitted(policy, refusal.route);
        let first = refusal.violated().next().and_then(|status| policy.limits.get(status.charge.limit));
        self.0.entry.refused_by = first.map(|limit| Arc::clone(&limit.name));
    }

    /// Holds the attempt's permits until the response was sent or the client has gone.
    pub(super) fn hold_permits(&mut self, permits: ConcurrencyPermits) {
        self.0.permits = permits;
    }

    /// Counts the request for its prefix as one at an upstream, until the response was sent or the client has gone.
    /// Returns the requests of the prefix there; `None` if they are not counted.
    pub(super) fn count_at_upstream(&mut self) -> Option<ClientLoad> {
        let client = self.0.connection.permit().request_begins();
        self.0.is_counted = client.is_some();
        client
    }

    /// The attempt's permits, for a tunnel that outlives the response.
    pub(super) fn take_permits(&mut self) -> ConcurrencyPermits {
        std::mem::take(&mut self.0.permits)
    }

    /// Starts a wait: for the upstream, for the client's body, or for the token of a held attempt.
    pub(super) fn pause(&mut self, now: Time) {
        self.0.paused_at = Some(now);
    }

    /// Ends a wait, which does not count as time added by the proxy.
    pub(super) fn resume(&mut self, now: Time) {
        let waited = self.0.paused_at.take().map_or(Span::ZERO, |since| now.since(since));
        self.0.paused_for = self.0.paused_for.plus(waited);
    }

    /// The attempt is not held any more.
    pub(super) fn end_hold(&mut self) {
        self.0.permits.release_held();
    }

    /// Completes the record with this response; it is emitted when the response was sent.
    pub(super) fn finish(mut self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        let record = &mut self.0;
        record.connection.state.response_begins();
        record.entry.status = response.status();
        record.entry.added =
            record.server.engine.clock().now().since(record.entry.at).minus(record.paused_for);
        if record.connection.state.closes_after_next() {
            set_connection_close(&mut response);
        }
        response.body_mut().at_end(self.0);
        response
    }
}

/// A function of its own, because the check is on the path of every response.
#[cold]
fn set_connection_close(response: &mut Response<ResponseBody>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Target and `Referer`, redacted. Most have no query, and need no look-up of the routes.
fn redacted<B>(server: &Server, request: &Request<B>) -> (Uri, Option<HeaderValue>) {
    let (target, referer) = (request.uri(), request.headers().get(REFERER));
    let has_query = target.query().is_some() || referer.is_some_and(|value| value.as_bytes().contains(&b'?'));
    if !has_query {
        return (target.clone(), referer.cloned());
    }
    let config = server.config.current();
    let policy = &config.shared.rules.policy;
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
        if !complete && self.entry.version < Version::HTTP_11 {
            // Without a length the client takes the close of the connection for the end of the response.
            self.connection.state.abort();
        }
        self.entry.bytes = bytes;
        self.entry.complete = complete;
        self.entry.duration = now.since(self.entry.at);
        self.server.events.emit(&Event::RequestCompleted(&self.entry));
    }
}
