//! An upstream's socket, from which only so much is read before the head of an answer is there.
//!
//! hyper bounds a head, but passes over interim answers (`103 Early Hints`) without counting them. The surprising thing:
//! whoever sends the request sets the ration, and lifts it when the head is there; what comes after it is counted nowhere.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::stream::Stream;

/// How much may still be read; shared by the socket and whoever waits for an answer.
#[derive(Debug, Clone)]
pub(super) struct Ration(Arc<AtomicUsize>);

pub(super) struct Rationed {
    stream: Stream,
    ration: Ration,
}

impl Ration {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// The head of an answer is waited for.
    pub(super) fn set(&self) {
        self.0.store(BEFORE_A_HEAD, Relaxed);
    }

    /// It is there.
    pub(super) fn lift(&self) {
        self.0.store(usize::MAX, Relaxed);
    }
}

impl Rationed {
    pub(super) fn new(stream: Stream, ration: Ration) -> Self {
        Self { stream, ration }
    }
}

impl AsyncRead for Rationed {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let left = this.ration.0.load(Relaxed);
        if left < usize::MAX {
            let Some(left) = left.checked_sub(buffer.filled().len() - before) else {
                buffer.set_filled(before);
                return Poll::Ready(Err(Error::from(ErrorKind::InvalidData)));
            };
            this.ration.0.store(left, Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rationed {
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

/// A head has room in a quarter of it; the rest is for interim answers.
const BEFORE_A_HEAD: usize = 256 * 1024;
