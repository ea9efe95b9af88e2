//! The access record of one request. It becomes an event after the last byte of the response; `redact` hides secrets in it.

use std::cell::Cell;
use std::rc::Rc;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Uri};

use super::redact;
use super::server::Server;
use crate::engine::{AttemptPermits, Refusal, Reservation, Rules};
use crate::event::{AccessLogEntry, AttemptEnd, Event, WiringSigns};
use crate::net::connection_limit::ClientLoad;
use crate::net::stream::PeerAddr;
use crate::policy::NoPermit;
use crate::policy::attempt::Client;
use crate::proxy::body::{AtEnd, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::headers::passed::PassedHeaders;
use crate::proxy::headers::recorded::RecordedHeaders;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::time::{Span, Time};

/// Where an attempt leaves what became of it.
pub(super) type EndCell = Rc<Cell<AttemptProgress>>;

/// How far an attempt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum AttemptProgress {
    #[default]
    Open,
    /// It waits in the gate, and the application knows nothing of it.
    Queued,
    Settled(AttemptEnd),
}

impl AttemptProgress {
    fn end(self) -> Option<AttemptEnd> {
        match self {
            Self::Settled(end) => Some(end),
            Self::Open | Self::Queued => None,
        }
    }
}

/// An access record in progress.
pub(super) struct AccessRecord(Box<AccessRecordInner>);

/// Boxed and never moved: it is the largest value of a request.
struct AccessRecordInner {
    entry: AccessLogEntry,
    paused_at: Option<Time>,
    paused_for: Span,
    permits: AttemptPermits,
    /// Whether the request counts for its prefix as one at an upstream.
    is_counted: bool,
    /// Written when the attempt is settled.
    settled: Option<EndCell>,
    is_emitted: bool,
    server: Rc<Server>,
    connection: Rc<DownstreamConnection>,
}

