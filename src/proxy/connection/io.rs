//! The client's socket as hyper sees it.
//!
//! It notes what hyper does not tell (bytes arrive, which request is the first that is not clean, nothing can be
//! written), swaps hyper's empty error answers for ours, and lingers when it is closed. The surprising thing: a late head is answered from here, because by then
//! hyper has nobody to ask.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWrite;

use super::Connection;
use super::checked::Checked;
use super::linger::Linger;
use crate::net::stream::Stream;
use crate::proxy::respond;
use crate::proxy::watched::Watched;

pub(super) struct Io {
    stream: TokioIo<Watched<Checked>>,
    connection: Arc<Connection>,
    linger: Linger,
}

impl Io {
    pub(super) fn new(stream: Stream, connection: Arc<Connection>) -> Self {
        let stream = Watched { stream, watch: Checked::new() };
        Self { stream: TokioIo::new(stream), connection, linger: Linger::default() }
    }

    /// Writes a page of ours for what hyper would answer with an empty one. What does not fit at once is lost: the
    /// connection is over.
    fn answer(&mut self, status: http::StatusCode, cx: &mut Context<'_>) {
        let page = respond::raw_problem(status);
        // Whether the client still reads it does not matter any more.
        let _ = Pin::new(self.stream.inner_mut()).poll_write(cx, &page);
        self.connection.phases.linger();
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if self.connection.phases.has_broken_off() {
            // Whoever can tell the end of an answer by the end of the connection alone must not see a clean one.
            self.stream.inner_mut().stream.reset_on_close();
        }
    }
}

impl Read for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if this.connection.phases.head_has_expired() {
            this.answer(http::StatusCode::REQUEST_TIMEOUT, cx);
            // hyper only lets go of the stream, and TLS without an end looks as if somebody had cut it off.
            let _ = Pin::new(&mut this.stream).poll_shutdown(cx);
            return Poll::Ready(Err(Error::from(ErrorKind::TimedOut)));
        }
        let phases = &this.connection.phases;
        if phases.is_tunnel() {
            this.stream.inner_mut().watch.look_away();
        }
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if read.is_ready() {
            let checked = &mut this.stream.inner_mut().watch;
            phases.bytes_arrived(checked.count);
            if let Some(request) = checked.take_faulty() {
                phases.is_unclean_from(request);
            }
        }
        read
    }
}

impl Write for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if this.connection.phases.is_hypers_own_answer()
            && let Some(status) = error_status(bytes)
        {
            this.answer(status, cx);
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.connection.phases.wrote(written(&wrote));
        wrote
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        // An error answer of hyper is a head alone and comes as one slice.
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.connection.phases.wrote(written(&wrote));
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        this.connection.phases.flushed();
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if !this.linger.has_begun() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if this.connection.phases.lingers() {
            ready!(this.linger.poll(&mut this.stream.inner_mut().stream, cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// How much was written; `None` if the client takes nothing.
fn written(wrote: &Poll<Result<usize>>) -> Option<usize> {
    match wrote {
        Poll::Ready(Ok(count)) => Some(*count),
        Poll::Ready(Err(_)) => Some(0),
        Poll::Pending => None,
    }
}

/// The status in `HTTP/1.1 400 Bad Request`, if it is one.
fn error_status(bytes: &[u8]) -> Option<http::StatusCode> {
    let status = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    http::StatusCode::from_bytes(status).ok().filter(http::StatusCode::is_client_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_error_answers_are_recognised() {
        assert_eq!(error_status(b"HTTP/1.1 431 Request Header Fields Too Large\r\n").unwrap().as_u16(), 431);
        assert_eq!(error_status(b"HTTP/1.1 100 Continue\r\n"), None);
        assert_eq!(error_status(b"HTTP/1.1 20"), None);
    }
}
