//! Forwards an admitted request to the upstream and settles it by the response.
//!
//! What leaves has the original bytes of path and query and the headers of [`headers`]; what comes back streams
//! through. The attempt is settled when the head of the answer is here, or will never be, unless a rule asks for what stands
//! in the body. What the gate answers itself after the request may have left is a failure: the application may have judged.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body as _, Incoming};

use super::access_record::AccessRecord;
use super::admitted::AdmittedAttempt;
use super::context::RequestSummary;
use super::inspect::BodyInspector;
use super::relay::relay;
use super::server::Server;
use crate::event::Failure;
use crate::policy::outcome::{BodyPrefix, Outcome, ResponseView};
use crate::proxy::body::{BodyError, IncomingBody, RequestBody, ResponseBody, UploadProgress, UploadState};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::headers::{self, ForwardedInfo};
use crate::proxy::runtime_config::{RuntimeConfig, WorkerConfig};
use crate::proxy::upstream::framing;
use crate::proxy::upstream::plain_response;
use crate::proxy::upstream::tunnel::{self, UpgradeRequest};
use crate::proxy::upstream::{ConnectionLease, UnsentRequest};

/// A request that is ready to leave.
pub(super) struct UpstreamRequest {
    request: UnsentRequest,
    progress: Rc<UploadProgress>,
    /// By what it was decided on.
    config: Rc<WorkerConfig>,
    /// The number of its upstreams.
    group: usize,
    upgrade: Option<UpgradeRequest>,
    method: Method,
    attempt: Option<AdmittedAttempt>,
}

