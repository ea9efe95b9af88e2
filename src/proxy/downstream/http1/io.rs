//! The client socket for hyper: records what hyper does not tell, replaces its empty error responses, and lingers on
//! close.
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

use super::super::linger::Linger;
use super::validating_tap::ValidatingTap;
use crate::net::stream::NetStream;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::respond;
use crate::proxy::tap::TappedStream;

pub(super) struct Http1Io {
    stream: TokioIo<TappedStream<ValidatingTap>>,
    connection: Arc<DownstreamConnection>,
    linger: Linger,
}

impl Http1Io {
    pub(super) fn new(stream: NetStream, connection: Arc<DownstreamConnection>) -> Self {
        let stream = TappedStream { stream, tap: ValidatingTap::new() };
        Self { stream: TokioIo::new(stream), connection, linger: Linger::default() }
    }

    /// Writes a page of ours for what hyper would answer with an empty one. What does not fit at once is lost: the
    /// connection is over.
    fn write_error(&mut self, status: http::StatusCode, cx: &mut Context<'_>) {
        let page = respond::raw_problem(status);
        // Whether the client still reads it does not matter any more.
        let _ = Pin::new(self.stream.inner_mut()).poll_write(cx, &page);
        self.connection.state.linger();
    }
}

impl Drop for Http1Io {
    fn drop(&mut self) {
        if self.connection.state.is_aborted() {
            // Whoever can tell the end of an answer by the end of the connection alone must not see a clean one.
            self.stream.inner_mut().stream.reset_on_close();
        }
    }
}

impl Read for Http1Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if this.connection.state.head_has_expired() {
            this.write_error(http::StatusCode::REQUEST_TIMEOUT, cx);
            // hyper only lets go of the stream, and TLS without an end looks as if somebody had cut it off.
            let _ = Pin::new(&mut this.stream).poll_shutdown(cx);
            return Poll::Ready(Err(Error::from(ErrorKind::TimedOut)));
        }
        let phases = &this.connection.state;
        if phases.is_tunnel() {
            this.stream.inner_mut().tap.stop();
        }
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if read.is_ready() {
            let checked = &mut this.stream.inner_mut().tap;
            phases.received_bytes(checked.count);
            if let Some(request) = checked.take_violation() {
                phases.mark_ambiguous_from(request);
            }
        }
        read
    }
}

impl Write for Http1Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if this.connection.state.is_hyper_error_response()
            && let Some(status) = error_status(bytes)
        {
            this.write_error(status, cx);
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.connection.state.wrote(written(&wrote));
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
        this.connection.state.wrote(written(&wrote));
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        this.connection.state.flushed();
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if !this.linger.has_begun() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if this.connection.state.lingers() {
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
