//! Forwards an admitted request to the upstream and settles it by the response.
//!
//! The upstream gets the original bytes of path and query, and the headers that [`headers`] prepares; the response
//! streams through `relay`. The head of the response settles the attempt, or its body if a rule reads that. If there is no response,
//! an attempt that may have reached the application is a failure, because the application may have checked the password.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, SET_COOKIE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;

use super::access_record::AccessRecord;
use super::admitted::AdmittedAttempt;
use super::attempt_slots::AttemptSlots;
use super::context::RequestContext;
use super::inspect::BodyInspector;
use super::relay::relay;
use super::server::Server;
use crate::event::Failure;
use crate::policy::Judgement;
use crate::policy::response::{BodyPrefix, ResponseView};
use crate::policy::slots::NoSlot;
use crate::proxy::body::{
    BodyError, BodyStart, HeldEnd, IncomingBody, ReadAhead, RequestBody, ResponseBody, UploadProgress,
    UploadState,
};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::headers::passed::PassedHeaders;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::headers::{self, ForwardedInfo};
use crate::proxy::runtime_config::{RuntimeConfig, WorkerConfig};
use crate::proxy::settings::Forwarding;
use crate::proxy::upstream::bound::{self, BoundConnections};
use crate::proxy::upstream::plain_response;
use crate::proxy::upstream::tunnel::{self, UpgradeRequest};
use crate::proxy::upstream::{RequestSource, UnsentRequest, UpstreamBody, UpstreamRequest};
use crate::time::Time;

/// A request that is ready to be sent.
pub(super) struct PreparedRequest {
    request: UnsentRequest,
    progress: UploadProgress,
    /// The configuration of the decision.
    config: Rc<WorkerConfig>,
    /// The number of the upstream group.
    group: usize,
    upgrade: Option<UpgradeRequest>,
    method: Method,
    /// Whether the client speaks HTTP/1, where a connection carries one request after the other.
    is_http1: bool,
    attempt: Option<AdmittedAttempt>,
}

impl PreparedRequest {
    /// Prepares a request for the upstream.
    pub(super) fn prepare(
        request: Request<IncomingBody>,
        connection: &DownstreamConnection,
        config: &Rc<WorkerConfig>,
        group: usize,
        attempt: Option<AdmittedAttempt>,
        RequestContext { summary, record, forwarding }: &RequestContext,
    ) -> Self {
        let RuntimeConfig { rules, client, settings, .. } = &*config.shared;
        let upgrade = if forwarding.upgrade { UpgradeRequest::of(&request) } else { None };
        let info = ForwardedInfo {
            peer: connection.peer_value(),
            trusted: client.trusts(connection.peer),
            secure: connection.is_secure(),
            client_header: client.header.name(),
            filter: &settings.headers,
            request_id: summary.id_is_ours.then_some(&summary.request_id),
            owner_cookie: rules.policy.owner_cookie.as_deref(),
        };
        let is_http1 = request.version() != Version::HTTP_2;
        let (parts, body) = request.into_parts();
        let head = connection.head.take();
        let (method, target) = (parts.method, target(&parts.uri, head.bytes()));
        let (mut body, progress) = RequestBody::new(body, settings, client.header.name());
        if let Some(body) = &mut body
            && attempt.is_none()
            && method == Method::POST
            && is_form(&parts.headers)
        {
            body.watch();
        }
        let authenticates = forwarding.authorization && bound::authenticates(&parts.headers);
        let mut headers = PassedHeaders::new(parts.headers, head);
        set_host(&mut headers, &parts.uri);
        headers::prepare_request(&mut headers, &info, upgrade.as_ref().map(|upgrade| upgrade.0.clone()));
        if let Some(attempt) = &attempt {
            attempt.mark(|name, value| headers.set(name, value));
        }
        record.continue_trace(&mut headers);
        if attempt.as_ref().is_some_and(AdmittedAttempt::reads_bodies) {
            plain_response::request_plain_response(&mut headers);
        }
        let (case, reply_timeout) =
            (settings.header_case, config.group(group).forwarding().reply_timeout.to_std());
        let is_safe = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_repeatable = is_safe && attempt.is_none() && body.is_none() && upgrade.is_none();
        let request = UpstreamRequest {
            method: method.clone(),
            target,
            headers,
            case,
            body,
            authenticates,
            is_repeatable,
            reply_timeout,
        };
        let (request, config) = (Some(request), Rc::clone(config));
        Self { request, progress, config, group, upgrade, method, is_http1, attempt }
    }

