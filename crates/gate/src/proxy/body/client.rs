//! The body of a client's request, as its connection hands it out.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{AskedBody, BodyError};

/// A body that is read from an HTTP/1 connection.
pub trait Http1Body: Body<Data = Bytes, Error = BodyError> + Debug + Unpin {
    /// Whether all of it was received already.
    fn has_arrived(&self) -> bool;

    /// Gives back the memory of its buffer, if that is empty: nothing is read for a while.
    fn shrink(&self);
}

/// The body of a client's request.
#[derive(Debug)]
pub enum ClientBody {
    /// There is none.
    Empty,
    /// Over HTTP/1. Boxed: few requests have one.
    Http1(Box<dyn Http1Body>),
    /// Over HTTP/2.
    Http2(Incoming),
    /// The body of a request that a message describes.
    Asked(AskedBody),
}

impl ClientBody {
    /// Whether all of it was received already, as far as that is known.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(body) => body.has_arrived(),
            Self::Http2(incoming) => incoming.is_end_stream(),
            Self::Asked(body) => body.has_arrived(),
        }
    }

    /// Gives back the memory of an empty buffer.
    pub(super) fn shrink(&self) {
        if let Self::Http1(body) = self {
            body.shrink();
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Http1(body) => Pin::new(body).poll_frame(cx),
            Self::Http2(incoming) => {
                Pin::new(incoming).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Asked(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(incoming) => incoming.is_end_stream(),
            Self::Asked(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Http1(body) => body.size_hint(),
            Self::Http2(incoming) => incoming.size_hint(),
            Self::Asked(body) => body.size_hint(),
        }
    }
}
