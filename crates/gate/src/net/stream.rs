//! A connection over TCP, TLS or a Unix socket, and the address of its peer. Handshakes are left to
//! [`tls`](super::tls).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

use super::tls_stream::{CertificateDer, TlsStream};

/// A connected socket.
#[derive(Debug)]
pub enum NetStream {
    /// Over TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TLS, after the handshake; of either side. Boxed: it is twenty times as large as the others.
    Tls(Box<TlsStream>),
}

impl NetStream {
    /// Whether HTTP/2 was agreed on in the handshake (ALPN).
    #[must_use]
    pub fn speaks_http2(&self) -> bool {
        self.protocol() == Some(b"h2")
    }

    /// Whether the handshake was all that an authority wanted, which checks a name (RFC 8737): nothing may follow.
    #[must_use]
    pub fn is_validation(&self) -> bool {
        self.protocol() == Some(ACME_TLS)
    }

    /// Waits for the first bytes, and tells whether they begin HTTP/2 (RFC 9113, 3.4). Where the handshake agreed on another
    /// protocol, or on none, they do not.
    pub async fn begins_http2(&self) -> bool {
        loop {
            let peeked = match self {
                Self::Tls(_) => return self.speaks_http2(),
                Self::Tcp(stream) => match stream.ready(Interest::READABLE).await {
                    Ok(ready) => stream.try_io(Interest::READABLE, || peek_http2(stream.as_fd(), ready)),
                    Err(error) => Err(error),
                },
                Self::Unix(stream) => match stream.ready(Interest::READABLE).await {
                    Ok(ready) => stream.try_io(Interest::READABLE, || peek_http2(stream.as_fd(), ready)),
                    Err(error) => Err(error),
                },
            };
            match peeked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                peeked => return peeked.unwrap_or(false),
            }
        }
    }

    /// The certificate that the peer showed.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'_>> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    fn protocol(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }
}

/// Whether the bytes that have come begin HTTP/2; [`WouldBlock`](io::ErrorKind::WouldBlock) while only more of them can tell:
/// `POST` begins as `PRI` does.
fn peek_http2(socket: BorrowedFd<'_>, ready: Ready) -> io::Result<bool> {
    let mut first = [0; 3];
    let (length, _) = recv(socket, &mut first, RecvFlags::PEEK)?;
    let begins = length > 0 && b"PRI".starts_with(&first[..length.min(3)]);
    // After the last byte, waiting for another would never end.
    if begins && length < first.len() && !ready.is_read_closed() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(begins && length >= first.len())
}

/// The address of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddr {
    /// A TCP address as the kernel reports it.
    Ip(SocketAddr),
    /// A process on this machine.
    Unix,
}

impl AsRawFd for NetStream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tls(stream) => stream.as_raw_fd(),
        }
    }
}

macro_rules! delegate {
    ($self:ident, $cx:ident, $method:ident $(, $argument:expr)*) => {
        match $self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).$method($cx $(, $argument)*),
            Self::Unix(stream) => Pin::new(stream).$method($cx $(, $argument)*),
            Self::Tls(stream) => Pin::new(&mut **stream).$method($cx $(, $argument)*),
        }
    };
}

impl NetStream {
    /// Ready when there may be something to read: bytes, the end of the stream, or an error. A socket of which nothing was
    /// read yet is always taken for readable: see [`has_nothing`](Self::has_nothing).
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let ready = match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
            Self::Tls(stream) => match stream.get_ref() {
                (stream, session) if session.wants_read() => stream.poll_read_ready(cx),
                // What has come is decrypted already.
                _ => Poll::Ready(Ok(())),
            },
        };
        // An error shows in the next read.
        ready.map(drop)
    }

    /// Asks the kernel, which knows: nothing has come that was not read. After that
    /// [`poll_readable`](Self::poll_readable) waits.
    #[must_use]
    pub fn has_nothing(&self) -> bool {
        let peek = |socket: BorrowedFd<'_>| Ok(recv(socket, &mut [0; 1], RecvFlags::PEEK)?.1);
        let peeked = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, || peek(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, || peek(stream.as_fd())),
            Self::Tls(stream) => match stream.get_ref() {
                (stream, session) if session.wants_read() => {
                    stream.try_io(Interest::READABLE, || peek(stream.as_fd()))
                }
                _ => return false,
            },
        };
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Makes the peer see a reset instead of an orderly end when this is closed. Unix sockets have no resets.
    pub fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            // A connection that is gone already cannot be reset.
            let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for NetStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, cx, poll_read, buf)
    }
}

impl AsyncWrite for NetStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, cx, poll_write, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, cx, poll_write_vectored, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, cx, poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, cx, poll_shutdown)
    }
}

/// The protocol by which an authority checks a name in a handshake (ALPN).
pub(in crate::net) const ACME_TLS: &[u8] = b"acme-tls/1";
