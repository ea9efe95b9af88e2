//! A client's body on its way to the upstream.
//!
//! The surprising thing: how far it has come is shared with whoever waits for the answer, because an answer that is there
//! before the request is over makes the connection suspect.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::BodyError;
use super::patience::Patience;
use super::reply::longer_by;

/// A client's body before it leaves.
#[derive(Debug)]
pub enum Arrival {
    /// It comes as the client sends it.
    Streaming(Incoming),
    /// All of it was read; `None` if there is nothing in it.
    Whole(Option<Bytes>),
    /// Its beginning was read, and the rest comes as the client sends it.
    Begun(Option<Bytes>, Incoming),
}

impl Arrival {
    /// Whether nothing comes any more.
    #[must_use]
    pub fn is_end_stream(&self) -> bool {
        match self {
            Self::Streaming(incoming) => incoming.is_end_stream(),
            Self::Begun(first, incoming) => first.is_none() && incoming.is_end_stream(),
            Self::Whole(bytes) => bytes.is_none(),
        }
    }

    /// How much comes.
    #[must_use]
    pub fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streaming(incoming) => incoming.size_hint(),
            Self::Begun(first, incoming) => {
                longer_by(first.as_ref().map_or(0, Bytes::len) as u64, &incoming.size_hint())
            }
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
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
            Arrival::Streaming(incoming) | Arrival::Begun(_, incoming) if !incoming.is_end_stream() => {
                Sent::Partly
            }
            Arrival::Streaming(_) | Arrival::Begun(..) | Arrival::Whole(_) => Sent::Wholly,
        };
        let progress = Rc::new(Progress { state: Cell::new(state), moved: Cell::new(None) });
        (Self { arrival, patience: Patience::with_client(timeout), progress: Rc::clone(&progress) }, progress)
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
            Arrival::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Arrival::Begun(first, incoming) => match first.take() {
                Some(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => incoming,
            },
            Arrival::Streaming(incoming) => incoming,
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
        self.arrival.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.arrival.size_hint()
    }
}
