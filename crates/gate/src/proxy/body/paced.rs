//! A body that waits for limits that count bytes.
//!
//! One piece is read, taken from its buckets, and held until all of them have it. Nothing else is read meanwhile, so the
//! sender waits as it would for a slow client. The time-outs of both sides do not see the pause: each counts only while it
//! waits for its own side.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{BodyError, add_to_hint};
use crate::policy::Pace;
use crate::time::{Clock, Span};

/// A body on its way through buckets of bytes.
pub(in crate::proxy) struct PacedBody<B> {
    source: B,
    paces: Box<[Pace]>,
    clock: Clock,
    /// What was read, and not taken from the buckets yet.
    rest: Bytes,
    /// What was taken in advance, until the timer ends.
    held: Bytes,
    /// Made at the first wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> PacedBody<B> {
    /// The same body, at the pace of the slowest of these.
    pub(in crate::proxy) fn new(source: B, paces: Box<[Pace]>, clock: Clock) -> Self {
        Self { source, paces, clock, rest: Bytes::new(), held: Bytes::new(), timer: None }
    }

    /// Takes a piece from all buckets. Returns how long it has to wait.
    fn take_piece(&mut self) -> (Bytes, Span) {
        let now = self.clock.now();
        let most = self.paces.iter().map(|pace| pace.limit.piece(pace.bucket, now)).min();
        let piece = self.rest.split_to(self.rest.len().min(most.unwrap_or(usize::MAX)));
        let waits = self.paces.iter().map(|pace| pace.limit.take(pace.bucket, piece.len(), now));
        let wait = waits.max().unwrap_or_default();
        (piece, wait)
    }

    fn hold(&mut self, piece: Bytes, wait: Span) {
        self.held = piece;
        let due = Instant::now() + wait.to_std();
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(due),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(due))),
        }
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.held.is_empty() {
            if this.rest.is_empty() {
                match ready!(Pin::new(&mut this.source).poll_frame(cx))
                    .map(|frame| frame.map(Frame::into_data))
                {
                    Some(Ok(Ok(piece))) => this.rest = piece,
                    Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(None),
                }
            }
            let (piece, wait) = this.take_piece();
            if wait == Span::ZERO {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            this.hold(piece, wait);
        }
        if let Some(timer) = &mut this.timer {
            ready!(timer.as_mut().poll(cx));
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.held)))))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.rest.is_empty() && self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        add_to_hint((self.held.len() + self.rest.len()) as u64, &self.source.size_hint())
    }
}

/// What a client that leaves did not get is there for others.
impl<B> Drop for PacedBody<B> {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            self.paces.iter().for_each(|pace| pace.limit.give_back(pace.bucket, self.held.len()));
        }
    }
}
