//! Bodies on their way through: streamed, and never waited for without an end. Only where a limit has to know what is
//! in a client's body is it read to its end first, in `whole`.
//!
//! Trailers are dropped in both directions: nothing of them may be promoted to a header. The surprising thing: an
//! answer's body is where a request ends, so it carries what is to happen then.

mod whole;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

pub(super) use self::whole::read;

use super::upstream::Lease;

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// No progress in time.
    #[error("the body made no progress in time")]
    Stalled,
    /// What hyper says.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// A client's body before it leaves.
#[derive(Debug)]
pub enum Arrival {
    /// It comes as the client sends it.
    Streaming(Incoming),
    /// All of it was read; `None` if there is nothing in it.
    Whole(Option<Bytes>),
}

/// A client's body on its way to the upstream.
#[derive(Debug)]
pub struct RequestBody {
    arrival: Arrival,
    patience: Patience,
    progress: Rc<Progress>,
}

/// How far a client's body has come; shared with whoever waits for the answer.
#[derive(Debug)]
pub struct Progress {
    state: Cell<Sent>,
    moved: Cell<Option<Instant>>,
}

/// How far a client's body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// More is expected.
    Partly,
    /// All of it was read.
    Wholly,
    /// The client made no progress in time.
    Stalled,
    /// The client broke off, or what it sent is not a body.
    Broken,
}

impl RequestBody {
    /// A body that has to make some progress within `timeout`.
    pub fn new(arrival: Arrival, timeout: Duration) -> (Self, Rc<Progress>) {
        let state = match &arrival {
            Arrival::Streaming(incoming) if !incoming.is_end_stream() => Sent::Partly,
            Arrival::Streaming(_) | Arrival::Whole(_) => Sent::Wholly,
        };
        let progress = Rc::new(Progress { state: Cell::new(state), moved: Cell::new(None) });
        (Self { arrival, patience: Patience::new(timeout), progress: Rc::clone(&progress) }, progress)
    }
}

impl Progress {
    /// How far the body has come.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.state.get()
    }

    /// When a piece of the body last came that was not all of it.
    #[must_use]
    pub fn moved(&self) -> Option<Instant> {
        self.moved.get()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let incoming = match &mut this.arrival {
            Arrival::Streaming(incoming) => incoming,
            Arrival::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        };
        let polled = this.patience.poll_data(incoming, cx);
        let state = match &polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(_))) if incoming.is_end_stream() => Sent::Wholly,
            Poll::Ready(Some(Ok(_))) => Sent::Partly,
            Poll::Ready(None) => Sent::Wholly,
            Poll::Ready(Some(Err(BodyError::Stalled))) => Sent::Stalled,
            Poll::Ready(Some(Err(BodyError::Broken(_)))) => Sent::Broken,
        };
        this.progress.state.set(state);
        if state == Sent::Partly {
            this.progress.moved.set(Some(Instant::now()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.arrival {
            Arrival::Streaming(incoming) => incoming.is_end_stream(),
            Arrival::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.arrival {
            Arrival::Streaming(incoming) => incoming.size_hint(),
            Arrival::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// An answer's body on its way to the client.
pub struct ReplyBody {
    content: Content,
    end: Option<Box<dyn AtEnd>>,
    bytes: u64,
    complete: bool,
}

/// What is to happen when an answer has left, or the client has.
pub trait AtEnd {
    /// `bytes` of the body were handed to the connection; `complete` says whether that is all of it.
    fn ended(&mut self, bytes: u64, complete: bool);
}

enum Content {
    Ours(Option<Bytes>),
    Upstreams(Box<Relay>),
}

struct Relay {
    incoming: Incoming,
    patience: Patience,
    lease: Option<Lease>,
}

impl ReplyBody {
    /// An answer of our own.
    #[must_use]
    pub fn ours(bytes: Bytes) -> Self {
        let content = Content::Ours(Some(bytes).filter(|bytes| !bytes.is_empty()));
        Self { content, end: None, bytes: 0, complete: false }
    }

    /// An upstream's answer, which has to make some progress within `timeout`. The connection is given back when
    /// the body has come to its end, and closed otherwise.
    #[must_use]
    pub fn upstreams(incoming: Incoming, timeout: Duration, lease: Lease) -> Self {
        if incoming.is_end_stream() {
            lease.give_back();
            return Self::ours(Bytes::new());
        }
        let relay = Relay { incoming, patience: Patience::new(timeout), lease: Some(lease) };
        Self { content: Content::Upstreams(Box::new(relay)), end: None, bytes: 0, complete: false }
    }

    /// Does this when the answer has left.
    pub fn at_end(&mut self, end: Box<dyn AtEnd>) {
        self.end = Some(end);
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.content {
            Content::Ours(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Content::Upstreams(relay) => ready!(relay.poll_data(cx)),
        };
        match &frame {
            None => this.complete = true,
            Some(Ok(frame)) => this.bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
            Some(Err(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Ours(bytes) => bytes.is_none(),
            Content::Upstreams(relay) => relay.lease.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Ours(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Upstreams(relay) => relay.incoming.size_hint(),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        let complete = self.complete || self.is_end_stream();
        if let Some(end) = &mut self.end {
            end.ended(self.bytes, complete);
        }
    }
}

impl Relay {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(self.patience.poll_data(&mut self.incoming, cx));
        match &frame {
            Some(Err(_)) => drop(self.lease.take().map(Lease::close)),
            Some(Ok(_)) if !self.incoming.is_end_stream() => {}
            _ => drop(self.lease.take().map(Lease::give_back)),
        }
        Poll::Ready(frame)
    }
}

/// Waits for the next piece of a body, but not for ever. The timer is made only when there is something to wait
/// for: most small bodies are there already.
#[derive(Debug)]
struct Patience {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Patience {
    fn new(timeout: Duration) -> Self {
        Self { timeout, timer: None, waiting: false }
    }

    fn poll_data(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match Pin::new(&mut *incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) if !frame.is_data() => {}
                Poll::Ready(frame) => {
                    self.waiting = false;
                    return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
                }
                Poll::Pending => return self.poll_timer(cx).map(|()| Some(Err(BodyError::Stalled))),
            }
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if !std::mem::replace(&mut self.waiting, true) {
            timer.as_mut().reset(Instant::now() + timeout);
        }
        timer.as_mut().poll(cx)
    }
}
