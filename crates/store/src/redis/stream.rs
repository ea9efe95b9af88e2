//! The stream to one server: TCP, and TLS over it if the address asks for it.
//!
//! The name is looked up for every connection, so a server that has moved is found. Each of several addresses gets its
//! share of the time; otherwise the first one that does not answer would use it up. The protocol is left to
//! [`connection`](super::connection).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{self, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Host, Login};
use super::liveness::Liveness;
use super::reply::unreachable;
use crate::compare_and_swap::StoreError;

/// A stream that reports every read to the liveness check.
pub(super) struct RedisStream {
    inner: Box<dyn Duplex>,
    liveness: Arc<Liveness>,
}

/// A stream of bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

impl RedisStream {
    /// Connects within about this time.
    pub(super) async fn connect(
        host: &Host,
        login: &Login,
        within: Duration,
        liveness: Arc<Liveness>,
    ) -> Result<Self, StoreError> {
        let stream = tcp(host, within).await.map_err(unreachable)?;
        // Requests are small, and their callers wait.
        stream.set_nodelay(true).map_err(unreachable)?;
        let inner: Box<dyn Duplex> = match &login.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::try_from(host.name.to_string()).map_err(unreachable)?;
                let connector = TlsConnector::from(Arc::clone(config));
                Box::new(connector.connect(name, stream).await.map_err(unreachable)?)
            }
        };
        Ok(Self { inner, liveness })
    }
}

async fn tcp(host: &Host, within: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((&*host.name, host.port)).await?.collect();
    let share = within / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::other("its name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(elapsed) => last = elapsed.into(),
        }
    }
    Err(last)
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
