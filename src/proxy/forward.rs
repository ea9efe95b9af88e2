//! An admitted request on its way to the upstream and back.
//!
//! What leaves has the original bytes of path and query and the headers of [`headers`]; what comes back streams
//! through. The surprising thing: the attempt is settled when the head of the answer is here, or will never be, unless a rule
//! asks for what stands in the body.

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

use super::body::{Arrival, BodyError, Progress, ReplyBody, RequestBody, Sent, Watch};
use super::connection::Connection;
use super::error::Error;
use super::exchange::Exchange;
use super::framed;
use super::headers::{self, Identity};
use super::pending::Pending;
use super::service::Gate;
use super::site::{Local, Site};
use super::tunnel::{self, Wish};
use super::upstream::{Lease, Unsent};
use super::visit::Asker;
use crate::event::Failure;
use crate::policy::outcome::{Answer, Outcome, Seen};

/// A request that is ready to leave.
pub(super) struct Departure {
    request: Unsent,
    progress: Rc<Progress>,
    /// By what it was decided on.
    local: Rc<Local>,
    /// The number of its upstreams.
    group: usize,
    upgrade: Option<Wish>,
    method: Method,
    attempt: Option<Pending>,
}

impl Departure {
    /// Turns a request into what the upstream is to see.
    pub(super) fn prepare(
        mut request: Request<Arrival>,
        connection: &Connection,
        local: &Rc<Local>,
        group: usize,
        attempt: Option<Pending>,
        asker: &Asker,
    ) -> Self {
        let Site { rules, client, settings, .. } = &*local.site;
        let upgrade = Wish::of(&mut request);
        let identity = Identity {
            peer: connection.peer_value.as_ref(),
            trusted: client.trusts(connection.peer),
            secure: connection.is_secure(),
            kept: client.header.name(),
            filter: &settings.headers,
            request_id: asker.id_is_ours.then_some(&asker.request_id),
            devices: rules.policy.devices.as_deref(),
        };
        say_host(&mut request);
        let protocol = upgrade.as_ref().map(|wish| wish.protocol.clone());
        headers::towards_upstream(request.headers_mut(), &identity, protocol);
        if request.body().size_hint().exact().is_none() {
            // hyper would take a GET for one without a body.
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        *request.version_mut() = Version::HTTP_11;
        let (parts, body) = request.into_parts();
        let method = parts.method.clone();
        let (body, progress) = RequestBody::new(body, settings.body_timeout.to_std());
        let request = Some(Request::from_parts(parts, body));
        Self { request, progress, local: Rc::clone(local), group, upgrade, method, attempt }
    }

    /// Sends it and waits for the head of the answer, and for as much of its body as has to be known first.
    pub(super) async fn go(
        &mut self,
        gate: &Gate,
        connection: &Arc<Connection>,
        exchange: &mut Exchange,
    ) -> Result<Response<ReplyBody>, Error> {
        exchange.leaves(gate.engine.clock().now());
        let neighbours = exchange.joins_its_neighbours();
        let group = self.local.group(self.group);
        let forwarded = group.forward(&mut self.request, &self.progress, neighbours).await;
        exchange.returns(gate.engine.clock().now());
        let (mut response, mut lease) = match forwarded {
            Ok(answered) => answered,
            Err(error) => {
                self.fails(&error);
                return Err(error);
            }
        };
        if !framed::is_clear(response.headers()) {
            lease.close();
            let error = Error::Upstream(Failure::Broken);
            self.fails(&error);
            return Err(error);
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.judge_switched(&response);
            return tunnel::open(response, lease, self.upgrade.take(), connection, exchange.hand_over());
        }
        let timeout = self.local.site.settings.reply_timeout.to_std();
        let (mut ahead, mut watching) = (VecDeque::new(), None);
        let cookie = match self.judge(&response) {
            Judged::Now(cookie) => {
                (ahead, lease) = first_piece(response.body_mut(), lease).await?;
                cookie
            }
            Judged::AsItGoesBy(watch) => {
                watching = Some(watch);
                None
            }
            // Boxed: a request seldom waits for this, and would carry it along.
            Judged::First(watch) => {
                let looked = Box::pin(watch.look_ahead(response.body_mut(), timeout)).await;
                let (seen, cookie) = looked.map_err(broke_off)?;
                ahead = seen;
                cookie
            }
        };
        let mut response = response.map(|body| ReplyBody::upstreams(body, timeout, lease, ahead, watching));
        headers::towards_client(response.headers_mut(), false);
        if let Some(cookie) = cookie {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        if self.upgrade.is_some() || self.progress.sent() != Sent::Wholly {
            // Whatever the client sent in the hope of another protocol, or still sends, is not a request.
            connection.phases.linger();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// There is no answer. That is the attempt's failure only where the client is to blame.
    fn fails(&mut self, error: &Error) {
        let outcome = if matches!(error, Error::Upstream(_)) { Outcome::Error } else { Outcome::Failure };
        drop(self.attempt.take().map(|attempt| attempt.settle(outcome)));
    }

    /// Another protocol has no answer that a rule about bodies could read.
    fn judge_switched(&mut self, response: &Response<Incoming>) {
        let Some(attempt) = self.attempt.take() else { return };
        let answer = Answer { method: &self.method, status: response.status(), headers: response.headers() };
        let outcome = attempt.by_body(&answer, Seen { bytes: &[], complete: false });
        let _ = attempt.settle(outcome);
    }

    /// Finds out what came of the attempt, as far as the head of the answer says it.
    fn judge(&mut self, response: &Response<Incoming>) -> Judged {
        let Some(attempt) = self.attempt.take() else { return Judged::Now(None) };
        let answer = Answer { method: &self.method, status: response.status(), headers: response.headers() };
        match attempt.by_head(&answer) {
            Some(outcome) => Judged::Now(attempt.settle(outcome)),
            None if attempt.wants_to_know_early() => Judged::First(Watch::new(attempt, &answer)),
            None => Judged::AsItGoesBy(Watch::new(attempt, &answer)),
        }
    }
}

/// What is known of an attempt when the head of its answer is here.
enum Judged {
    /// All that has to be, and what the answer gets for it.
    Now(Option<HeaderValue>),
    /// The rest is known when the body has gone by.
    AsItGoesBy(Box<Watch>),
    /// The rest has to be known before the head leaves.
    First(Box<Watch>),
}

/// What has come of a body in chunks together with its head, without waiting for it: as long as the head has not left,
/// what is no chunk need not look like an answer.
async fn first_piece(body: &mut Incoming, lease: Lease) -> Result<(VecDeque<Bytes>, Lease), Error> {
    if body.size_hint().exact().is_some() {
        return Ok((VecDeque::new(), lease));
    }
    match poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await {
        Poll::Ready(Some(Err(error))) => {
            lease.close();
            Err(broke_off(error.into()))
        }
        Poll::Ready(Some(Ok(frame))) => Ok((frame.into_data().into_iter().collect(), lease)),
        Poll::Ready(None) | Poll::Pending => Ok((VecDeque::new(), lease)),
    }
}

fn broke_off(error: BodyError) -> Error {
    Error::Upstream(match error {
        BodyError::Stalled => Failure::Timeout,
        BodyError::Broken(_) => Failure::Broken,
    })
}

/// An absolute target becomes path and query as sent. An HTTP/1.0 client may have named the host there alone.
fn say_host<B>(request: &mut Request<B>) {
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
