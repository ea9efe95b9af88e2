//! Forwards an admitted request to the upstream and settles it by the response.
//!
//! The upstream gets the original bytes of path and query, and the headers that [`headers`] prepares; the response
//! streams through `relay`. The attempt is settled by the head of the response, or by its body if a rule reads that.
//! Without a response an attempt that may have reached the application is a failure: the application may have checked
//! the password.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;

use super::access_record::AccessRecord;
use super::admitted::AdmittedAttempt;
use super::context::RequestContext;
use super::inspect::BodyInspector;
use super::relay::relay;
use super::server::Server;
use crate::event::Failure;
use crate::policy::outcome::{BodyPrefix, Judgement, Outcome, ResponseView};
use crate::proxy::body::{BodyError, IncomingBody, RequestBody, ResponseBody, UploadProgress, UploadState};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::headers::{self, ForwardedInfo};
use crate::proxy::runtime_config::{RuntimeConfig, WorkerConfig};
use crate::proxy::upstream::plain_response;
use crate::proxy::upstream::tunnel::{self, UpgradeRequest};
use crate::proxy::upstream::{UnsentRequest, UpstreamBody};

/// A request that is ready to be sent.
pub(super) struct UpstreamRequest {
    request: UnsentRequest,
    progress: Rc<UploadProgress>,
    /// The configuration of the decision.
    config: Rc<WorkerConfig>,
    /// The number of the upstream group.
    group: usize,
    upgrade: Option<UpgradeRequest>,
    method: Method,
    attempt: Option<AdmittedAttempt>,
}

