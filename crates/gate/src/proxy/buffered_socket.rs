//! A socket, and the bytes that were read from it and are not consumed yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio_util::io::poll_read_buf;

use crate::net::stream::NetStream;

/// A socket with a buffer for reads.
pub(in crate::proxy) struct BufferedSocket {
    pub(in crate::proxy) stream: NetStream,
    pub(in crate::proxy) buffer: BytesMut,
    /// Room for the next read, in bytes; it grows with what arrives at once.
    room: usize,
}

impl BufferedSocket {
    pub(in crate::proxy) fn new(stream: NetStream) -> Self {
        Self { stream, buffer: BytesMut::new(), room: MIN_ROOM }
    }

    /// Reads into the buffer. Returns how many bytes came; 0 is the end.
    pub(in crate::proxy) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // What is left of the buffer is enough if it is not much less: a head that is in use keeps all of it.
        if self.buffer.capacity() - self.buffer.len() < self.room / 2 {
            self.buffer.reserve(self.room);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let count = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.buffer))?;
        if count == room {
            self.room = (self.room * 2).min(MAX_ROOM);
        }
        Poll::Ready(Ok(count))
    }

    /// The stream, and the bytes that were read already.
    pub(in crate::proxy) fn split(&mut self) -> (&mut NetStream, Bytes) {
        (&mut self.stream, self.buffer.split().freeze())
    }

    /// Gives back the memory of the buffer, which has to be empty.
    pub(in crate::proxy) fn shrink(&mut self) {
        (self.buffer, self.room) = (BytesMut::new(), MIN_ROOM);
    }

    /// Whether another request may be sent: the peer has neither closed the connection nor sent more than was asked
    /// for, as far as the runtime has seen.
    pub(in crate::proxy) fn is_idle(&self) -> bool {
        self.buffer.is_empty() && self.stream.has_nothing()
    }
}

const MIN_ROOM: usize = 8 * 1024;
const MAX_ROOM: usize = 64 * 1024;