    /// Whether the request is a form with a password that no route covers, as far as it was sent.
    pub(super) fn has_uncovered_password(&self) -> bool {
        self.progress.has_password()
    }

    /// Sends the request, and waits for the head of the response and the part of its body that has to be known first.
    pub(super) async fn send(
        &mut self,
        server: &Server,
        connection: &Rc<DownstreamConnection>,
        record: &mut AccessRecord,
    ) -> Result<Response<ResponseBody>, Error> {
        record.pause(server.engine.clock().now());
        let owner = self.config.shared.client.prefix_of(record.client());
        let forwarding = *self.config.group(self.group).forwarding();
        let forwarded = match self.read_ahead(server, owner, forwarding.request_buffer).await {
            Ok(()) => self.forward(connection, owner, record).await,
            Err(error) => Err(error),
        };
        let answered = server.engine.clock().now();
        record.resume(answered);
        let mut response = forwarded.inspect_err(|error| self.settle_failure(error))?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch_protocols(response, connection, record, answered);
        }
        let paces = self.attempt.as_ref().and_then(AdmittedAttempt::paces);
        let timeout = body_timeout(&response, &forwarding);
        let (mut read_ahead, mut inspector) = (BodyStart::default(), None);
        let cookie = match self.settle_plan(&response, answered) {
            SettlePlan::Known(settlement) => {
                read_ahead = first_piece(response.body_mut(), self.is_http1).await?;
                settlement.and_then(Settlement::settle)
            }
            SettlePlan::Streaming(streaming) => {
                inspector = Some(streaming);
                None
            }
            // Boxed: it is rarely awaited, and would enlarge every request's future.
            SettlePlan::BeforeHead(inspector) => {
                let settled = Box::pin(inspector.read_ahead(response.body_mut(), timeout)).await;
                let (pieces, cookie) = settled.map_err(body_failure)?;
                read_ahead = pieces;
                cookie
            }
        };
        let passed = self.passed_headers(&mut response, cookie);
        let ahead = || ReadAhead::new(&server.body_memory.responses, owner, forwarding.response_buffer);
        let paces = paces.map(|paces| (paces, server.engine.clock().clone()));
        let relayed = |body| relay(body, &self.config, read_ahead, inspector, timeout, paces, ahead);
        let mut response = response.map(|body| relayed(body).with_passed(passed));
        if self.upgrade.is_some() || self.progress.state() != UploadState::Complete {
            // The rest of an upload, or bytes of the protocol that the client expected, must not be read as a request.
            connection.state.linger();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Sends the request as soon as it has the slots that it needs, and waits for the head of the response.
    async fn forward(
        &mut self,
        connection: &Rc<DownstreamConnection>,
        owner: Option<IpAddr>,
        record: &mut AccessRecord,
    ) -> Result<Response<UpstreamBody>, Error> {
        let attempt = self.attempt.as_ref().filter(|attempt| attempt.needs_slots());
        let held_end = attempt.and_then(|_| hold_end(&mut self.request, &self.progress));
        let taken = match attempt {
            // Boxed: it is rarely awaited, and would enlarge every request's future.
            Some(attempt) if held_end.is_none() => Some(Box::pin(attempt.take_slots(owner)).await?),
            _ => None,
        };
        let bound = self.bound_connections(connection);
        let (config, is_http1) = (&self.config, self.is_http1);
        let pass_on = |head, received| pass_on_interim(config, is_http1, connection, head, received);
        let source = RequestSource { bound: bound.as_ref(), pass_on: &pass_on };
        let (group, client) = (config.group(self.group), record.count_at_upstream());
        let (request, progress) = (&mut self.request, &self.progress);
        let (forwarded, slots) = match (attempt, held_end) {
            (Some(attempt), Some(end)) => {
                let forwarded = group.forward(request, progress, client, &source);
                Box::pin(with_slots_at_end(forwarded, attempt.take_slots_at_end(owner), &end)).await?
            }
            _ => (group.forward(request, progress, client, &source).await, taken),
        };
        if let Some(slots) = slots {
            slots.end(tells_latency(&forwarded));
        }
        forwarded
    }

    /// Reads what is still to come of the body, up to `max_bytes`, so that a slow client holds no connection to the upstream.
    async fn read_ahead(
        &mut self,
        server: &Server,
        owner: Option<IpAddr>,
        max_bytes: usize,
    ) -> Result<(), Error> {
        match &mut self.request {
            Some(UpstreamRequest { body: Some(body), .. })
                if max_bytes > 0 && self.upgrade.is_none() && body.is_awaited() =>
            {
                let memory = server.body_memory.requests.reserve(owner);
                // Boxed: it is rarely awaited, and would enlarge every request's future.
                Box::pin(body.read_ahead(max_bytes, memory)).await
            }
            _ => Ok(()),
        }
    }

    /// The connections to upstreams that belong to the client's connection; those of a trusted proxy carry the requests of
    /// many clients.
    fn bound_connections(&self, connection: &DownstreamConnection) -> Option<Rc<BoundConnections>> {
        if !self.is_http1 || self.config.shared.client.trusts(connection.peer) {
            return None;
        }
        let attached = connection.attached.get_or_init(|| Rc::new(BoundConnections::default()));
        Rc::downcast(Rc::clone(attached)).ok()
    }

    /// Opens a tunnel, whose response has no body, so that rules that read bodies see none of it.
    fn switch_protocols(
        &mut self,
        response: Response<UpstreamBody>,
        connection: &Rc<DownstreamConnection>,
        record: &mut AccessRecord,
        answered: Time,
    ) -> Result<Response<ResponseBody>, Error> {
        let settlement = self.attempt.take().map(|mut attempt| {
            attempt.read_head(response.headers());
            let view =
                ResponseView { method: &self.method, status: response.status(), headers: response.headers() };
            let judged = attempt.by_body(&view, BodyPrefix { bytes: &[], complete: false });
            Settlement { attempt, judged, answered }
        });
        let (upgrade, hidden) = (self.upgrade.take(), self.config.shared.rules.policy.hidden_headers());
        let tunnel = tunnel::open(response, upgrade, connection, record.take_permits(), hidden)?;
        drop(settlement.map(Settlement::settle));
        Ok(tunnel)
    }

    /// The headers that go to the client: those of the application, and the cookie of its owner.
    fn passed_headers(
        &self,
        response: &mut Response<UpstreamBody>,
        cookie: Option<HeaderValue>,
    ) -> Box<PassedHeaders> {
        let received = std::mem::take(response.headers_mut());
        let mut passed = PassedHeaders::new(received, response.body_mut().take_head());
        headers::prepare_response(&mut passed, false);
        if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            // Some clients would wait for so much.
            passed.remove(&CONTENT_LENGTH);
        }
        for name in self.config.shared.rules.policy.hidden_headers() {
            passed.remove(name);
        }
        if let Some(cookie) = cookie {
            passed.append(SET_COOKIE, cookie);
        }
        passed
    }

