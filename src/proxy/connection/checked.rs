//! The client's socket, read along by the strict scanner.
//!
//! hyper gets a head whole, clean or not, so that the service can refuse the request in the form that its client accepts.
//! The surprising thing: of a body it gets nothing that comes behind a fault, so that what may be on its way already
//! breaks off.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::stream::Stream;
use crate::proxy::strict::Scanner;

pub(super) struct Checked {
    stream: Stream,
    /// Reads along until there is a fault, or the connection is no HTTP any more.
    scanner: Option<Scanner>,
    /// The number of the request with the fault, until somebody takes it.
    faulty: Option<u64>,
    /// hyper gets nothing more.
    is_cut_off: bool,
    /// How many bytes the last read brought: hyper's buffer does not tell.
    pub(super) count: usize,
}

impl Checked {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, scanner: Some(Scanner::new()), faulty: None, is_cut_off: false, count: 0 }
    }

    /// The number of the request in which the last read found a fault.
    pub(super) fn take_faulty(&mut self) -> Option<u64> {
        self.faulty.take()
    }

    /// The connection is a tunnel, and what it carries nobody's business.
    pub(super) fn look_away(&mut self) {
        self.scanner = None;
    }

    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// How many of these bytes hyper may have.
    fn look_at(&mut self, bytes: &[u8]) -> usize {
        let Some(Err(fault)) = self.scanner.as_mut().map(|scanner| scanner.read(bytes)) else {
            return bytes.len();
        };
        self.scanner = None;
        self.faulty = Some(fault.request);
        self.is_cut_off = fault.clean.is_some();
        fault.clean.unwrap_or(bytes.len())
    }
}

impl AsyncRead for Checked {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        this.count = 0;
        if this.is_cut_off {
            return Poll::Ready(Err(Error::from(ErrorKind::InvalidData)));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let clean = this.look_at(buffer.filled().get(before..).unwrap_or_default());
        if this.is_cut_off && clean == 0 {
            // Nothing at all would look like the end.
            buffer.set_filled(before);
            return Poll::Ready(Err(Error::from(ErrorKind::InvalidData)));
        }
        buffer.set_filled(before + clean);
        this.count = clean;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Checked {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
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
