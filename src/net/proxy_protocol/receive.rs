//! The header off a socket: its bytes and not one more, because what follows belongs to TLS or HTTP.
//!
//! It has no deadline of its own: whoever waits for it says how long. The surprising thing: bytes are looked at while they stay
//! in the kernel, and only those of the header are taken out, so that no stream has to carry what was read ahead.

use std::io;
use std::net::SocketAddr;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;

use super::{Malformed, Version, end, source};
use crate::net::stream::Stream;

/// Why nothing is heard of who connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The other side has gone without a word, as those do who look whether somebody listens.
    Silent,
    /// It is no header, or only a part of one.
    Malformed,
}

impl From<Malformed> for Refused {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Who connected to the proxy at the other end of a stream that nothing was read of; `None` is that proxy itself.
///
/// # Errors
/// [`Refused`].
pub async fn receive(stream: &Stream, version: Version) -> Result<Option<SocketAddr>, Refused> {
    let mut header = Vec::new();
    let mut ahead = [0; AHEAD];
    loop {
        let gone = if header.is_empty() { Refused::Silent } else { Refused::Malformed };
        let seen = peek(stream, &mut ahead).await.ok().and_then(|count| ahead.get(..count));
        let before = header.len();
        header.extend_from_slice(seen.filter(|seen| !seen.is_empty()).ok_or(gone)?);
        let end = end(&header, version)?;
        let wanted = end.unwrap_or(header.len()).saturating_sub(before);
        // Never less than was seen: but for as long as nothing is taken, nothing would be waited for.
        let taken = ahead.get_mut(..wanted).and_then(|ahead| take(stream, ahead).ok());
        header.truncate(before + taken.filter(|&taken| taken > 0).ok_or(Refused::Malformed)?);
        if end == Some(header.len()) {
            return Ok(source(&header)?);
        }
    }
}

async fn peek(stream: &Stream, ahead: &mut [u8]) -> io::Result<usize> {
    match stream {
        Stream::Tcp(stream) => stream.peek(ahead).await,
        Stream::Unix(stream) => {
            let look = || Ok(recv(stream, &mut *ahead, RecvFlags::PEEK)?.1);
            stream.async_io(Interest::READABLE, look).await
        }
        Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn take(stream: &Stream, bytes: &mut [u8]) -> io::Result<usize> {
    match stream {
        Stream::Tcp(stream) => stream.try_read(bytes),
        Stream::Unix(stream) => stream.try_read(bytes),
        Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Longer than nearly all headers.
const AHEAD: usize = 256;
