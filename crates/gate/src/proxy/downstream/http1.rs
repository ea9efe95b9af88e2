//! Serves an HTTP/1 client connection: one request after the other, with deadlines and a lingering close.
//!
//! [`inbox`] reads and [`outbox`] sends; between two requests a connection [rests](rest) without buffers. All of it runs in
//! the task of the connection. `request::decoder` says where requests end, `transaction` serves them.

mod inbox;
mod outbox;
mod response_head;
mod timer;

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::EXPECT;
use http::{Request, Response, StatusCode, Version};
use tokio::io::AsyncWrite as _;

use self::inbox::{Inbox, InboxBody};
use self::outbox::{Outbox, Sent};
use self::response_head::ResponseFraming;
use self::timer::ConnectionTimer;
use super::linger::Linger;
use crate::net::stream::NetStream;
use crate::proxy::body::{ClientBody, ResponseBody, TunnelTask};
use crate::proxy::connection::state::{Deadlines, Overdue};
use crate::proxy::connection::{DownstreamConnection, Phase};
use crate::proxy::headers::passed::HeaderCase;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::request::decoder::{HeadError, RequestHead};
use crate::proxy::request::response_terms::ResponseTerms;
use crate::proxy::respond;
use crate::proxy::settings::ProxySettings;
use crate::proxy::transaction::refused_again::RepeatedAnswer;
use crate::proxy::transaction::response_future::ResponseFuture;
use crate::proxy::transaction::service::Service;

/// Serves a connection until it ends: by itself, by a deadline, or by a drain.
pub(super) async fn serve(
    stream: NetStream,
    connection: Rc<DownstreamConnection>,
    service: Service,
    settings: &ProxySettings,
) {
    let sleep = pin!(tokio::time::sleep(Duration::ZERO));
    let mut timer = ConnectionTimer::new(sleep, Deadlines::new(settings));
    let inbox = Rc::new(RefCell::new(Inbox::new(stream, &connection)));
    let end = loop {
        match poll_fn(|cx| poll_rest(&inbox, &connection, &mut timer, cx)).await {
            Overdue::Nothing => {}
            Overdue::Head => break ConnectionEnd::Refuse(StatusCode::REQUEST_TIMEOUT),
            Overdue::Idle | Overdue::Write | Overdue::Rest => break ConnectionEnd::Close,
        }
        let case = settings.header_case;
        let active = ActiveConnection { inbox: &inbox, connection: &connection, service: &service, case };
        // Boxed: a connection at rest holds nothing of it.
        match Box::pin(active.serve_requests(&mut timer)).await {
            Next::Rest => inbox.borrow_mut().socket.shrink(),
            Next::End(end) => break end,
        }
    };
    let refused = match end {
        ConnectionEnd::Refuse(status) if connection.state.received() > 0 => Some(status),
        ConnectionEnd::Leave => Some(StatusCode::BAD_REQUEST),
        _ => None,
    };
    refused.into_iter().for_each(|status| service.emit_without_request(status));
    // No body is left that could read.
    if let Ok(inbox) = Rc::try_unwrap(inbox) {
        Box::pin(finish(inbox.into_inner(), &connection, end, settings.header_case)).await;
    }
}

/// How a connection goes on.
enum Next {
    /// It waits for its next byte.
    Rest,
    End(ConnectionEnd),
}

/// How a connection ends.
enum ConnectionEnd {
    Close,
    /// The client has gone, or takes nothing any more: whatever is left to send is dropped.
    Drop,
    /// A client that takes the end of the connection for the end of the response must not see a clean one.
    Reset,
    /// The client has gone within a head.
    Leave,
    /// With an error response of this status: there is no head that a service could answer.
    Refuse(StatusCode),
    /// It carries another protocol.
    Tunnel(TunnelTask),
}

/// A request whose head has come.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is moved once")]
enum ArrivedRequest {
    New(RequestHead),
    /// Its head was refused before and is again; it was not parsed.
    Refused(EncodedResponse),
}

/// A response that is ready to be sent.
struct EncodedResponse {
    /// The bytes of the head, and perhaps of the body.
    head: Vec<u8>,
    /// What is still to be read of the body.
    body: Option<ResponseBody>,
    framing: ResponseFraming,
    /// Whether the client knows no interim responses.
    is_old: bool,
    /// Whether the connection is kept open after it.
    stays: bool,
    tunnel: Option<TunnelTask>,
}