impl AccessRecord {
    /// Begins with the head of a request. `has_own_id`: whether the client sent an id that this gate generated.
    pub(super) fn begin<B>(
        server: &Rc<Server>,
        connection: &Rc<DownstreamConnection>,
        (request, recorded): (&Request<B>, &RecordedHeaders<'_>),
        client: Client,
        (request_id, has_own_id): (HeaderValue, bool),
        at: Time,
    ) -> Self {
        let (target, referer) = redacted(server, request.uri(), recorded.referer);
        let tracer = server.tracer.as_ref();
        let span =
            tracer.and_then(|tracer| tracer.begin(request.headers(), &server.ids, connection.is_secure()));
        let entry = AccessLogEntry {
            client,
            is_request: true,
            method: request.method().clone(),
            target,
            version: request.version(),
            host: recorded.host.cloned(),
            referer,
            user_agent: recorded.user_agent.cloned(),
            request_id: Some(request_id),
            signs: signs_of(recorded, client, connection.peer, has_own_id),
            attempt: None,
            span,
            status: StatusCode::OK,
            bytes: 0,
            complete: false,
            at,
            duration: Span::ZERO,
            added: Span::ZERO,
        };
        Self::with(server, connection, entry)
    }

    /// With an entry of which nothing was decided yet.
    fn with(server: &Rc<Server>, connection: &Rc<DownstreamConnection>, entry: AccessLogEntry) -> Self {
        Self(Box::new(AccessRecordInner {
            entry,
            paused_at: None,
            paused_for: Span::ZERO,
            permits: AttemptPermits::default(),
            is_counted: false,
            settled: None,
            is_emitted: false,
            server: Rc::clone(server),
            connection: Rc::clone(connection),
        }))
    }

    /// Records that a client sent what is not a request, and got this status.
    pub(super) fn emit_without_request(
        server: &Rc<Server>,
        connection: &Rc<DownstreamConnection>,
        status: StatusCode,
    ) {
        let client = server.config.current().shared.client.client_of_peer(connection.peer);
        let (request, now) = (Request::new(()), server.engine.clock().now());
        let recorded = RecordedHeaders::of(request.headers());
        let id = (HeaderValue::from_static("-"), false);
        let mut record = Self::begin(server, connection, (&request, &recorded), client, id, now).0;
        (record.entry.is_request, record.entry.status) = (false, status);
        (record.entry.request_id, record.entry.span) = (None, None);
        record.emit(now);
    }

    /// What is known so far.
    pub(super) fn entry(&self) -> &AccessLogEntry {
        &self.0.entry
    }

    /// Tells the upstream of the request's span, if traces are continued.
    pub(super) fn continue_trace(&self, headers: &mut PassedHeaders) {
        if let Some(tracer) = &self.0.server.tracer {
            tracer.propagate(headers, self.0.entry.span.as_deref());
        }
    }

    /// Whether the request is a form with a password that no route covers.
    pub(super) fn set_uncovered_password(&mut self, is_such: bool) {
        self.0.entry.signs.has_uncovered_password = is_such;
    }

    /// The attempt was admitted. Returns where it leaves how it was settled.
    pub(super) fn admitted(&mut self, rules: &Rules, reservation: &Reservation) -> EndCell {
        let Reservation { attempt, statuses, .. } = reservation;
        self.0.entry.attempt = Some(attempt.record(rules, reservation.route(), statuses));
        Rc::clone(self.0.settled.insert(Rc::default()))
    }

    /// The attempt was refused.
    pub(super) fn refused(&mut self, rules: &Rules, refusal: &Refusal) {
        self.0.entry.attempt = Some(refusal.attempt.record(rules, refusal.route, &refusal.statuses));
    }

    /// Acquires the attempt's permits, and holds them until the response was read to its end or the client has gone.
    pub(super) fn acquire_permits(
        &mut self,
        shared: &RuntimeConfig,
        reservation: &Reservation,
    ) -> Result<(), NoPermit> {
        let asking = || (shared.client.prefix_of(self.client()), self.0.server.engine.clock().now());
        self.0.permits = shared.rules.acquire_permits(reservation, asking)?;
        Ok(())
    }

    /// Counts the request for its prefix as one at an upstream, until the response was read to its end or the client has gone.
    /// Returns the requests of the prefix there; `None` if they are not counted.
    pub(super) fn count_at_upstream(&mut self) -> Option<ClientLoad> {
        let client = self.0.connection.permit().request_begins();
        self.0.is_counted = client.is_some();
        client
    }

    /// The attempt's permits, for a tunnel that outlives the response.
    pub(super) fn take_permits(&mut self) -> AttemptPermits {
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

    /// The client of the request.
    pub(super) fn client(&self) -> Client {
        self.0.entry.client
    }

    /// Waits for the token of a held attempt.
    pub(super) async fn hold(&mut self, hold: Span) {
        if hold > Span::ZERO {
            self.pause(self.0.server.engine.clock().now());
            tokio::time::sleep(hold.to_std()).await;
            self.resume(self.0.server.engine.clock().now());
            self.end_hold();
        }
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
        if response.body().is_whole() {
            // However slowly its client reads.
            record.leave_upstream();
        }
        response.body_mut().at_end(self.0);
        response
    }
}

/// What the head of a request shows about the wiring of the gate.
fn signs_of(recorded: &RecordedHeaders<'_>, client: Client, peer: PeerAddr, has_own_id: bool) -> WiringSigns {
    // A trusted peer is never the client itself.
    let untrusted_peer = match peer {
        PeerAddr::Ip(address) if client == Client::from_ip(address.ip()) => client.ip(),
        PeerAddr::Ip(_) | PeerAddr::Unix => None,
    };
    let trusted_peer = match peer {
        PeerAddr::Ip(address) if untrusted_peer.is_none() => Some(address.ip()),
        PeerAddr::Ip(_) | PeerAddr::Unix => None,
    };
    WiringSigns {
        untrusted_peer,
        names_client: untrusted_peer.is_some() && recorded.names_client,
        schemeless_proxy: trusted_peer.filter(|_| recorded.names_client && !recorded.names_scheme),
        has_own_id,
        has_uncovered_password: false,
    }
}

/// A separate function, because the check is on the path of every response.
#[cold]
fn set_connection_close(response: &mut Response<ResponseBody>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Target and `Referer`, redacted. Most have no query, and need no look-up of the routes.
fn redacted(server: &Server, target: &Uri, referer: Option<&HeaderValue>) -> (Uri, Option<HeaderValue>) {
    let target = origin_form(target);
    let has_query = target.query().is_some() || referer.is_some_and(|value| value.as_bytes().contains(&b'?'));
    if !has_query {
        return (target, referer.cloned());
    }
    let config = server.config.current();
    let policy = &config.shared.rules.policy;
    (redact::redact_target(&target, policy), referer.map(|value| redact::redact_referer(value, policy)))
}

/// Without scheme and host, which HTTP/2 has always and other log readers do not know there.
fn origin_form(target: &Uri) -> Uri {
    match target.path_and_query() {
        Some(path) if target.authority().is_some() => Uri::from(path.clone()),
        _ => target.clone(),
    }
}

impl AccessRecordInner {
    /// The application has answered: the request holds no place there any more.
    fn leave_upstream(&mut self) {
        self.permits = AttemptPermits::default();
        if std::mem::take(&mut self.is_counted) {
            self.connection.permit().request_ends();
        }
    }

    fn emit(&mut self, now: Time) {
        self.is_emitted = true;
        self.entry.duration = now.since(self.entry.at);
        self.server.events.emit(&Event::RequestCompleted(&self.entry));
    }
}

impl Drop for AccessRecordInner {
    /// A record without a response: the client has left before it had one.
    fn drop(&mut self) {
        if !self.is_emitted {
            let now = self.server.engine.clock().now();
            self.entry.status = StatusCode::from_u16(CLIENT_LEFT).unwrap_or(StatusCode::REQUEST_TIMEOUT);
            if let (Some(attempt), Some(settled)) = (&mut self.entry.attempt, &self.settled) {
                attempt.settled = match settled.get() {
                    // It is dropped as well.
                    AttemptProgress::Open => Some(AttemptEnd::dropped(now)),
                    progress => progress.end(),
                };
            }
            self.emit(now);
        }
        self.leave_upstream();
    }
}

impl AtEnd for AccessRecordInner {
    fn ended(&mut self, bytes: u64, complete: bool) {
        let now = self.server.engine.clock().now();
        self.connection.state.response_ends(now);
        self.entry.bytes = bytes;
        self.entry.complete = complete;
        if let (Some(attempt), Some(settled)) = (&mut self.entry.attempt, &self.settled) {
            attempt.settled = settled.get().end();
        }
        self.emit(now);
    }
}

/// As nginx says it: the client has left.
const CLIENT_LEFT: u16 = 499;
