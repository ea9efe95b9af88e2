//! The TLS handshake of one connection, on either side.
//!
//! The deadline is left to the caller. The handshake is never part of accepting, because a client that stops in the
//! middle of it would hold up all clients behind it.

use std::io;

use tokio::net::TcpStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use super::acceptor::Acceptor;
use super::trust::Trust;
use crate::net::stream::NetStream;

/// Makes the handshake with a client.
///
/// # Errors
/// The client broke the protocol, or has gone.
pub async fn accept(stream: TcpStream, acceptor: &Acceptor) -> io::Result<NetStream> {
    let config = acceptor.config_for(&stream);
    if !acceptor.orders() {
        return Ok(NetStream::Tls(Box::new(TlsAcceptor::from(config).accept(stream).await?.into())));
    }
    let started = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
    let demand = acceptor.demand_for(&started.client_hello());
    if let Some((on_demand, name)) = demand {
        on_demand.wait_for(&name).await;
    }
    let stream = started.into_stream(config).await?;
    Ok(NetStream::Tls(Box::new(stream.into())))
}

/// Makes the handshake with a server that has to be `host`: a name, or an address without brackets.
///
/// # Errors
/// The server cannot prove that, speaks no TLS, or has gone.
pub async fn connect(stream: TcpStream, host: &str, trust: &Trust) -> io::Result<NetStream> {
    Ok(NetStream::Tls(Box::new(trust.connect(stream, host).await?.into())))
}
