//! The client socket for hyper: records what hyper does not tell, replaces its empty error responses, and lingers on
//! close.
//!
//! hyper does not report received bytes, the first ambiguous request and stalled writes, so they are recorded here. A
//! head that is too late gets its error response from here, too: hyper calls no service without a complete head.
//! `http1` checks the deadlines.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::mem::replace;
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
    /// The first time needs another look.
    was_readable: bool,
}

impl Http1Io {
    pub(super) fn new(stream: NetStream, connection: Arc<DownstreamConnection>) -> Self {
        let stream = TappedStream { stream, tap: ValidatingTap::new() };
        Self { stream: TokioIo::new(stream), connection, linger: Linger::default(), was_readable: false }
    }

    /// Ready when the client has sent something, or has gone.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let stream = &self.stream.inner().stream;
        ready!(stream.poll_readable(cx));
        if !replace(&mut self.was_readable, true) && stream.has_nothing() {
            return stream.poll_readable(cx);
        }
        Poll::Ready(())
    }

    /// Writes an error page in place of hyper's empty response. The part that does not fit into the socket's buffer is
    /// lost: the connection ends.
    fn write_error(&mut self, status: http::StatusCode, cx: &mut Context<'_>) {
        let page = respond::raw_problem(status);
        // A failed write changes nothing: the connection ends anyway.
        let _ = Pin::new(self.stream.inner_mut()).poll_write(cx, &page);
        self.connection.state.linger();
    }
}

impl Drop for Http1Io {
    fn drop(&mut self) {
        if self.connection.state.is_aborted() {
            // A client that finds the end of the response by the close of the connection must not see a clean close.
            self.stream.inner_mut().stream.reset_on_close();
        }
    }
}

impl Read for Http1Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if this.connection.state.head_has_expired() {
            this.write_error(http::StatusCode::REQUEST_TIMEOUT, cx);
            // hyper only drops the stream, and without `close_notify` a TLS client would see a truncation.
            let _ = Pin::new(&mut this.stream).poll_shutdown(cx);
            return Poll::Ready(Err(Error::from(ErrorKind::TimedOut)));
        }
        let state = &this.connection.state;
        if state.is_tunnel() {
            this.stream.inner_mut().tap.stop();
        }
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if read.is_ready() {
            let tap = &mut this.stream.inner_mut().tap;
            state.received_bytes(tap.count);
            state.set_between_requests(tap.is_between_requests());
            if let Some(request) = tap.take_violation() {
                state.mark_ambiguous_from(request);
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
        // An error response of hyper is a head without a body, in one slice.
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
        // hyper leaves, and the connection stays.
        if this.connection.state.is_resting() {
            return Poll::Ready(Ok(()));
        }
        this.connection.state.begin_to_close();
        if !this.linger.has_begun() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if this.connection.state.lingers() {
            ready!(this.linger.poll(&mut this.stream.inner_mut().stream, cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes written; `None` if the client accepts none.
fn written(wrote: &Poll<Result<usize>>) -> Option<usize> {
    match wrote {
        Poll::Ready(Ok(count)) => Some(*count),
        Poll::Ready(Err(_)) => Some(0),
        Poll::Pending => None,
    }
}

/// The status in `HTTP/1.1 400 Bad Request`; `None` if it is not a 4xx.
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
