//! Reads the PROXY header from a socket, and no byte more: what follows belongs to TLS or HTTP.
//!
//! The deadline is left to the caller. Bytes are looked at while they stay in the kernel, and only those of the header
//! are taken out, so no stream has to carry bytes that were read ahead.

use std::io;
use std::net::SocketAddr;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;

use super::{MalformedProxyHeader, ProxyProtocolVersion, end, source};
use crate::net::stream::NetStream;

/// Why no header was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The peer has closed the connection without a byte, as health checks do.
    Closed,
    /// The bytes are not a header, or only a part of one.
    Malformed,
}

impl From<MalformedProxyHeader> for ProxyHeaderError {
    fn from(_: MalformedProxyHeader) -> Self {
        Self::Malformed
    }
}

/// The client's address, sent by the proxy at the other end of an unread stream; `None` if the proxy speaks for itself.
///
/// # Errors
/// [`ProxyHeaderError`].
pub async fn receive(
    stream: &NetStream,
    version: ProxyProtocolVersion,
) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let mut header = Vec::new();
    let mut ahead = [0; AHEAD];
    loop {
        let gone = if header.is_empty() { ProxyHeaderError::Closed } else { ProxyHeaderError::Malformed };
        let seen = peek(stream, &mut ahead).await.ok().and_then(|count| ahead.get(..count));
        let before = header.len();
        header.extend_from_slice(seen.filter(|seen| !seen.is_empty()).ok_or(gone)?);
        let end = end(&header, version)?;
        let wanted = end.unwrap_or(header.len()).saturating_sub(before);
        // Takes all that was seen: while bytes stay in the kernel, the next peek does not wait.
        let taken = ahead.get_mut(..wanted).and_then(|ahead| take(stream, ahead).ok());
        header.truncate(before + taken.filter(|&taken| taken > 0).ok_or(ProxyHeaderError::Malformed)?);
        if end == Some(header.len()) {
            return Ok(source(&header)?);
        }
    }
}

async fn peek(stream: &NetStream, ahead: &mut [u8]) -> io::Result<usize> {
    match stream {
        NetStream::Tcp(stream) => stream.peek(ahead).await,
        NetStream::Unix(stream) => {
            let read_ahead = || Ok(recv(stream, &mut *ahead, RecvFlags::PEEK)?.1);
            stream.async_io(Interest::READABLE, read_ahead).await
        }
        NetStream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn take(stream: &NetStream, bytes: &mut [u8]) -> io::Result<usize> {
    match stream {
        NetStream::Tcp(stream) => stream.try_read(bytes),
        NetStream::Unix(stream) => stream.try_read(bytes),
        NetStream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Longer than nearly all headers.
const AHEAD: usize = 256;
