//! The client socket for h2, with flood check and lingering close.
//!
//! h2 closes its half as soon as its GOAWAY is written. Bytes that the client sent meanwhile must not cause a reset.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::flood_check::FloodCheck;
use crate::net::stream::NetStream;
use crate::proxy::downstream::linger::Linger;
use crate::proxy::tap::TappedStream;

pub(super) struct Http2Io {
    stream: TappedStream<FloodCheck>,
    linger: Linger,
}

impl Http2Io {
    pub(super) fn new(stream: NetStream, tap: FloodCheck) -> Self {
        Self { stream: TappedStream { stream, tap }, linger: Linger::default() }
    }
}

impl AsyncRead for Http2Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Http2Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if !this.linger.has_begun() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        this.linger.poll(&mut this.stream.stream, cx).map(Ok)
    }
}