/// Ready with nothing overdue when the client has sent something, has gone, or has to go.
fn poll_rest(
    inbox: &RefCell<Inbox>,
    connection: &DownstreamConnection,
    timer: &mut ConnectionTimer<'_>,
    cx: &mut Context<'_>,
) -> Poll<Overdue> {
    let state = &connection.state;
    if !state.is_resting() {
        state.set_resting(true);
        state.remember_waker(cx);
        timer.set(state);
    }
    let is_evicted = connection.should_evict(cx);
    if is_evicted {
        state.evict();
    }
    let ends = is_evicted || state.is_draining();
    let overdue = if ends || inbox.borrow_mut().poll_readable(cx).is_ready() {
        Overdue::Nothing
    } else {
        ready!(timer.poll(state, cx))
    };
    state.set_resting(false);
    timer.set(state);
    Poll::Ready(overdue)
}

/// A connection with buffers.
struct ActiveConnection<'c> {
    inbox: &'c Rc<RefCell<Inbox>>,
    connection: &'c Rc<DownstreamConnection>,
    service: &'c Service,
    case: HeaderCase,
}

impl ActiveConnection<'_> {
    async fn serve_requests(self, timer: &mut ConnectionTimer<'_>) -> Next {
        loop {
            let encoded = match poll_fn(|cx| self.poll_request(timer, cx)).await {
                Ok(ArrivedRequest::New(head)) => {
                    let terms = ResponseTerms::of(&head.request);
                    let mut response = self.service.respond(self.request(head));
                    let polled = poll_fn(|cx| self.poll_response(&mut response, terms, cx));
                    let Some(response) = polled.await else { return Next::End(ConnectionEnd::Drop) };
                    let is_awaited = self.inbox.borrow_mut().ends_waiting();
                    self.encode(response, terms, self.may_stay() && !is_awaited)
                }
                Ok(ArrivedRequest::Refused(encoded)) => encoded,
                Err(next) => return next,
            };
            match self.send(encoded, timer).await {
                Ok(()) => {}
                Err(end) => return Next::End(end),
            }
        }
    }

    /// Reads a head. An error is how the connection goes on without one.
    fn poll_request(
        &self,
        timer: &mut ConnectionTimer<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ArrivedRequest, Next>> {
        let (state, mut inbox) = (&self.connection.state, self.inbox.borrow_mut());
        let end = |end| Poll::Ready(Err(Next::End(end)));
        loop {
            if self.service.may_refuse_again()
                && let Some(encoded) = inbox.refuse_known(|head| {
                    self.service.refuse_again(head, |answer, terms| self.encode_repeated(answer, terms))
                })
            {
                // It serves, so it gives its place to nobody.
                let _ = self.connection.should_evict(cx);
                return Poll::Ready(Ok(ArrivedRequest::Refused(encoded)));
            }
            match inbox.take_head() {
                Ok(Some(head)) => return Poll::Ready(Ok(ArrivedRequest::New(head))),
                Ok(None) => {}
                Err(error) => return end(ConnectionEnd::Refuse(status_of(error))),
            }
            match inbox.poll_fill(cx) {
                Poll::Ready(Ok(1..)) => continue,
                Poll::Ready(_) if inbox.socket.buffer.is_empty() => return end(ConnectionEnd::Close),
                Poll::Ready(_) => return end(ConnectionEnd::Leave),
                Poll::Pending => {}
            }
            if state.is_draining() {
                return end(ConnectionEnd::Close);
            }
            timer.follow(state);
            if self.connection.should_evict(cx) || state.was_evicted() {
                state.evict();
                let has_begun = state.phase() == Phase::Head && state.received() > 0;
                return end(if has_begun {
                    ConnectionEnd::Refuse(StatusCode::REQUEST_TIMEOUT)
                } else {
                    ConnectionEnd::Close
                });
            }
            return match ready!(timer.poll(state, cx)) {
                Overdue::Head => end(ConnectionEnd::Refuse(StatusCode::REQUEST_TIMEOUT)),
                Overdue::Rest => Poll::Ready(Err(Next::Rest)),
                Overdue::Nothing | Overdue::Idle | Overdue::Write => end(ConnectionEnd::Close),
            };
        }
    }

    fn request(&self, head: RequestHead) -> Request<ClientBody> {
        let RequestHead { request, received, fault, .. } = head;
        *self.connection.head.borrow_mut() = received;
        if fault.is_some() {
            self.connection.state.mark_ambiguous();
        }
        // RFC 9110, 10.1.1: `Expect` of an HTTP/1.0 request is ignored.
        let expects = request.version() == Version::HTTP_11 && request.headers().contains_key(EXPECT);
        let mut inbox = self.inbox.borrow_mut();
        if inbox.has_ended() {
            // Some clients wait for it before a body of no bytes, too.
            if expects && fault.is_none() {
                inbox.invite();
            }
            return request.map(|()| ClientBody::Empty);
        }
        inbox.expects_continue = expects;
        drop(inbox);
        request.map(|()| ClientBody::Http1(Box::new(InboxBody(Rc::clone(self.inbox)))))
    }

    /// Waits for the response of the service; `None` if the client has gone.
    fn poll_response(
        &self,
        response: &mut ResponseFuture,
        terms: ResponseTerms,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Response<ResponseBody>>> {
        // It serves, so it gives its place to nobody.
        let _ = self.connection.should_evict(cx);
        if let Poll::Ready(Ok(response)) = Pin::new(response).poll(cx) {
            return Poll::Ready(Some(response));
        }
        if !terms.is_old {
            self.send_interim(cx);
        }
        self.poll_gone(cx).map(|()| None)
    }

    /// Sends what came of interim responses; an HTTP/1.0 client knows none.
    fn send_interim(&self, cx: &mut Context<'_>) {
        let came = self.connection.interim.take();
        let mut inbox = self.inbox.borrow_mut();
        inbox.interim.extend_from_slice(&came);
        // What the socket did not take before leaves now.
        inbox.send_interim(cx);
    }

    /// Ready when the client has gone. What it sends meanwhile is read, up to a bound.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inbox = self.inbox.borrow_mut();
        while inbox.socket.buffer.len() < MAX_PIPELINED {
            if !matches!(ready!(inbox.poll_fill(cx)), Ok(1..)) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Whether the gate keeps the connection after the next response.
    fn may_stay(&self) -> bool {
        let state = &self.connection.state;
        !(state.is_draining() || state.was_evicted() || state.is_ambiguous())
    }

    fn encode(
        &self,
        mut response: Response<ResponseBody>,
        terms: ResponseTerms,
        may_stay: bool,
    ) -> EncodedResponse {
        let (tunnel, is_old) = (response.body_mut().take_tunnel(), terms.is_old);
        let (head, framing, stays) = response_head::encode(&response, terms, may_stay, self.case);
        EncodedResponse { head, body: Some(response.into_body()), framing, is_old, stays, tunnel }
    }

    /// Encodes a refusal whose request was not parsed, and waits for nothing.
    fn encode_repeated(&self, answer: RepeatedAnswer<'_>, terms: ResponseTerms) -> EncodedResponse {
        let may_stay = self.may_stay() && !self.connection.state.closes_after_next();
        let (head, stays) = match answer {
            RepeatedAnswer::Kept { refusal, request_id, body } => {
                response_head::encode_kept(refusal, request_id, &body, terms, may_stay, self.case)
            }
            RepeatedAnswer::New(response) => return self.encode(response, terms, may_stay),
        };
        let (framing, is_old) = (ResponseFraming::Length, terms.is_old);
        EncodedResponse { head, body: None, framing, is_old, stays, tunnel: None }
    }

    /// Sends a response, and reads what is left of its request. An error is how the connection ends.
    async fn send(
        &self,
        EncodedResponse { head, body, framing, is_old, stays, tunnel }: EncodedResponse,
        timer: &mut ConnectionTimer<'_>,
    ) -> Result<(), ConnectionEnd> {
        let state = &self.connection.state;
        let mut interim = std::mem::take(&mut self.inbox.borrow_mut().interim);
        let came = self.connection.interim.take();
        if !is_old {
            interim.extend_from_slice(&came);
        }
        let mut outbox = Outbox::new(interim, head, body, framing, self.case);
        let sent = poll_fn(|cx| self.poll_sent(&mut outbox, timer, cx)).await;
        drop(outbox);
        state.flushed();
        *self.connection.head.borrow_mut() = ReceivedHead::default();
        match (sent, tunnel) {
            (Some(Sent::Whole), Some(tunnel)) => return Err(ConnectionEnd::Tunnel(tunnel)),
            (Some(Sent::Whole), None) if stays && self.read_rest().await => {}
            (Some(Sent::Part) | None, _) if framing == ResponseFraming::UntilClose => {
                return Err(ConnectionEnd::Reset);
            }
            (Some(_), _) => return Err(ConnectionEnd::Close),
            (None, _) => return Err(ConnectionEnd::Drop),
        }
        state.next_begins(self.inbox.borrow().socket.buffer.len());
        Ok(())
    }

    /// Ready when a response was sent; `None` if the client has gone, or reads too slowly.
    fn poll_sent(
        &self,
        outbox: &mut Outbox,
        timer: &mut ConnectionTimer<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Sent>> {
        let state = &self.connection.state;
        match outbox.poll_send(self.inbox, state, cx) {
            Poll::Ready(sent) => return Poll::Ready(sent.ok()),
            Poll::Pending if outbox.waits_for_body() => return self.poll_gone(cx).map(|()| None),
            Poll::Pending => {}
        }
        loop {
            if ready!(timer.poll(state, cx)) == Overdue::Write {
                return Poll::Ready(None);
            }
            timer.set(state);
        }
    }

    /// Reads what is left of a request that was answered. Returns whether the next one follows.
    async fn read_rest(&self) -> bool {
        if self.inbox.borrow().has_ended() {
            return true;
        }
        let mut left = MAX_DISCARDED;
        let rest = poll_fn(|cx| {
            loop {
                match ready!(self.inbox.borrow_mut().poll_piece(cx)) {
                    Ok(None) => return Poll::Ready(true),
                    Ok(Some(piece)) if piece.len() <= left => left -= piece.len(),
                    Ok(Some(_)) | Err(_) => return Poll::Ready(false),
                }
            }
        });
        let has_ended = tokio::time::timeout(DISCARD_TIMEOUT, rest).await.unwrap_or(false);
        if !has_ended {
            self.connection.state.linger();
        }
        has_ended
    }
}

fn status_of(error: HeadError) -> StatusCode {
    match error {
        HeadError::LineTooLong => StatusCode::URI_TOO_LONG,
        HeadError::TooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        HeadError::Malformed(_) => StatusCode::BAD_REQUEST,
    }
}

/// The bytes of an error response with this status, to a request whose head could not be read.
fn refusal(status: StatusCode, case: HeaderCase) -> Vec<u8> {
    let response = respond::problem_without_request(status);
    let body = response.body().clone();
    let terms = ResponseTerms { is_head: false, is_old: false, keeps_alive: false };
    let (mut bytes, ..) = response_head::encode(&response.map(ResponseBody::generated), terms, false, case);
    bytes.extend_from_slice(&body);
    bytes
}

/// Ends a connection.
async fn finish(
    mut inbox: Inbox,
    connection: &Rc<DownstreamConnection>,
    end: ConnectionEnd,
    case: HeaderCase,
) {
    let state = &connection.state;
    match end {
        ConnectionEnd::Tunnel(run) => {
            let read = inbox.socket.buffer.split().freeze();
            let connection = Rc::clone(connection);
            // Its own task, as the connection serves no requests any more. It holds the connection's slot.
            tokio::task::spawn_local(async move {
                run(inbox.socket.stream, read).await;
                drop(connection);
            });
            return;
        }
        ConnectionEnd::Drop => return,
        ConnectionEnd::Refuse(status) => {
            let page = refusal(status, case);
            // What does not fit into the socket's buffer is lost: the connection ends.
            poll_fn(|cx| {
                let _ = Pin::new(&mut inbox.socket.stream).poll_write(cx, &page);
                Poll::Ready(())
            })
            .await;
            state.linger();
        }
        ConnectionEnd::Reset => {
            // A reset overtakes what has not arrived yet.
            tokio::time::sleep(DELIVERY).await;
            return inbox.socket.stream.reset_on_close();
        }
        ConnectionEnd::Close | ConnectionEnd::Leave => {}
    }
    let mut linger = Linger::default();
    let closed = poll_fn(|cx| {
        // Another client waits for its place.
        if connection.should_evict(cx) || state.was_evicted() {
            let _ = Pin::new(&mut inbox.socket.stream).poll_shutdown(cx);
            return Poll::Ready(());
        }
        if !linger.has_begun() {
            let shut = ready!(Pin::new(&mut inbox.socket.stream).poll_shutdown(cx));
            if shut.is_err() || !state.lingers() {
                return Poll::Ready(());
            }
        }
        linger.poll(&mut inbox.socket.stream, cx)
    });
    // TLS has to send first what it holds back.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
}

/// Bytes of requests that a client sends before it has its response.
const MAX_PIPELINED: usize = 32 * 1024;
/// Bytes of a body that are read after its response.
const MAX_DISCARDED: usize = 64 * 1024;
/// For the part of a response that came to arrive.
const DELIVERY: Duration = Duration::from_secs(1);
/// For the end of a connection to be sent, and for the client to end it as well.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
