//! The TLS handshake of one connection, on either side.
//!
//! The deadline is left to the caller. The handshake is never part of accepting, because a client that stops in the
//! middle of it would hold up all clients behind it.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::acceptor::Acceptor;
use super::trust::Trust;
use crate::net::stream::NetStream;

/// Makes the handshake with a client.
///
/// # Errors
/// The client broke the protocol, or has gone.
pub async fn accept(stream: TcpStream, acceptor: &Acceptor) -> io::Result<NetStream> {
    let stream = TlsAcceptor::from(Arc::clone(&acceptor.0)).accept(stream).await?;
    Ok(NetStream::Tls(Box::new(stream.into())))
}

/// Makes the handshake with a server that has to be `host`: a name, or an address without brackets.
///
/// # Errors
/// The server cannot prove that ([`is_about_certificate`]), speaks no TLS, or has gone.
pub async fn connect(stream: TcpStream, host: &str, trust: &Trust) -> io::Result<NetStream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::clone(trust.config())).connect(name, stream).await?;
    Ok(NetStream::Tls(Box::new(stream.into())))
}

/// Whether the server's certificate was rejected.
#[must_use]
pub fn is_about_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
