//! Reads the body of a response, and sends the rest of its request meanwhile.
//!
//! The lease of the connection ends with the body: after a complete body the connection is used again, after any other
//! it closes, so that the rest of the body reaches no other client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};

use super::chunked::{ChunkDecoder, Decoded};
use super::response_head::BodyFraming;
use super::{ResponseError, ResponseHead, Upload};
use crate::proxy::body::BodyError;
use crate::proxy::buffered_socket::BufferedSocket;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::upstream::ConnectionLease;

/// The body of an upstream's response.
pub struct UpstreamBody {
    /// `None` after the end.
    lease: Option<ConnectionLease>,
    /// What is left to send of the request, if its response came before that.
    upload: Option<Box<Upload>>,
    unread: Unread,
    keeps_alive: bool,
    /// The head in front of it, as it was received.
    head: ReceivedHead,
}

/// What is still to be read of a body.
pub(super) enum Unread {
    Length(u64),
    Chunks(Box<ChunkDecoder>),
    UntilClose,
}

impl UpstreamBody {
    /// The response with this head and the body behind it, over the connection of the lease.
    pub(in crate::proxy::upstream) fn behind(
        head: ResponseHead,
        upload: Option<Box<Upload>>,
        lease: ConnectionLease,
    ) -> Response<Self> {
        let ResponseHead { response, received, framing, keeps_alive, .. } = head;
        let (lease, unread) = (Some(lease), Unread::new(framing));
        response.map(|()| Self { lease, upload, unread, keeps_alive, head: received })
    }

    /// The head in front of it, as it was received.
    pub fn take_head(&mut self) -> ReceivedHead {
        std::mem::take(&mut self.head)
    }

    /// Whether all of it came with its head, and the whole request was sent before it.
    pub fn has_arrived(&self) -> bool {
        let came = self.lease.as_ref().and_then(|lease| lease.connection.as_ref());
        let came = came.map_or(0, |connection| connection.socket.buffer.len() as u64);
        self.upload.is_none() && matches!(self.unread, Unread::Length(left) if left <= came)
    }

    /// Ends the lease of an empty body now.
    pub fn end_if_empty(&mut self) {
        if matches!(self.unread, Unread::Length(0)) {
            self.end();
        }
    }

    /// Closes the connection, because the response is of no use; the upstream is to blame.
    pub fn close(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.close();
        }
    }

    /// The lease of a connection that speaks another protocol now, behind a `101 Switching Protocols`.
    pub fn into_lease(self) -> Option<ConnectionLease> {
        self.lease
    }

    fn end(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let is_sent = self.upload.as_ref().is_none_or(|upload| upload.is_complete());
        lease.give_back(self.keeps_alive && is_sent);
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let Some(socket) = self.lease.as_mut().and_then(ConnectionLease::socket) else {
            return Poll::Ready(Ok(None));
        };
        if let Some(upload) = &mut self.upload
            && let Poll::Ready(Err(error)) = upload.poll_send(&mut socket.stream, cx)
        {
            // The client is to blame: the health of the upstream stays as it is.
            self.lease = None;
            return Poll::Ready(Err(error));
        }
        self.unread.poll_piece(socket, cx).map_err(BodyError::broken)
    }
}

impl Unread {
    pub(super) fn new(framing: BodyFraming) -> Self {
        match framing {
            BodyFraming::Length(length) => Self::Length(length),
            BodyFraming::Chunked => Self::Chunks(Box::new(ChunkDecoder::new())),
            BodyFraming::UntilClose => Self::UntilClose,
        }
    }

    /// Reads the next piece; `None` at the end of the body.
    pub(super) fn poll_piece(
        &mut self,
        socket: &mut BufferedSocket,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ResponseError>> {
        loop {
            match self.take(&mut socket.buffer)? {
                Decoded::Piece(piece) => return Poll::Ready(Ok(Some(piece))),
                Decoded::End => return Poll::Ready(Ok(None)),
                Decoded::NeedsMore => {}
            }
            if ready!(socket.poll_fill(cx))? == 0 {
                let is_whole = matches!(self, Self::UntilClose);
                return Poll::Ready(is_whole.then_some(None).ok_or(ResponseError::Incomplete));
            }
        }
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        let Self::Chunks(decoder) = self else { return None };
        Some(decoder.take_trailers()).filter(|trailers| !trailers.is_empty())
    }

    /// Takes the next piece out of the buffer.
    fn take(&mut self, buffer: &mut BytesMut) -> Result<Decoded, ResponseError> {
        let length = match self {
            Self::Chunks(decoder) => return decoder.decode(buffer),
            Self::Length(0) => return Ok(Decoded::End),
            Self::Length(left) => usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len())),
            Self::UntilClose => buffer.len(),
        };
        if length == 0 {
            return Ok(Decoded::NeedsMore);
        }
        if let Self::Length(left) = self {
            *left -= length as u64;
        }
        Ok(Decoded::Piece(buffer.split_to(length).freeze()))
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match ready!(this.poll_piece(cx)) {
            Ok(Some(piece)) => {
                this.end_if_empty();
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Ok(None) => {
                let trailers = this.unread.take_trailers();
                this.end();
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.lease.is_none() || matches!(self.unread, Unread::Length(0))
    }

    fn size_hint(&self) -> SizeHint {
        match self.unread {
            Unread::Length(left) => SizeHint::with_exact(left),
            Unread::Chunks(_) | Unread::UntilClose if self.lease.is_none() => SizeHint::with_exact(0),
            Unread::Chunks(_) | Unread::UntilClose => SizeHint::default(),
        }
    }
}
