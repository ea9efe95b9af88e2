//! A stream of TLS in a build without it: no value of these types exists.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A certificate of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDer<'c>(Infallible, PhantomData<&'c [u8]>);

/// A connection after its handshake.
#[derive(Debug)]
pub struct TlsStream(Infallible);

/// The common name of a certificate's subject.
#[must_use]
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    match certificate.0 {}
}

impl TlsStream {
    /// The socket and the session.
    #[must_use]
    pub fn get_ref(&self) -> (&TcpStream, &Self) {
        match self.0 {}
    }

    /// Whether all that has come was read.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        match self.0 {}
    }

    /// The protocol that was agreed on.
    #[must_use]
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        match self.0 {}
    }

    /// What the peer showed.
    #[must_use]
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'_>]> {
        match self.0 {}
    }
}

impl AsRawFd for TlsStream {
    fn as_raw_fd(&self) -> RawFd {
        match self.0 {}
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match self.0 {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0 {}
    }
}
