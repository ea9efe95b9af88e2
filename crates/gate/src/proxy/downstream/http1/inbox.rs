//! The input from a client: the socket, the bytes that were read and not consumed yet, and the progress of the request.
//!
//! The driver reads heads out of it; while a request is served, its [body](InboxBody) reads the rest.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncWrite as _;

use crate::net::stream::NetStream;
use crate::proxy::body::{BodyError, Http1Body};
use crate::proxy::buffered_socket::BufferedSocket;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::request::decoder::{BodyPart, HeadError, RequestDecoder, RequestHead};
use crate::proxy::transaction::refused_again::RefusedAgain;

/// The receiving side of a connection. The sending side has the same socket.
pub(super) struct Inbox {
    pub(super) socket: BufferedSocket,
    decoder: RequestDecoder,
    /// Bytes of the head that was refused last without being read.
    refused_len: usize,
    /// Interim responses that were not sent yet.
    pub(super) interim: BytesMut,
    /// Whether the client waits for `100 Continue`.
    pub(super) expects_continue: bool,
    was_readable: bool,
    needs_flush: bool,
    connection: Rc<DownstreamConnection>,
}

impl Inbox {
    pub(super) fn new(stream: NetStream, connection: &Rc<DownstreamConnection>) -> Self {
        Self {
            socket: BufferedSocket::new(stream),
            decoder: RequestDecoder::default(),
            refused_len: 0,
            interim: BytesMut::new(),
            expects_continue: false,
            was_readable: false,
            needs_flush: false,
            connection: Rc::clone(connection),
        }
    }

    /// Refuses the next request, and drops it, if `refuse` knows its head. In a flood it has the length of the one before.
    pub(super) fn refuse_known<T>(
        &mut self,
        mut refuse: impl FnMut(&[u8]) -> Option<RefusedAgain<T>>,
    ) -> Option<T> {
        let buffer = &mut self.socket.buffer;
        if buffer.is_empty() {
            return None;
        }
        // It is looked up once, however slowly the rest of a longer head comes.
        let length = if self.refused_len > buffer.len() { 0 } else { std::mem::take(&mut self.refused_len) };
        let same = buffer.get(..length).filter(|head| !head.is_empty());
        let again = same.and_then(&mut refuse).or_else(|| {
            let end = self.decoder.find_head(buffer).ok()??;
            if end == length { None } else { refuse(buffer.get(..end)?) }
        });
        let RefusedAgain { encoded, head_len, body_len } = again?;
        self.decoder.skip_request(buffer, head_len, body_len);
        self.refused_len = head_len;
        self.expects_continue = false;
        Some(encoded)
    }

    /// Takes the head of the next request; `None` if it is incomplete.
    pub(super) fn take_head(&mut self) -> Result<Option<RequestHead>, HeadError> {
        if self.socket.buffer.is_empty() { Ok(None) } else { self.decoder.read_head(&mut self.socket.buffer) }
    }

    /// Ready when the client has sent something, or has gone.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.socket.stream.poll_readable(cx));
        // A socket of which nothing was read yet is always taken for readable.
        if !std::mem::replace(&mut self.was_readable, true) && self.socket.stream.has_nothing() {
            return self.socket.stream.poll_readable(cx);
        }
        Poll::Ready(())
    }

    /// Reads more. Returns how many bytes came; 0 is the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = ready!(self.socket.poll_fill(cx))?;
        self.connection.state.received_bytes(count);
        Poll::Ready(Ok(count))
    }

    /// The final response begins: nobody is invited to send a body any more. Returns whether the client waits for that.
    pub(super) fn ends_waiting(&mut self) -> bool {
        std::mem::take(&mut self.expects_continue) && !self.has_ended()
    }

    /// Whether the last request was read to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.decoder.has_ended()
    }

    /// Reads the next piece of the body; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            match self.decoder.read_body(&mut self.socket.buffer) {
                Ok(BodyPart::Piece(piece)) => return Poll::Ready(Ok(Some(piece))),
                Ok(BodyPart::End) => return Poll::Ready(Ok(None)),
                Ok(BodyPart::NeedsMore) => {}
                Err(violation) => {
                    self.connection.state.mark_ambiguous();
                    return Poll::Ready(Err(BodyError::broken(violation)));
                }
            }
            if std::mem::take(&mut self.expects_continue) {
                self.invite();
            }
            self.send_interim(cx);
            if ready!(self.poll_fill(cx)).map_err(BodyError::broken)? == 0 {
                let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Poll::Ready(Err(BodyError::broken(error)));
            }
        }
    }

    /// Tells the client to send its body.
    pub(super) fn invite(&mut self) {
        self.interim.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }

    /// Sends interim responses. What the socket does not take leaves before the response.
    pub(super) fn send_interim(&mut self, cx: &mut Context<'_>) {
        while !self.interim.is_empty() {
            let stream = Pin::new(&mut self.socket.stream);
            match stream.poll_write(cx, &self.interim) {
                Poll::Ready(Ok(count)) => self.interim.advance(count),
                // The next read shows the error.
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
            self.needs_flush = true;
        }
        if self.needs_flush {
            self.needs_flush = Pin::new(&mut self.socket.stream).poll_flush(cx).is_pending();
        }
    }

    fn has_arrived(&self) -> bool {
        self.decoder.body_left().is_some_and(|left| left <= self.socket.buffer.len() as u64)
    }
}

/// The body of the request that is being served.
pub(super) struct InboxBody(pub(super) Rc<RefCell<Inbox>>);

impl fmt::Debug for InboxBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InboxBody").field(&self.0.borrow().decoder).finish()
    }
}

impl Body for InboxBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut inbox = self.0.borrow_mut();
        let piece = ready!(inbox.poll_piece(cx));
        Poll::Ready(match piece.transpose() {
            Some(piece) => Some(piece.map(Frame::data)),
            None => inbox.decoder.take_trailers().map(|trailers| Ok(Frame::trailers(trailers))),
        })
    }

    fn is_end_stream(&self) -> bool {
        let inbox = self.0.borrow();
        inbox.has_ended() && !inbox.decoder.has_trailers()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.borrow().decoder.body_left().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Http1Body for InboxBody {
    fn has_arrived(&self) -> bool {
        self.0.borrow().has_arrived()
    }

    fn shrink(&self) {
        let mut inbox = self.0.borrow_mut();
        if inbox.socket.buffer.is_empty() {
            inbox.socket.shrink();
        }
    }
}
