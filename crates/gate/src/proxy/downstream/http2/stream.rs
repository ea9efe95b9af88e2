//! The streams of one HTTP/2 connection: their number, activity and cancellations.
//!
//! A stream is a task from its request to the last byte of its response. A stream whose client accepts no byte of the
//! response for `proxy.idle_timeout` ends. A client that cancels many more requests than it lets finish loses its
//! connection: each cancelled request has cost the application a connection. `http2` closes the connection.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::event::{Event, Events};
use crate::proxy::body::{BodyError, ClientBody, ReadAhead, ResponseBody, add_to_hint, complete_headers};
use crate::proxy::headers::REQUEST_ID;
use crate::proxy::request::translate::to_http1;
use crate::proxy::transaction::response_future::ResponseFuture;
use crate::proxy::transaction::service::Service;

/// The streams of one connection.
pub(super) struct Streams {
    open_streams: Cell<usize>,
    /// When the last stream ended, or the connection began.
    idle_since: Cell<Instant>,
    had_any: Cell<bool>,
    /// Requests that h2 has handed over.
    requests: Cell<u64>,
    /// Streams cancelled by the client, less completed ones.
    cancelled: Cell<u32>,
    /// Whether its clients are others': a proxy that asks cancels what they cancel.
    may_cancel: bool,
    /// The activity of the latest request, until its task starts.
    latest: Cell<Option<Rc<StreamActivity>>>,
    stall_timeout: Duration,
    waker: OnceCell<Waker>,
    events: Events,
}

/// The progress of a stream.
struct StreamActivity {
    /// When the head or a piece of the body was last handed over; `None` while the stream waits for the application.
    last_activity: Cell<Option<Instant>>,
    /// Whether the response waits for limits that count bytes, or for messages of the client.
    is_paced: Cell<bool>,
    body: RefCell<BodyAhead>,
}

/// The body of a response, and what was read of it ahead of a slow client.
#[derive(Default)]
struct BodyAhead {
    /// `None` once all of it was read: that ends the request.
    body: Option<ResponseBody>,
    /// What may be read ahead of the client, if that is more than nothing.
    ahead: Option<Box<ReadAhead>>,
    read: VecDeque<Result<Frame<Bytes>, BodyError>>,
    held: usize,
}

impl BodyAhead {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match (self.read.pop_front(), &mut self.body) {
            (Some(frame), _) => {
                self.held -= length(&frame);
                Poll::Ready(Some(frame))
            }
            (None, Some(body)) => Pin::new(body).poll_frame(cx),
            (None, None) => Poll::Ready(None),
        }
    }

    /// Reads what has come, as far as there is memory for it.
    fn read(&mut self, cx: &mut Context<'_>) {
        while let Some(body) = &mut self.body
            && self.ahead.as_mut().is_some_and(|ahead| ahead.allows(self.held))
        {
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else { return };
            let is_last = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
            if let Some(frame) = frame {
                self.held += length(&frame);
                self.read.push_back(frame);
            }
            if is_last {
                self.body = None;
            }
        }
    }
}

fn length(frame: &Result<Frame<Bytes>, BodyError>) -> usize {
    frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len)
}

impl Streams {
    /// `stall_timeout` is for a client that accepts no byte of a response.
    pub(super) fn new(service: &Service, stall_timeout: Duration) -> Rc<Self> {
        Rc::new(Self {
            open_streams: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            had_any: Cell::new(false),
            requests: Cell::new(0),
            cancelled: Cell::new(0),
            may_cancel: service.serves_trusted_asker(),
            latest: Cell::new(None),
            stall_timeout,
            waker: OnceCell::new(),
            events: service.events(),
        })
    }

    /// When the last stream ended; `None` while one is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.open_streams.get() == 0).then(|| self.idle_since.get())
    }

    pub(super) fn had_any(&self) -> bool {
        self.had_any.get()
    }

    /// The requests that could be read.
    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub(super) fn is_abused(&self) -> bool {
        !self.may_cancel && self.cancelled.get() > MAX_CANCELLED
    }

    /// A connection is one task for its whole life, so its waker never changes.
    pub(super) fn remember_waker(&self, cx: &Context<'_>) {
        self.waker.get_or_init(|| cx.waker().clone());
    }

    fn register(&self) -> Rc<StreamActivity> {
        self.requests.set(self.requests.get() + 1);
        let (last_activity, is_paced) = (Cell::new(None), Cell::new(false));
        let activity = Rc::new(StreamActivity { last_activity, is_paced, body: RefCell::default() });
        self.latest.set(Some(Rc::clone(&activity)));
        activity
    }
}

/// The service for the streams of one connection.
pub(super) struct Http2Service {
    service: Rc<Service>,
    streams: Rc<Streams>,
}

impl Http2Service {
    pub(super) fn new(service: &Rc<Service>, streams: &Rc<Streams>) -> Self {
        Self { service: Rc::clone(service), streams: Rc::clone(streams) }
    }
}

impl hyper::service::Service<Request<Incoming>> for Http2Service {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = StreamResponse;

    fn call(&self, mut request: Request<Incoming>) -> StreamResponse {
        let activity = self.streams.register();
        to_http1(&mut request);
        StreamResponse { response: self.service.respond(request.map(ClientBody::Http2)), activity }
    }
}

/// The response future of one stream.
pub(super) struct StreamResponse {
    response: ResponseFuture,
    activity: Rc<StreamActivity>,
}

