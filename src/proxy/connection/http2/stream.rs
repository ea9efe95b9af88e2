//! The streams of one connection: how many there are, whether they move, and what their clients are after.
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
use crate::proxy::answering::Answering;
use crate::proxy::body::{BodyError, ReplyBody};
use crate::proxy::service::Service;

/// What a connection knows of its streams.
pub(super) struct Streams {
    open: Cell<usize>,
    /// When the last one ended, or the connection began.
    since: Cell<Instant>,
    were_there: Cell<bool>,
    /// Given up by the client, less those that were answered.
    given_up: Cell<u32>,
    /// Of the request that was handed on and has no task yet.
    latest: Cell<Option<Rc<Pulse>>>,
    patience: Duration,
    waker: OnceCell<Waker>,
    events: Events,
}

/// Whether a stream moves.
struct Pulse {
    /// When its head or a piece of it was last handed over; `None` while the application is waited for.
    moved: Cell<Option<Instant>>,
}

impl Streams {
    /// `patience` is for a client that takes nothing of an answer.
    pub(super) fn new(events: Events, patience: Duration) -> Rc<Self> {
        Rc::new(Self {
            open: Cell::new(0),
            since: Cell::new(Instant::now()),
            were_there: Cell::new(false),
            given_up: Cell::new(0),
            latest: Cell::new(None),
            patience,
            waker: OnceCell::new(),
            events,
        })
    }

    /// Since when there is no stream; `None` if there is one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.open.get() == 0).then(|| self.since.get())
    }

    pub(super) fn were_there(&self) -> bool {
        self.were_there.get()
    }

    pub(super) fn are_abused(&self) -> bool {
        self.given_up.get() > MOST_GIVEN_UP
    }

    /// A connection is one task for its whole life, so its waker never changes.
    pub(super) fn remember_waker(&self, cx: &Context<'_>) {
        self.waker.get_or_init(|| cx.waker().clone());
    }

    fn begins(&self) -> Rc<Pulse> {
        let pulse = Rc::new(Pulse { moved: Cell::new(None) });
        self.latest.set(Some(Rc::clone(&pulse)));
        pulse
    }
}

/// The service, for requests that come side by side.
pub(super) struct Multiplexed {
    service: Service,
    streams: Rc<Streams>,
}

impl Multiplexed {
    pub(super) fn new(service: Service, streams: &Rc<Streams>) -> Self {
        Self { service, streams: Rc::clone(streams) }
    }
}

impl hyper::service::Service<Request<Incoming>> for Multiplexed {
    type Response = Response<Metered>;
    type Error = Infallible;
    type Future = Awaited;

    fn call(&self, mut request: Request<Incoming>) -> Awaited {
        let pulse = self.streams.begins();
        to_http1(&mut request);
        Awaited { answering: hyper::service::Service::call(&self.service, request), pulse }
    }
}

/// An answer that is waited for.
pub(super) struct Awaited {
    answering: Answering,
    pulse: Rc<Pulse>,
}

impl Future for Awaited {
    type Output = Result<Response<Metered>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(response) = ready!(Pin::new(&mut self.answering).poll(cx));
        self.pulse.moved.set(Some(Instant::now()));
        let pulse = Rc::clone(&self.pulse);
        Poll::Ready(Ok(response.map(|body| Metered { body, pulse })))
    }
}

/// An answer's body that tells when it is asked for more: it is not while the client takes nothing.
pub(super) struct Metered {
    body: ReplyBody,
    pulse: Rc<Pulse>,
}

impl Body for Metered {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // Where nothing is there yet it is the upstream that is waited for, which has its own time.
        self.pulse.moved.set(if frame.is_ready() { Some(Instant::now()) } else { None });
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
pub(super) struct Local(pub(super) Rc<Streams>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, stream: F) {
        let pulse = self.0.latest.take();
        let presence = Presence::enter(&self.0, pulse.clone());
        tokio::task::spawn_local(async move {
            let patience = presence.streams.patience;
            match pulse {
                Some(pulse) => while_it_moves(stream, &pulse, patience).await,
                None => stream.await,
            }
            drop(presence);
        });
    }
}

/// The stream until it ends, or until its client has taken nothing for so long.
async fn while_it_moves(stream: impl Future<Output = ()>, pulse: &Pulse, patience: Duration) {
    let mut stream = pin!(stream);
    loop {
        let look = pulse.moved.get().map_or_else(|| Instant::now() + patience, |moved| moved + patience);
        if tokio::time::timeout_at(look, stream.as_mut()).await.is_ok() {
            return;
        }
        let is_stuck = pulse.moved.get().is_some_and(|moved| Instant::now() >= moved + patience);
        if is_stuck {
            return;
        }
    }
}

/// Counts a stream as long as its task lives, and notes how that ended.
struct Presence {
    streams: Rc<Streams>,
    pulse: Option<Rc<Pulse>>,
}

impl Presence {
    fn enter(streams: &Rc<Streams>, pulse: Option<Rc<Pulse>>) -> Self {
        streams.open.set(streams.open.get() + 1);
        streams.were_there.set(true);
        Self { streams: Rc::clone(streams), pulse }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let streams = &self.streams;
        if std::thread::panicking() {
            streams.events.emit(&Event::Panicked);
        }
        streams.open.set(streams.open.get() - 1);
        streams.since.set(Instant::now());
        // The application was still asked for it: the client did not wait.
        let is_given_up = self.pulse.as_ref().is_some_and(|pulse| pulse.moved.get().is_none());
        let count = streams.given_up.get();
        streams.given_up.set(if is_given_up { count + 1 } else { count.saturating_sub(1) });
        if let Some(waker) = streams.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// More than a person gives up who leaves a page in the middle of it.
const MOST_GIVEN_UP: u32 = 100;
