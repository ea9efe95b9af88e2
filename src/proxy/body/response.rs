//! The response body sent to the client: generated here, or relayed from an upstream.
//!
//! It streams. It is where a request ends, so it carries what is to happen then. `transaction::relay` relays.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::BodyError;

/// An answer's body on its way to the client.
pub struct ResponseBody {
    content: BodySource,
    end: Option<Box<dyn AtEnd>>,
    bytes: u64,
    complete: bool,
}

/// What is to happen when an answer has left, or the client has.
pub trait AtEnd {
    /// `bytes` of the body were handed to the connection; `complete` says whether that is all of it.
    fn ended(&mut self, bytes: u64, complete: bool);
}

enum BodySource {
    Generated(VecDeque<Bytes>),
    Relayed(Box<RelayedSource>),
}

/// Where a relayed answer comes from.
type RelayedSource = dyn Body<Data = Bytes, Error = BodyError> + Unpin;

impl ResponseBody {
    /// An answer of our own.
    #[must_use]
    pub fn generated(bytes: Bytes) -> Self {
        Self::with(BodySource::Generated(Some(bytes).filter(|bytes| !bytes.is_empty()).into_iter().collect()))
    }

    /// Pieces that are here already.
    pub(in crate::proxy) fn of_pieces(pieces: VecDeque<Bytes>) -> Self {
        Self::with(BodySource::Generated(pieces))
    }

    /// An upstream's answer.
    pub(in crate::proxy) fn relayed(body: Box<RelayedSource>) -> Self {
        Self::with(BodySource::Relayed(body))
    }

    fn with(content: BodySource) -> Self {
        Self { content, end: None, bytes: 0, complete: false }
    }

    fn finish(&mut self, complete: bool) {
        if let Some(mut end) = self.end.take() {
            end.ended(self.bytes, complete);
        }
    }

    /// Does this when the answer has left.
    pub fn at_end(&mut self, end: Box<dyn AtEnd>) {
        self.end = Some(end);
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.content {
            BodySource::Generated(pieces) => pieces.pop_front().map(|bytes| Ok(Frame::data(bytes))),
            BodySource::Relayed(body) => ready!(Pin::new(body).poll_frame(cx)),
        };
        match &frame {
            None => this.complete = true,
            Some(Ok(frame)) => this.bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
            // Whoever closes the connection has to know before hyper lets go of it.
            Some(Err(_)) => this.finish(false),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            BodySource::Generated(pieces) => pieces.is_empty(),
            BodySource::Relayed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BodySource::Generated(pieces) => SizeHint::with_exact(length(pieces)),
            BodySource::Relayed(body) => body.size_hint(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.finish(self.complete || self.is_end_stream());
    }
}

pub(in crate::proxy) fn length(pieces: &VecDeque<Bytes>) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// The size of what is here already and of what is still to come.
pub(in crate::proxy) fn add_to_hint(here: u64, rest: &SizeHint) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(here));
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(here));
    }
    hint
}