impl Future for StreamResponse {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(mut response) = ready!(Pin::new(&mut self.response).poll(cx));
        complete_headers(&mut response);
        forget_id(response.headers_mut());
        self.activity.last_activity.set(Some(Instant::now()));
        self.activity.is_paced.set(response.body().is_paced());
        Poll::Ready(Ok(response.map(|mut body| {
            let ahead = body.take_ahead();
            *self.activity.body.borrow_mut() = BodyAhead { body: Some(body), ahead, ..BodyAhead::default() };
            TrackedBody { activity: Rc::clone(&self.activity) }
        })))
    }
}

/// Keeps the request's id out of the table of the header compression (RFC 7541, 7.1.3): no id comes twice, and each would
/// be compared with all the ones before.
fn forget_id(headers: &mut HeaderMap) {
    if let Some(id) = headers.get_mut(REQUEST_ID) {
        id.set_sensitive(true);
    }
}

/// A response body that records when it is polled. hyper does not poll it while the client accepts nothing.
pub(super) struct TrackedBody {
    activity: Rc<StreamActivity>,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = self.activity.body.borrow_mut().poll_frame(cx);
        // A pending body waits for the upstream, which has its own time-out.
        self.activity.last_activity.set(if frame.is_ready() { Some(Instant::now()) } else { None });
        frame
    }

    fn is_end_stream(&self) -> bool {
        let ahead = self.activity.body.borrow();
        ahead.read.is_empty() && ahead.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.activity.body.borrow();
        let rest = ahead.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        add_to_hint(ahead.held as u64, &rest)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        // The request ends with its body.
        *self.activity.body.borrow_mut() = BodyAhead::default();
    }
}

/// Spawns the tasks of streams on this thread.
#[derive(Clone)]
pub(super) struct StreamExecutor(pub(super) Rc<Streams>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let activity = self.0.latest.take();
        let guard = StreamGuard::enter(&self.0, activity.clone());
        tokio::task::spawn_local(async move {
            let timeout = guard.streams.stall_timeout;
            match activity {
                Some(activity) => until_stalled(stream, &activity, timeout).await,
                None => stream.await,
            }
            drop(guard);
        });
    }
}

/// Runs a stream until it ends, or its client has accepted nothing for `timeout`.
async fn until_stalled(stream: impl Future<Output = ()>, activity: &StreamActivity, timeout: Duration) {
    let mut stream = pin!(stream);
    loop {
        let next_check = activity.last_activity.get().unwrap_or_else(Instant::now) + timeout;
        let end = poll_fn(|cx| {
            let polled = stream.as_mut().poll(cx);
            // The client is what it waits for.
            if polled.is_pending() && activity.last_activity.get().is_some() {
                activity.body.borrow_mut().read(cx);
            }
            polled
        });
        if tokio::time::timeout_at(next_check, end).await.is_ok() {
            return;
        }
        let is_stalled = activity.last_activity.get().is_some_and(|last| Instant::now() >= last + timeout);
        if is_stalled {
            return;
        }
    }
}

/// Counts a stream while its task lives, and records how it ended.
struct StreamGuard {
    streams: Rc<Streams>,
    activity: Option<Rc<StreamActivity>>,
}

impl StreamGuard {
    fn enter(streams: &Rc<Streams>, activity: Option<Rc<StreamActivity>>) -> Self {
        streams.open_streams.set(streams.open_streams.get() + 1);
        streams.had_any.set(true);
        Self { streams: Rc::clone(streams), activity }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let streams = &self.streams;
        if std::thread::panicking() {
            streams.events.emit(&Event::Panicked);
        }
        streams.open_streams.set(streams.open_streams.get() - 1);
        streams.idle_since.set(Instant::now());
        let waits = |activity: &&Rc<StreamActivity>| activity.last_activity.get().is_none();
        let count = streams.cancelled.get();
        streams.cancelled.set(match self.activity.as_ref().filter(waits) {
            None => count.saturating_sub(1),
            // It waited for the gate, and a person has stopped a slow download; or it waited for its own client.
            Some(activity) if activity.is_paced.get() => count,
            // It still waited for the application: the client cancelled it.
            Some(_) => count + 1,
        });
        if let Some(waker) = streams.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// More than a browser cancels when its user leaves a page that is still loading.
const MAX_CANCELLED: u32 = 100;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::proxy::body::BodyMemory;

    /// The memory of a body that was read to its end went to others while all of it waited for the client.
    #[test]
    fn what_is_read_ahead_holds_its_memory_until_it_is_sent() {
        const STEP: usize = 64 * 1024;
        let (memory, owner) = (BodyMemory::new(4 * STEP), Some(IpAddr::from([192, 0, 2, 1])));
        let ahead = || ReadAhead::new(&memory, owner, 200 * 1024);
        let mut body = ResponseBody::generated(Bytes::from(vec![0; 1024])).with_ahead(ahead());
        let ahead_of_client = body.take_ahead();
        let mut stream = BodyAhead { body: Some(body), ahead: ahead_of_client, ..BodyAhead::default() };
        stream.read(&mut Context::from_waker(Waker::noop()));
        assert!(stream.body.is_none() && stream.held == 1024, "it was read to its end");
        assert!(!ahead().allows(0), "a quarter is for one client, and is taken");
        drop(stream);
        assert!(ahead().allows(0));
    }
}
