//! What of a body was read before its head was sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::BodyError;

/// The pieces that were read, and the trailers behind them if they have come, too.
#[derive(Debug, Default)]
pub(in crate::proxy) struct BodyStart {
    /// Most bodies are one piece, which needs no queue.
    first: Bytes,
    others: VecDeque<Bytes>,
    trailers: Option<Box<HeaderMap>>,
}

impl BodyStart {
    /// Adds what came next.
    pub(in crate::proxy) fn push(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(piece) if piece.is_empty() => {}
            Ok(piece) if self.first.is_empty() && self.others.is_empty() => self.first = piece,
            Ok(piece) => self.others.push_back(piece),
            Err(frame) => self.trailers = frame.into_trailers().ok().map(Box::new),
        }
    }

    /// Takes what comes next.
    pub(in crate::proxy) fn pop(&mut self) -> Option<Frame<Bytes>> {
        if !self.first.is_empty() {
            return Some(Frame::data(std::mem::take(&mut self.first)));
        }
        let trailers = || self.trailers.take().map(|trailers| Frame::trailers(*trailers));
        self.others.pop_front().map(Frame::data).or_else(trailers)
    }

    /// Replaces the trailers.
    pub(in crate::proxy) fn filter_trailers(&mut self, filter: impl FnOnce(HeaderMap) -> Option<HeaderMap>) {
        self.trailers = self.trailers.take().and_then(|trailers| filter(*trailers)).map(Box::new);
    }

    pub(in crate::proxy) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.others.is_empty() && self.trailers.is_none()
    }

    /// The size hint of this followed by `rest`. With trailers no length can be told, because they come behind chunks only.
    pub(in crate::proxy) fn hint(&self, rest: &SizeHint) -> SizeHint {
        let read = self.others.iter().fold(self.first.len(), |sum, piece| sum + piece.len()) as u64;
        if self.trailers.is_some() { SizeHint::new() } else { add_to_hint(read, rest) }
    }
}

/// As a body that has nothing else.
impl Body for BodyStart {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.get_mut().pop().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint(&SizeHint::with_exact(0))
    }
}

/// The size hint for `read` bytes followed by `rest`.
pub(in crate::proxy) fn add_to_hint(read: u64, rest: &SizeHint) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(read));
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(read));
    }
    hint
}

impl From<Bytes> for BodyStart {
    fn from(piece: Bytes) -> Self {
        let mut start = Self::default();
        start.push(Frame::data(piece));
        start
    }
}
