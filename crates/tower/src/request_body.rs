//! The body of a request on its way to the application: what the decision has read of it, and then the rest.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tollgate::proxy::body::{BodyFeed, BodyPiece};

/// The body of a request that passed, byte for byte as it came.
pub struct ServedBody<B: Body> {
    /// What was read before the decision: in one piece, for clients choose how small theirs are.
    read: BytesMut,
    /// What was read behind it.
    end: Option<ReadEnd<B::Error>>,
    rest: Pin<Box<B>>,
    has_ended: bool,
}

enum ReadEnd<E> {
    Trailers(HeaderMap),
    /// Boxed, so that it may be anything.
    Failed(Box<E>),
}

impl<B: Body<Data = Bytes>> ServedBody<B> {
    pub(crate) fn new(body: B) -> Self {
        let has_ended = body.is_end_stream();
        Self { read: BytesMut::new(), end: None, rest: Box::pin(body), has_ended }
    }

    /// Gives the body to the decision as far as that needs it, and keeps what it gives. Dropped at any time, it loses nothing.
    pub(crate) async fn feed(&mut self, mut feed: BodyFeed) {
        if !feed.is_wanted().await {
            return;
        }
        while !self.has_ended {
            let piece = self.read_next().await;
            if !feed.give(piece).await {
                return;
            }
        }
        feed.give(BodyPiece::End).await;
    }

    /// What follows, which is kept at the same moment.
    async fn read_next(&mut self) -> BodyPiece {
        poll_fn(|cx| {
            let frame = std::task::ready!(self.rest.as_mut().poll_frame(cx));
            Poll::Ready(self.keep(frame))
        })
        .await
    }

    fn keep(&mut self, frame: Option<Result<Frame<Bytes>, B::Error>>) -> BodyPiece {
        let frame = match frame {
            None => {
                self.has_ended = true;
                return BodyPiece::End;
            }
            Some(Err(error)) => {
                self.has_ended = true;
                self.end = Some(ReadEnd::Failed(Box::new(error)));
                return BodyPiece::Broken;
            }
            Some(Ok(frame)) => frame,
        };
        self.has_ended = self.rest.is_end_stream();
        match frame.into_data().map_err(Frame::into_trailers) {
            Ok(bytes) => {
                self.read.extend_from_slice(&bytes);
                BodyPiece::Data(bytes)
            }
            Err(Ok(trailers)) => {
                self.has_ended = true;
                self.end = Some(ReadEnd::Trailers(trailers.clone()));
                BodyPiece::Trailers(trailers)
            }
            // There are no other kinds of frames.
            Err(Err(_)) => BodyPiece::Data(Bytes::new()),
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ServedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if !this.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.read).freeze()))));
        }
        if let Some(end) = this.end.take() {
            return Poll::Ready(Some(match end {
                ReadEnd::Trailers(trailers) => Ok(Frame::trailers(trailers)),
                ReadEnd::Failed(error) => Err(*error),
            }));
        }
        if this.has_ended {
            return Poll::Ready(None);
        }
        this.rest.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.end.is_none() && (self.has_ended || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.len() as u64;
        let rest = if self.has_ended { SizeHint::with_exact(0) } else { self.rest.size_hint() };
        let mut hint = SizeHint::new();
        let upper = rest.upper().map(|upper| upper.saturating_add(read));
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = upper {
            hint.set_upper(upper);
        }
        hint
    }
}