    /// Settles an attempt without a response: as an error if the upstream failed and no byte of the request was sent,
    /// so the application checked no password; otherwise as a failure. If it waited for its slot before anything was sent, it
    /// was never made.
    fn settle_failure(&mut self, error: &Error) {
        if self.request.is_some() && matches!(error, Error::NoSlot(_)) {
            return self.attempt.take().map(AdmittedAttempt::undo).unwrap_or_default();
        }
        let never_left = self.request.is_some() && matches!(error, Error::Upstream(_));
        let judged = if never_left { Judgement::NEVER_SENT } else { Judgement::UNANSWERED };
        drop(self.attempt.take().map(|attempt| attempt.settle(judged)));
    }

    /// Chooses when the attempt is settled, by the head of the response, which came at `answered`.
    fn settle_plan(&mut self, response: &Response<UpstreamBody>, answered: Time) -> SettlePlan {
        let Some(mut attempt) = self.attempt.take() else { return SettlePlan::Known(None) };
        attempt.read_head(response.headers());
        let view =
            ResponseView { method: &self.method, status: response.status(), headers: response.headers() };
        match attempt.by_head(&view) {
            Some(judged) => SettlePlan::Known(Some(Settlement { attempt, judged, answered })),
            None if attempt.settles_before_head() => {
                SettlePlan::BeforeHead(BodyInspector::new(attempt, &view))
            }
            None => SettlePlan::Streaming(BodyInspector::new(attempt, &view)),
        }
    }
}

