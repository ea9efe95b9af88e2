//! A tap on the bytes of a socket: it may bound, cut or refuse what is read.
//!
//! [`TappedStream`] decides nothing; the [`Tap`] does, before and after each read. A limit before the read leaves the
//! rest in the socket; a limit after it discards the rest.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::stream::NetStream;

/// Inspects the bytes of a socket.
pub(super) trait Tap: Unpin {
    /// How many bytes the next read may take; pending if none for now.
    ///
    /// # Errors
    /// The read fails.
    fn poll_read_limit(&mut self, _cx: &Context<'_>) -> Poll<Result<usize>> {
        Poll::Ready(Ok(usize::MAX))
    }

    /// Inspects the bytes of a read, none at the end of the stream. Returns how many of them are passed on.
    ///
    /// # Errors
    /// The read fails.
    fn read(&mut self, bytes: &[u8]) -> Result<usize>;

    /// Takes note of written bytes.
    fn wrote(&mut self, _count: usize) {}
}

/// A socket with a tap.
pub(super) struct TappedStream<T> {
    pub(super) stream: NetStream,
    pub(super) tap: T,
}

impl<T: Tap> TappedStream<T> {
    fn wrote(&mut self, wrote: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(count)) = &wrote {
            self.tap.wrote(*count);
        }
        wrote
    }
}

impl<T: Tap> AsyncRead for TappedStream<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let limit = ready!(this.tap.poll_read_limit(cx))?;
        let before = buffer.filled().len();
        if limit < buffer.remaining() {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(limit));
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
            let count = part.filled().len();
            buffer.advance(count);
        } else {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        }
        let passed = this.tap.read(buffer.filled().get(before..).unwrap_or_default());
        buffer.set_filled(before + passed.as_ref().unwrap_or(&0));
        Poll::Ready(passed.map(drop))
    }
}

impl<T: Tap> AsyncWrite for TappedStream<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.wrote(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
