//! The stream to one server: TCP, and TLS over it if the address asks for it.
//!
//! The name is looked up for every connection, so a server that has moved is found. Each of several addresses gets its
//! share of the time; otherwise the first one that does not answer would use it up. The protocol is left to the
//! callers.

use std::time::Duration;

use tokio::io::{self, AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::tls::Trust;

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Connects to `host`, a name or an address without brackets, by TLS if there is trust to check it by. TCP takes about
/// `within` at most; the caller bounds TLS.
///
/// # Errors
/// The error of the kernel, of the resolver, or of the handshake.
pub async fn open(
    host: &str,
    port: u16,
    trust: Option<&Trust>,
    within: Duration,
) -> io::Result<Box<dyn Duplex>> {
    let stream = tcp(host, port, within).await?;
    // Requests are small, and their callers wait.
    stream.set_nodelay(true)?;
    match trust {
        None => Ok(Box::new(stream)),
        Some(trust) => Ok(Box::new(trust.connect(stream, host).await?)),
    }
}

async fn tcp(host: &str, port: u16, within: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
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
