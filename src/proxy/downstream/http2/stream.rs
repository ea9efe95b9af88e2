//! The streams of one HTTP/2 connection: their number, activity and cancellations.
//!
//! A stream is a task from its request to the last byte of its answer. One whose client takes nothing of its answer for
//! `proxy.idle_timeout` is ended. The surprising thing: whoever gives up more requests than it lets be answered is not
//! served any longer, because each of them has cost the application a connection.

use std::cell::{Cell, OnceCell};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::translate::to_http1;
use crate::event::{Event, Events};
use crate::proxy::body::{BodyError, ResponseBody};
use crate::proxy::transaction::response_future::ResponseFuture;
use crate::proxy::transaction::service::Service;

/// What a connection knows of its streams.
pub(super) struct Streams {
    open_streams: Cell<usize>,
    /// When the last one ended, or the connection began.
    idle_since: Cell<Instant>,
    had_any: Cell<bool>,
    /// Given up by the client, less those that were answered.
    cancelled: Cell<u32>,
    /// Of the request that was handed on and has no task yet.
    latest: Cell<Option<Rc<StreamActivity>>>,
    stall_timeout: Duration,
    waker: OnceCell<Waker>,
    events: Events,
}

/// Whether a stream moves.
struct StreamActivity {
    /// When its head or a piece of it was last handed over; `None` while the application is waited for.
    last_activity: Cell<Option<Instant>>,
}

impl Streams {
    /// `patience` is for a client that takes nothing of an answer.
    pub(super) fn new(events: Events, patience: Duration) -> Rc<Self> {
        Rc::new(Self {
            open_streams: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            had_any: Cell::new(false),
            cancelled: Cell::new(0),
            latest: Cell::new(None),
            stall_timeout: patience,
            waker: OnceCell::new(),
            events,
        })
    }

    /// Since when there is no stream; `None` if there is one.
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
        let pulse = Rc::new(StreamActivity { last_activity: Cell::new(None) });
        self.latest.set(Some(Rc::clone(&pulse)));
        pulse
    }
}

/// The service, for requests that come side by side.
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
        let pulse = self.streams.register();
        to_http1(&mut request);
        StreamResponse { response: hyper::service::Service::call(&self.service, request), activity: pulse }
    }
}

/// An answer that is waited for.
pub(super) struct StreamResponse {
    response: ResponseFuture,
    activity: Rc<StreamActivity>,
}

impl Future for StreamResponse {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(response) = ready!(Pin::new(&mut self.response).poll(cx));
        self.activity.last_activity.set(Some(Instant::now()));
        let pulse = Rc::clone(&self.activity);
        Poll::Ready(Ok(response.map(|body| TrackedBody { body, activity: pulse })))
    }
}

/// An answer's body that tells when it is asked for more: it is not while the client takes nothing.
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
        // Where nothing is there yet it is the upstream that is waited for, which has its own time.
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

/// Runs streams on this thread.
#[derive(Clone)]
pub(super) struct StreamExecutor(pub(super) Rc<Streams>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let pulse = self.0.latest.take();
        let presence = StreamGuard::enter(&self.0, pulse.clone());
        tokio::task::spawn_local(async move {
            let patience = presence.streams.stall_timeout;
            match pulse {
                Some(pulse) => until_stalled(stream, &pulse, patience).await,
                None => stream.await,
            }
            drop(presence);
        });
    }
}

/// The stream until it ends, or until its client has taken nothing for so long.
async fn until_stalled(stream: impl Future<Output = ()>, pulse: &StreamActivity, patience: Duration) {
    let mut stream = pin!(stream);
    loop {
        let look =
            pulse.last_activity.get().map_or_else(|| Instant::now() + patience, |moved| moved + patience);
        if tokio::time::timeout_at(look, stream.as_mut()).await.is_ok() {
            return;
        }
        let is_stuck = pulse.last_activity.get().is_some_and(|moved| Instant::now() >= moved + patience);
        if is_stuck {
            return;
        }
    }
}

/// Counts a stream as long as its task lives, and notes how that ended.
struct StreamGuard {
    streams: Rc<Streams>,
    activity: Option<Rc<StreamActivity>>,
}

impl StreamGuard {
    fn enter(streams: &Rc<Streams>, pulse: Option<Rc<StreamActivity>>) -> Self {
        streams.open_streams.set(streams.open_streams.get() + 1);
        streams.had_any.set(true);
        Self { streams: Rc::clone(streams), activity: pulse }
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
        // The application was still asked for it: the client did not wait.
        let is_given_up = self.activity.as_ref().is_some_and(|pulse| pulse.last_activity.get().is_none());
        let count = streams.cancelled.get();
        streams.cancelled.set(if is_given_up { count + 1 } else { count.saturating_sub(1) });
        if let Some(waker) = streams.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// More than a person gives up who leaves a page in the middle of it.
const MAX_CANCELLED: u32 = 100;
