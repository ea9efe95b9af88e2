//! A tap on the bytes of a socket: it may bound, cut or refuse what is read.
//!
//! It hands on what the watcher lets through and decides nothing. The surprising thing: the watcher is asked twice, how much
//! may be read before and how much of that goes on after, because to read less than there is keeps the rest in the socket.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::stream::NetStream;

/// Whoever looks.
pub(super) trait Tap: Unpin {
    /// At most how many bytes may be read; pending if none for now.
    ///
    /// # Errors
    /// Nothing is read any more.
    fn poll_read_limit(&mut self, _cx: &Context<'_>) -> Poll<Result<usize>> {
        Poll::Ready(Ok(usize::MAX))
    }

    /// These were read, none at the end. Says how many of them go on.
    ///
    /// # Errors
    /// None of them do.
    fn read(&mut self, bytes: &[u8]) -> Result<usize>;

    /// So many bytes were written.
    fn wrote(&mut self, _count: usize) {}
}

/// The socket and who watches it.
pub(super) struct TappedStream<W> {
    pub(super) stream: NetStream,
    pub(super) tap: W,
}

impl<W: Tap> TappedStream<W> {
    fn wrote(&mut self, wrote: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(count)) = &wrote {
            self.tap.wrote(*count);
        }
        wrote
    }
}

impl<W: Tap> AsyncRead for TappedStream<W> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let most = ready!(this.tap.poll_read_limit(cx))?;
        let before = buffer.filled().len();
        if most < buffer.remaining() {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
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

impl<W: Tap> AsyncWrite for TappedStream<W> {
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