/// Holds back the end of a body of which a part is still to come. A body of no bytes is not sent at all, so that nothing of it
/// can be held back.
fn hold_end(request: &mut UnsentRequest, progress: &UploadProgress) -> Option<Rc<HeldEnd>> {
    let body = request.as_mut()?.body.as_mut()?;
    let is_awaited =
        progress.state() != UploadState::Complete && body.is_awaited() && !body.has_no_bytes_left();
    is_awaited.then(|| body.hold_end())
}

/// Forwards a request whose client takes its time: it needs its slots once its body is complete.
async fn with_slots_at_end<T>(
    forward: impl Future<Output = T>,
    take: impl Future<Output = Result<AttemptSlots, NoSlot>>,
    end: &HeldEnd,
) -> Result<(T, Option<AttemptSlots>), NoSlot> {
    let mut forward = pin!(forward);
    let taken = async {
        end.reached().await;
        take.await
    };
    let slots = tokio::select! {
        biased;
        forwarded = &mut forward => {
            // An application that has answered may still read on.
            end.release();
            return Ok((forwarded, None));
        }
        taken = taken => taken?,
    };
    end.release();
    Ok((forward.await, Some(slots)))
}

/// Whether the time to this answer tells how busy the application is. What fails fast does not, and neither do errors, which
/// clients may cause at will.
fn tells_latency(forwarded: &Result<Response<UpstreamBody>, Error>) -> bool {
    match forwarded {
        Ok(response) => !response.status().is_server_error(),
        Err(error) => {
            matches!(error, Error::Upstream(Failure::Timeout | Failure::ConnectTimeout | Failure::Busy))
        }
    }
}

/// When an attempt is settled.
enum SettlePlan {
    /// The outcome is known by the head; `None` is a request that is not an attempt.
    Known(Option<Settlement>),
    /// By the body, while it streams.
    Streaming(Box<BodyInspector>),
    /// By the body, before the head is sent.
    BeforeHead(Box<BodyInspector>),
}

/// An attempt with its outcome. Dropped, it is a failure: the client gets another response than this one.
struct Settlement {
    attempt: AdmittedAttempt,
    judged: Judgement,
    answered: Time,
}

impl Settlement {
    /// Settles the attempt. Returns a `Set-Cookie` for the response.
    fn settle(self) -> Option<HeaderValue> {
        self.attempt.settle_at(self.judged, self.answered)
    }
}

