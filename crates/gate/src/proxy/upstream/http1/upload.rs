//! Sends a request: its head, and its body as it comes from the client.

use std::io::{self, Cursor, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use http::HeaderMap;
use http_body::Body as _;
use tokio::io::AsyncWrite as _;

use super::ResponseError;
use super::request_head::{self, UploadFraming};
use crate::net::stream::NetStream;
use crate::proxy::body::{BodyError, RequestBody};
use crate::proxy::headers::passed::{HeaderCase, push_line};
use crate::proxy::upstream::UpstreamRequest;

/// What is still to be sent of a request.
pub(in crate::proxy::upstream) struct Upload {
    /// A head or the line of a chunk, a piece of the body, and the end of its chunk.
    unsent: Chain<Chain<Cursor<Vec<u8>>, Bytes>, &'static [u8]>,
    /// `None` once all of it was read.
    body: Option<Box<RequestBody>>,
    framing: UploadFraming,
    state: UploadPhase,
    case: HeaderCase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadPhase {
    Sending,
    /// The last byte has left.
    Complete,
    /// The upstream takes no more; it may answer all the same.
    Refused,
}

impl Upload {
    pub(super) fn new(mut request: UpstreamRequest) -> Self {
        let (lines, framing) = request_head::encode(&mut request);
        let unsent = Cursor::new(lines).chain(Bytes::new()).chain(&b""[..]);
        let body = request.body.filter(|_| framing != UploadFraming::Length(0));
        Self { unsent, body, framing, state: UploadPhase::Sending, case: request.case }
    }

    /// Begins again with the head, which is all there is.
    pub(super) fn rewind(&mut self) {
        self.unsent.first_mut().first_mut().set_position(0);
        self.state = UploadPhase::Sending;
    }

    /// Whether the upstream took the whole request.
    pub(super) fn is_complete(&self) -> bool {
        self.state == UploadPhase::Complete
    }

    /// Sends what there is. Ready at the end of the request, or when the upstream takes no more of it.
    ///
    /// # Errors
    /// The client's body failed.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut NetStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BodyError>> {
        while self.state == UploadPhase::Sending {
            // The first piece of the body leaves together with the head.
            let waits = !self.has_piece() && self.poll_piece(cx)?.is_pending();
            if self.unsent.has_remaining() {
                let sent = ready!(self.poll_write(stream, cx));
                self.refuse_after(sent.is_err());
                continue;
            }
            let flushed = Pin::new(&mut *stream).poll_flush(cx);
            if waits {
                return Poll::Pending;
            }
            if self.body.is_none() {
                let is_err = ready!(flushed).is_err();
                self.state = UploadPhase::Complete;
                self.refuse_after(is_err);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Unlike [`poll_write_buf`](tokio_util::io::poll_write_buf), which makes room for dozens of parts.
    fn poll_write(&mut self, stream: &mut NetStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut parts = [IoSlice::new(&[]); 3];
        let count = self.unsent.chunks_vectored(&mut parts);
        let sent = ready!(Pin::new(stream).poll_write_vectored(cx, &parts[..count]))?;
        self.unsent.advance(sent);
        Poll::Ready(Ok(()))
    }

    fn refuse_after(&mut self, is_err: bool) {
        if is_err {
            self.state = UploadPhase::Refused;
            self.body = None;
        }
    }

    fn has_piece(&self) -> bool {
        self.unsent.first_ref().last_ref().has_remaining() || self.unsent.last_ref().has_remaining()
    }

    /// Reads the next piece of the body, if there is one; pending if the client is slow.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        Poll::Ready(match ready!(Pin::new(body).poll_frame(cx)) {
            Some(frame) => match frame?.into_data() {
                Ok(piece) => self.take_piece(piece),
                Err(frame) => self.end(frame.into_trailers().unwrap_or_default()),
            },
            None => self.end(HeaderMap::new()),
        })
    }

    fn take_piece(&mut self, piece: Bytes) -> Result<(), BodyError> {
        if piece.is_empty() {
            return Ok(());
        }
        match &mut self.framing {
            UploadFraming::Chunked => {
                let length = piece.len();
                self.push_line(format_args!("{length:x}\r\n"));
                *self.unsent.last_mut() = b"\r\n";
            }
            UploadFraming::Length(left) => {
                *left = left.checked_sub(piece.len() as u64).ok_or_else(wrong_length)?;
            }
        }
        if self.framing == UploadFraming::Length(0) {
            self.body = None;
        }
        *self.unsent.first_mut().last_mut() = piece;
        Ok(())
    }

    fn end(&mut self, trailers: HeaderMap) -> Result<(), BodyError> {
        self.body = None;
        match self.framing {
            UploadFraming::Chunked => self.end_chunks(&trailers),
            UploadFraming::Length(0) => {}
            UploadFraming::Length(_) => return Err(wrong_length()),
        }
        Ok(())
    }

    fn end_chunks(&mut self, trailers: &HeaderMap) {
        let mut lines = Vec::new();
        trailers.iter().for_each(|(name, value)| push_line(name, value, self.case, &mut lines));
        self.push_line(format_args!("0\r\n"));
        lines.extend_from_slice(b"\r\n");
        self.unsent.first_mut().first_mut().get_mut().extend_from_slice(&lines);
    }

    /// Appends to the lines that are sent before the piece.
    fn push_line(&mut self, line: std::fmt::Arguments<'_>) {
        let lines = self.unsent.first_mut().first_mut();
        if !lines.has_remaining() {
            lines.get_mut().clear();
            lines.set_position(0);
        }
        // Writing to a vector does not fail.
        let _ = lines.get_mut().write_fmt(line);
    }
}

/// The client's body is not as long as it was announced; the decoder and hyper prevent it.
fn wrong_length() -> BodyError {
    BodyError::broken(ResponseError::Upload)
}
