//! The stream to one server, which tells the liveness check of every read. The protocol is left to
//! [`connection`](super::connection).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{self, AsyncRead, AsyncWrite, ReadBuf};

use super::address::{Host, Login};
use super::liveness::Liveness;
use crate::compare_and_swap::StoreError;
use tollgate_base::stream::{self, Duplex};

/// A stream that reports every read to the liveness check.
pub(super) struct RedisStream {
    inner: Box<dyn Duplex>,
    liveness: Arc<Liveness>,
}

impl RedisStream {
    /// Connects within about this time.
    pub(super) async fn connect(
        host: &Host,
        login: &Login,
        within: Duration,
        liveness: Arc<Liveness>,
    ) -> Result<Self, StoreError> {
        let inner = stream::open(&host.name, host.port, login.trust.as_ref(), within).await;
        Ok(Self { inner: inner.map_err(StoreError::unreachable)?, liveness })
    }
}

impl AsyncRead for RedisStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.liveness.mark_received();
        }
        read
    }
}

impl AsyncWrite for RedisStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