/// The part of a chunked body that arrived with its head, or all of another one, without waiting. An invalid chunk becomes
/// an error response as long as the head was not sent. Over HTTP/2 a stream may stand still, so a body of known length stays
/// with its connection to the upstream, of which there are few.
async fn first_piece(body: &mut UpstreamBody, is_http1: bool) -> Result<BodyStart, Error> {
    let may_be_taken = body.size_hint().exact().is_none() || is_http1 && body.has_arrived();
    if body.is_end_stream() || !may_be_taken {
        return Ok(BodyStart::default());
    }
    let mut start = BodyStart::default();
    match poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await {
        Poll::Ready(Some(Err(error))) => {
            body.close();
            return Err(body_failure(error));
        }
        Poll::Ready(Some(Ok(frame))) => start.push(frame),
        Poll::Ready(None) | Poll::Pending => {}
    }
    Ok(start)
}

fn body_failure(error: BodyError) -> Error {
    Error::Upstream(match error {
        BodyError::Stalled => Failure::Timeout,
        BodyError::Broken(_) | BodyError::Cut => {
            Failure::Broken("its body is malformed, or broke off".into())
        }
    })
}

/// The time for each next piece of a body.
fn body_timeout(response: &Response<UpstreamBody>, forwarding: &Forwarding) -> Duration {
    match !response.body().is_end_stream() && is_event_stream(response.headers()) {
        true => forwarding.event_timeout.to_std(),
        false => forwarding.reply_timeout.to_std(),
    }
}

/// Whether a response is a stream of events (HTML, "server-sent events"), which may be silent for long.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.get(..EVENTS.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS))
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM))
}

const EVENTS: &[u8] = b"text/event-stream";
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Leaves an interim response for the client. `100 Continue` is the answer to the gate, which asks for the body itself.
fn pass_on_interim(
    config: &WorkerConfig,
    is_http1: bool,
    connection: &DownstreamConnection,
    head: Response<()>,
    received: ReceivedHead,
) {
    let (parts, ()) = head.into_parts();
    // Nobody would send them over HTTP/2.
    if parts.status == StatusCode::CONTINUE || !is_http1 {
        return;
    }
    let RuntimeConfig { rules, settings, .. } = &*config.shared;
    let mut passed = PassedHeaders::new(parts.headers, received);
    headers::prepare_response(&mut passed, false);
    rules.policy.hidden_headers().for_each(|name| passed.remove(name));
    let mut interim = connection.interim.borrow_mut();
    let reason = parts.status.canonical_reason().unwrap_or_default();
    interim.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", parts.status.as_str()).as_bytes());
    passed.write(settings.header_case, &mut interim);
    interim.extend_from_slice(b"\r\n");
}

/// An HTTP/1.0 client may have named the host only in an absolute target.
fn set_host(headers: &mut PassedHeaders, uri: &Uri) {
    let Some(authority) = uri.authority() else { return };
    if let (Ok(host), false) = (HeaderValue::from_str(authority.as_str()), headers.contains(&HOST)) {
        headers.set(HOST, host);
    }
}

/// Path and query as the client sent them, without the authority of an absolute target.
fn target(uri: &Uri, head: &Bytes) -> Bytes {
    let mut words = head.split(|byte| matches!(byte, b' ' | b'\n')).skip(1);
    match words.next() {
        Some(sent) if sent.first() == Some(&b'/') => with_plain_end(head.slice_ref(sent)),
        _ => origin_form(uri),
    }
}

/// Readers of Latin-1 take two bytes for blanks: at its end they would not belong to the target.
fn with_plain_end(target: Bytes) -> Bytes {
    let is_blank = |byte: &u8| matches!(byte, 0x85 | 0xA0);
    let length = target.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let (text, blanks) = target.split_at(length);
    if blanks.is_empty() {
        return target;
    }
    let encoded: String = blanks.iter().map(|byte| format!("%{byte:02X}")).collect();
    Bytes::from([text, encoded.as_bytes()].concat())
}

fn origin_form(uri: &Uri) -> Bytes {
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    // `http://app.test?a=b` has an empty path (RFC 9112, 3.2.1).
    let root = if target.starts_with('?') { "/" } else { "" };
    Bytes::from([root, target].concat())
}