impl UpstreamRequest {
    /// Turns a request into what the upstream is to see.
    pub(super) fn prepare(
        mut request: Request<IncomingBody>,
        connection: &DownstreamConnection,
        local: &Rc<WorkerConfig>,
        group: usize,
        attempt: Option<AdmittedAttempt>,
        asker: &RequestSummary,
    ) -> Self {
        let RuntimeConfig { rules, client, settings, .. } = &*local.shared;
        let upgrade = UpgradeRequest::of(&mut request);
        let identity = ForwardedInfo {
            peer: connection.peer_value.as_ref(),
            trusted: client.trusts(connection.peer),
            secure: connection.is_secure(),
            client_header: client.header.name(),
            filter: &settings.headers,
            request_id: asker.id_is_ours.then_some(&asker.request_id),
            devices: rules.policy.devices.as_deref(),
        };
        set_host(&mut request);
        let protocol = upgrade.as_ref().map(|wish| wish.protocol.clone());
        headers::prepare_request(request.headers_mut(), &identity, protocol);
        if attempt.as_ref().is_some_and(AdmittedAttempt::reads_bodies) {
            plain_response::request_plain_response(request.headers_mut());
        }
        if request.body().size_hint().exact().is_none() {
            // hyper would take a GET for one without a body.
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        *request.version_mut() = Version::HTTP_11;
        let (parts, body) = request.into_parts();
        let method = parts.method.clone();
        let (body, progress) = RequestBody::new(body, settings.body_timeout.to_std());
        let request = Some(Request::from_parts(parts, body));
        Self { request, progress, config: Rc::clone(local), group, upgrade, method, attempt }
    }

    /// Sends it and waits for the head of the answer, and for as much of its body as has to be known first.
    pub(super) async fn send(
        &mut self,
        gate: &Server,
        connection: &Arc<DownstreamConnection>,
        exchange: &mut AccessRecord,
    ) -> Result<Response<ResponseBody>, Error> {
        exchange.pause(gate.engine.clock().now());
        let neighbours = exchange.count_at_upstream();
        let group = self.config.group(self.group);
        let forwarded = group.forward(&mut self.request, &self.progress, neighbours).await;
        exchange.resume(gate.engine.clock().now());
        let (mut response, mut lease) = match forwarded {
            Ok(answered) => answered,
            Err(error) => {
                self.settle_failure(&error);
                return Err(error);
            }
        };
        if !framing::is_unambiguous(response.headers()) {
            lease.close();
            return Err(Error::Upstream(Failure::Broken));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let judged = self.settle_upgrade(&response);
            let tunnel =
                tunnel::open(response, lease, self.upgrade.take(), connection, exchange.take_permits())?;
            drop(judged.map(Settlement::settle));
            return Ok(tunnel);
        }
        let timeout = self.config.shared.settings.reply_timeout.to_std();
        let (mut ahead, mut watching) = (VecDeque::new(), None);
        let cookie = match self.settle_plan(&response) {
            SettlePlan::Known(settlement) => {
                (ahead, lease) = first_piece(response.body_mut(), lease).await?;
                settlement.and_then(Settlement::settle)
            }
            SettlePlan::Streaming(watch) => {
                watching = Some(watch);
                None
            }
            // Boxed: a request seldom waits for this, and would carry it along.
            SettlePlan::BeforeHead(watch) => {
                let looked = Box::pin(watch.read_ahead(response.body_mut(), timeout)).await;
                let (seen, cookie) = looked.map_err(body_failure)?;
                ahead = seen;
                cookie
            }
        };
        let mut response = response.map(|body| relay(body, timeout, lease, ahead, watching));
        headers::prepare_response(response.headers_mut(), false);
        if let Some(cookie) = cookie {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        if self.upgrade.is_some() || self.progress.state() != UploadState::Complete {
            // Whatever the client sent in the hope of another protocol, or still sends, is not a request.
            connection.state.linger();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// There is no answer. Only where no byte of the request can have left, and that is not the client's doing, nothing was
    /// guessed.
    fn settle_failure(&mut self, error: &Error) {
        let never_left = self.request.is_some() && matches!(error, Error::Upstream(_));
        let outcome = if never_left { Outcome::Error } else { Outcome::Failure };
        drop(self.attempt.take().map(|attempt| attempt.settle(outcome)));
    }

    /// Another protocol has no answer that a rule about bodies could read.
    fn settle_upgrade(&mut self, response: &Response<Incoming>) -> Option<Settlement> {
        let attempt = self.attempt.take()?;
        let answer =
            ResponseView { method: &self.method, status: response.status(), headers: response.headers() };
        let outcome = attempt.by_body(&answer, BodyPrefix { bytes: &[], complete: false });
        Some(Settlement { attempt, outcome })
    }

    /// Finds out what came of the attempt, as far as the head of the answer says it.
    fn settle_plan(&mut self, response: &Response<Incoming>) -> SettlePlan {
        let Some(attempt) = self.attempt.take() else { return SettlePlan::Known(None) };
        let answer =
            ResponseView { method: &self.method, status: response.status(), headers: response.headers() };
        match attempt.by_head(&answer) {
            Some(outcome) => SettlePlan::Known(Some(Settlement { attempt, outcome })),
            None if attempt.settles_before_head() => {
                SettlePlan::BeforeHead(BodyInspector::new(attempt, &answer))
            }
            None => SettlePlan::Streaming(BodyInspector::new(attempt, &answer)),
        }
    }
}

/// What is known of an attempt when the head of its answer is here.
enum SettlePlan {
    /// All that has to be.
    Known(Option<Settlement>),
    /// The rest is known when the body has gone by.
    Streaming(Box<BodyInspector>),
    /// The rest has to be known before the head leaves.
    BeforeHead(Box<BodyInspector>),
}

/// What the answer says came of an attempt. Dropped, it is a failure: the client gets another answer than that one.
struct Settlement {
    attempt: AdmittedAttempt,
    outcome: Outcome,
}

impl Settlement {
    /// What is returned is a `Set-Cookie` for the answer.
    fn settle(self) -> Option<HeaderValue> {
        self.attempt.settle(self.outcome)
    }
}

/// What has come of a body in chunks together with its head, without waiting for it: as long as the head has not left,
/// what is no chunk need not look like an answer.
async fn first_piece(
    body: &mut Incoming,
    lease: ConnectionLease,
) -> Result<(VecDeque<Bytes>, ConnectionLease), Error> {
    if body.size_hint().exact().is_some() {
        return Ok((VecDeque::new(), lease));
    }
    match poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await {
        Poll::Ready(Some(Err(error))) => {
            lease.close();
            Err(body_failure(error.into()))
        }
        Poll::Ready(Some(Ok(frame))) => Ok((frame.into_data().into_iter().collect(), lease)),
        Poll::Ready(None) | Poll::Pending => Ok((VecDeque::new(), lease)),
    }
}

fn body_failure(error: BodyError) -> Error {
    Error::Upstream(match error {
        BodyError::Stalled => Failure::Timeout,
        BodyError::Broken(_) => Failure::Broken,
    })
}

/// An absolute target becomes path and query as sent. An HTTP/1.0 client may have named the host there alone.
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