impl UpstreamRequest {
    /// Prepares a request for the upstream. Boxed, because it is moved several times.
    pub(super) fn prepare(
        mut request: Request<IncomingBody>,
        connection: &DownstreamConnection,
        config: &Rc<WorkerConfig>,
        group: usize,
        attempt: Option<AdmittedAttempt>,
        RequestContext { summary, record }: &RequestContext,
    ) -> Box<Self> {
        let RuntimeConfig { rules, client, settings, .. } = &*config.shared;
        let upgrade = UpgradeRequest::of(&mut request);
        let info = ForwardedInfo {
            peer: connection.peer_value.as_ref(),
            trusted: client.trusts(connection.peer),
            secure: connection.is_secure(),
            client_header: client.header.name(),
            filter: &settings.headers,
            request_id: summary.id_is_ours.then_some(&summary.request_id),
            devices: rules.policy.devices.as_deref(),
        };
        set_host(&mut request);
        let protocol = upgrade.as_ref().map(|upgrade| upgrade.protocol.clone());
        headers::prepare_request(request.headers_mut(), &info, protocol);
        if let Some(attempt) = &attempt {
            attempt.mark(request.headers_mut());
        }
        record.continue_trace(request.headers_mut());
        if attempt.as_ref().is_some_and(AdmittedAttempt::reads_bodies) {
            plain_response::request_plain_response(request.headers_mut());
        }
        if request.body().size_hint().exact().is_none() {
            // hyper would assume that a GET has no body.
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        *request.version_mut() = Version::HTTP_11;
        let (parts, body) = request.into_parts();
        let method = parts.method.clone();
        let (mut body, progress) = RequestBody::new(body, settings.body_timeout.to_std());
        if attempt.is_none() && method == Method::POST && is_form(&parts.headers) {
            body = body.watched();
        }
        let request = Some(Request::from_parts(parts, body));
        Box::new(Self { request, progress, config: Rc::clone(config), group, upgrade, method, attempt })
    }

    /// Whether the request is a form with a password that no route covers, as far as it was sent.
    pub(super) fn has_uncovered_password(&self) -> bool {
        self.progress.has_password()
    }

    /// Sends the request, and waits for the head of the response and the part of its body that has to be known first.
    pub(super) async fn send(
        &mut self,
        server: &Server,
        connection: &Arc<DownstreamConnection>,
        record: &mut AccessRecord,
    ) -> Result<Response<ResponseBody>, Error> {
        record.pause(server.engine.clock().now());
        let client = record.count_at_upstream();
        let group = self.config.group(self.group);
        let forwarded = group.forward(&mut self.request, &self.progress, client).await;
        record.resume(server.engine.clock().now());
        let mut response = match forwarded {
            Ok(forwarded) => forwarded,
            Err(error) => {
                self.settle_failure(&error);
                return Err(error);
            }
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let settlement = self.settle_upgrade(&response);
            let tunnel = tunnel::open(response, self.upgrade.take(), connection, record.take_permits())?;
            drop(settlement.map(Settlement::settle));
            return Ok(tunnel);
        }
        let timeout = self.config.shared.settings.reply_timeout.to_std();
        let (mut read_ahead, mut inspector) = (VecDeque::new(), None);
        let cookie = match self.settle_plan(&response) {
            SettlePlan::Known(settlement) => {
                read_ahead = first_piece(response.body_mut()).await?;
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
        let mut response = response.map(|body| relay(body, timeout, read_ahead, inspector));
        headers::prepare_response(response.headers_mut(), false);
        for name in self.config.shared.rules.policy.outcome_headers() {
            response.headers_mut().remove(name);
        }
        if let Some(cookie) = cookie {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        if self.upgrade.is_some() || self.progress.state() != UploadState::Complete {
            // The rest of an upload, or bytes of the protocol that the client expected, must not be read as a request.
            connection.state.linger();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Settles an attempt without a response: as an error if the upstream failed and no byte of the request was sent,
    /// so the application checked no password; otherwise as a failure.
    fn settle_failure(&mut self, error: &Error) {
        let never_left = self.request.is_some() && matches!(error, Error::Upstream(_));
        let outcome = if never_left { Outcome::Error } else { Outcome::Failure };
        drop(self.attempt.take().map(|attempt| attempt.settle(outcome)));
    }

    /// The outcome of an upgrade. Its response has no body, so rules that read bodies see none of it.
    fn settle_upgrade(&mut self, response: &Response<UpstreamBody>) -> Option<Settlement> {
        let attempt = self.attempt.take()?;
        attempt.remember_cookies(response.headers());
        let view =
            ResponseView { method: &self.method, status: response.status(), headers: response.headers() };
        let judged = attempt.by_body(&view, BodyPrefix { bytes: &[], complete: false });
        Some(Settlement { attempt, judged })
    }

    /// Chooses when the attempt is settled, by the head of the response.
    fn settle_plan(&mut self, response: &Response<UpstreamBody>) -> SettlePlan {
        let Some(attempt) = self.attempt.take() else { return SettlePlan::Known(None) };
        attempt.remember_cookies(response.headers());
        let view =
            ResponseView { method: &self.method, status: response.status(), headers: response.headers() };
        match attempt.by_head(&view) {
            Some(judged) => SettlePlan::Known(Some(Settlement { attempt, judged })),
            None if attempt.settles_before_head() => {
                SettlePlan::BeforeHead(BodyInspector::new(attempt, &view))
            }
            None => SettlePlan::Streaming(BodyInspector::new(attempt, &view)),
        }
    }
}

/// When an attempt is settled.
enum SettlePlan {
    /// The outcome is known by the head; `None` is a request that is no attempt.
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
}

impl Settlement {
    /// Settles the attempt. Returns a `Set-Cookie` for the response.
    fn settle(self) -> Option<HeaderValue> {
        self.attempt.settle(self.judged)
    }
}

/// The part of a chunked body that arrived with its head, without waiting. An invalid chunk becomes an error response
/// as long as the head was not sent.
async fn first_piece(body: &mut UpstreamBody) -> Result<VecDeque<Bytes>, Error> {
    if body.size_hint().exact().is_some() {
        return Ok(VecDeque::new());
    }
    match poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await {
        Poll::Ready(Some(Err(error))) => {
            body.close();
            Err(body_failure(error))
        }
        Poll::Ready(Some(Ok(frame))) => Ok(frame.into_data().into_iter().collect()),
        Poll::Ready(None) | Poll::Pending => Ok(VecDeque::new()),
    }
}

fn body_failure(error: BodyError) -> Error {
    Error::Upstream(match error {
        BodyError::Stalled => Failure::Timeout,
        BodyError::Broken(_) => Failure::Broken,
    })
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM))
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Replaces an absolute target by its path and query. An HTTP/1.0 client may have named the host only there.
fn set_host<B>(request: &mut Request<B>) {
    let Some(authority) = request.uri().authority() else { return };
    let host = HeaderValue::from_str(authority.as_str());
    if let (Ok(host), false) = (host, request.headers().contains_key(HOST)) {
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = origin_form(request.uri());
}

/// Path and query as sent, without the authority of an absolute target.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(target) => Uri::from(target.clone()),
        None => Uri::from_static("/"),
    }
}
