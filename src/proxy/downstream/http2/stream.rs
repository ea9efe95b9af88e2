//! The streams of one HTTP/2 connection: their number, activity and cancellations.
//!
//! A stream is a task from its request to the last byte of its response. A stream whose client accepts no byte of the
//! response for `proxy.idle_timeout` ends. A client that cancels many more requests than it lets finish loses its
//! connection: each cancelled request has cost the application a connection. `http2` closes the connection.

use std::cell::{Cell, OnceCell};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::translate::to_http1;
use crate::event::{Event, Events};
use crate::proxy::body::{BodyError, ResponseBody};
use crate::proxy::headers::REQUEST_ID;
use crate::proxy::transaction::response_future::ResponseFuture;
use crate::proxy::transaction::service::Service;

/// The streams of one connection.
pub(super) struct Streams {
    open_streams: Cell<usize>,
    /// When the last stream ended, or the connection began.
    idle_since: Cell<Instant>,
    had_any: Cell<bool>,
    /// Streams cancelled by the client, less completed ones.
    cancelled: Cell<u32>,
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
}

impl Streams {
    /// `stall_timeout` is for a client that accepts no byte of a response.
    pub(super) fn new(events: Events, stall_timeout: Duration) -> Rc<Self> {
        Rc::new(Self {
            open_streams: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            had_any: Cell::new(false),
            cancelled: Cell::new(0),
            latest: Cell::new(None),
            stall_timeout,
            waker: OnceCell::new(),
            events,
        })
    }

    /// When the last stream ended; `None` while one is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.open_streams.get() == 0).then(|| self.idle_since.get())
    }

    pub(super) fn had_any(&self) -> bool {
        self.had_any.get()
    }

    pub(super) fn is_abused(&self) -> bool {
        self.cancelled.get() > MAX_CANCELLED
    }

    /// A connection is one task for its whole life, so its waker never changes.
    pub(super) fn remember_waker(&self, cx: &Context<'_>) {
        self.waker.get_or_init(|| cx.waker().clone());
    }

    fn register(&self) -> Rc<StreamActivity> {
        let activity = Rc::new(StreamActivity { last_activity: Cell::new(None) });
        self.latest.set(Some(Rc::clone(&activity)));
        activity
    }
}

/// The service for the streams of one connection.
pub(super) struct Http2Service {
    service: Service,
    streams: Rc<Streams>,
}

impl Http2Service {
    pub(super) fn new(service: Service, streams: &Rc<Streams>) -> Self {
        Self { service, streams: Rc::clone(streams) }
    }
}

impl hyper::service::Service<Request<Incoming>> for Http2Service {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = StreamResponse;

    fn call(&self, mut request: Request<Incoming>) -> StreamResponse {
        let activity = self.streams.register();
        to_http1(&mut request);
        StreamResponse { response: hyper::service::Service::call(&self.service, request), activity }
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
        forget_id(response.headers_mut());
        self.activity.last_activity.set(Some(Instant::now()));
        let activity = Rc::clone(&self.activity);
        Poll::Ready(Ok(response.map(|body| TrackedBody { body, activity })))
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
    body: ResponseBody,
    activity: Rc<StreamActivity>,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // A pending body waits for the upstream, which has its own time-out.
        self.activity.last_activity.set(if frame.is_ready() { Some(Instant::now()) } else { None });
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
        if tokio::time::timeout_at(next_check, stream.as_mut()).await.is_ok() {
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
        // The stream still waited for the application: the client cancelled it.
        let is_cancelled =
            self.activity.as_ref().is_some_and(|activity| activity.last_activity.get().is_none());
        let count = streams.cancelled.get();
        streams.cancelled.set(if is_cancelled { count + 1 } else { count.saturating_sub(1) });
        if let Some(waker) = streams.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// More than a browser cancels when its user leaves a page that is still loading.
const MAX_CANCELLED: u32 = 100;
