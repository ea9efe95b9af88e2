//! A socket whose bytes somebody looks at as they go by.
//!
//! It hands everything on and decides nothing. The surprising thing: whoever watches does the reading, because it may take
//! less than there is, or nothing for now.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::stream::Stream;

/// Whoever looks.
pub(super) trait Watch: Unpin {
    /// Reads from the socket what may be read.
    fn poll_read(
        &mut self,
        stream: Pin<&mut Stream>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>>;

    /// So many bytes were written.
    fn wrote(&mut self, _count: usize) {}
}

/// The socket and who watches it.
pub(super) struct Watched<W> {
    pub(super) stream: Stream,
    pub(super) watch: W,
}

impl<W: Watch> Watched<W> {
    fn wrote(&mut self, wrote: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(count)) = &wrote {
            self.watch.wrote(*count);
        }
        wrote
    }
}

impl<W: Watch> AsyncRead for Watched<W> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        this.watch.poll_read(Pin::new(&mut this.stream), cx, buffer)
    }
}

impl<W: Watch> AsyncWrite for Watched<W> {
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
