//! Sends a response: its head, and its body as it comes.
//!
//! What has come of a body is sent before its failure is told.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body as _;
use tokio::io::AsyncWrite as _;

use super::inbox::Inbox;
use super::response_head::ResponseFraming;
use crate::net::stream::NetStream;
use crate::proxy::body::{ReadAhead, ResponseBody};
use crate::proxy::connection::ConnectionState;
use crate::proxy::headers::passed::{HeaderCase, push_line};

/// What is left of a response.
pub(super) struct Outbox {
    unsent: Unsent,
    /// `None` once all of it was read.
    body: Option<ResponseBody>,
    /// What may be read ahead of the client, if that is more than nothing.
    ahead: Option<Box<ReadAhead>>,
    framing: ResponseFraming,
    case: HeaderCase,
    failed: bool,
    is_flushed: bool,
}

/// How sending goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it.
    Whole,
    /// What has come of a body that failed.
    Part,
}

/// Bytes that are sent together: a head with what is short of its body, and pieces behind it.
#[derive(Default)]
struct Unsent {
    head: Vec<u8>,
    /// Bytes of the head that have left.
    sent: usize,
    pieces: VecDeque<Bytes>,
    length: usize,
}

impl Outbox {
    /// A response behind what is left to send before it.
    pub(super) fn new(
        interim: BytesMut,
        mut head: Vec<u8>,
        mut body: Option<ResponseBody>,
        framing: ResponseFraming,
        case: HeaderCase,
    ) -> Self {
        if !interim.is_empty() {
            head.splice(..0, interim);
        }
        let unsent = Unsent { length: head.len(), head, ..Unsent::default() };
        let ahead = body.as_mut().and_then(ResponseBody::take_ahead);
        let mut outbox = Self { unsent, body, ahead, framing, case, failed: false, is_flushed: true };
        if framing == ResponseFraming::Empty {
            outbox.body = None;
        }
        outbox
    }

    /// Whether all that has come of the body was sent.
    pub(super) fn waits_for_body(&self) -> bool {
        self.unsent.length == 0 && self.is_flushed
    }

    /// Sends what there is. Ready when all of it has left.
    ///
    /// # Errors
    /// The client has gone.
    pub(super) fn poll_send(
        &mut self,
        inbox: &RefCell<Inbox>,
        state: &ConnectionState,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Sent>> {
        loop {
            // The body may read the rest of its request, so the inbox is borrowed after it.
            self.gather(cx);
            let stream = &mut inbox.borrow_mut().socket.stream;
            if self.unsent.length > 0 {
                match self.unsent.poll_write(stream, cx) {
                    Poll::Ready(Ok(count)) => state.wrote(Some(count)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        state.wrote(None);
                        return Poll::Pending;
                    }
                }
                continue;
            }
            // TLS may hold back what it took.
            let flushed = Pin::new(&mut *stream).poll_flush(cx);
            self.is_flushed = flushed.is_ready();
            if flushed.is_pending() {
                state.wrote(None);
            }
            ready!(flushed)?;
            state.wrote(Some(0));
            if self.body.is_some() {
                return Poll::Pending;
            }
            return Poll::Ready(Ok(if self.failed { Sent::Part } else { Sent::Whole }));
        }
    }

    /// Reads what has come of the body, up to a bound. The body is dropped at its end: that ends the request.
    fn gather(&mut self, cx: &mut Context<'_>) {
        while let Some(body) = &mut self.body
            && (self.unsent.length < MAX_UNSENT
                || self.ahead.as_mut().is_some_and(|ahead| ahead.allows(self.unsent.length)))
        {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(frame))) => {
                    let is_last = body.is_end_stream();
                    match frame.into_data() {
                        Ok(piece) => {
                            self.push(piece);
                            if is_last {
                                self.end(&HeaderMap::new());
                            }
                        }
                        Err(frame) => self.end(&frame.into_trailers().unwrap_or_default()),
                    }
                }
                Poll::Ready(Some(Err(_))) => {
                    self.failed = true;
                    self.body = None;
                }
                Poll::Ready(None) => self.end(&HeaderMap::new()),
            }
        }
    }

    fn push(&mut self, piece: Bytes) {
        if self.framing != ResponseFraming::Chunked {
            self.unsent.push(piece);
        } else if !piece.is_empty() {
            self.unsent.push(format!("{:x}\r\n", piece.len()).into());
            self.unsent.push(piece);
            self.unsent.push(Bytes::from_static(b"\r\n"));
        }
    }

    fn end(&mut self, trailers: &HeaderMap) {
        self.body = None;
        if self.framing == ResponseFraming::Chunked {
            let mut end = b"0\r\n".to_vec();
            trailers.iter().for_each(|(name, value)| push_line(name, value, self.case, &mut end));
            end.extend_from_slice(b"\r\n");
            self.unsent.push(end.into());
        }
    }
}

impl Unsent {
    fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        // One piece is written for less than two.
        if self.pieces.is_empty() && piece.len() <= self.head.capacity() - self.head.len() {
            self.head.extend_from_slice(&piece);
        } else if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// Writes some of it.
    fn poll_write(&mut self, stream: &mut NetStream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (stream, head) = (Pin::new(stream), self.head.get(self.sent..).unwrap_or_default());
        let count = ready!(if self.pieces.is_empty() {
            stream.poll_write(cx, head)
        } else if stream.is_write_vectored() {
            let mut slices = [IoSlice::new(&[]); SLICES_AT_ONCE];
            slices[0] = IoSlice::new(head);
            slices[1..].iter_mut().zip(&self.pieces).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
            stream.poll_write_vectored(cx, &slices[..SLICES_AT_ONCE.min(self.pieces.len() + 1)])
        } else {
            let first =
                if head.is_empty() { self.pieces.front().map_or(&[][..], |piece| piece) } else { head };
            stream.poll_write(cx, first)
        })?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(count);
        Poll::Ready(Ok(count))
    }

    fn advance(&mut self, mut count: usize) {
        self.length -= count;
        let of_head = count.min(self.head.len() - self.sent);
        (self.sent, count) = (self.sent + of_head, count - of_head);
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                break;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
        if self.sent == self.head.len() {
            self.head.clear();
            self.sent = 0;
        }
    }
}

/// Pieces that one write takes.
const SLICES_AT_ONCE: usize = 16;
/// Bytes that are read ahead of every client.
const MAX_UNSENT: usize = 64 * 1024;
