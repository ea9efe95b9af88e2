//! Opens a connection to an upstream.
//!
//! The slot comes from `upstream`; `http1` speaks over the connection.

use std::io;

use tokio::net::{TcpStream, UnixStream};

use super::{Health, UpstreamAddress, UpstreamConnection, UpstreamTarget};
use crate::event::Failure;
use crate::net::connection_slots::ConnectionSlot;
use crate::net::connector;
use crate::net::stream::NetStream;
use crate::net::tls::{self, Trust};
use crate::proxy::buffered_socket::BufferedSocket;
use crate::proxy::settings::ProxySettings;

pub(super) async fn connect(
    health: &Health,
    slot: ConnectionSlot,
    settings: &ProxySettings,
) -> Result<Box<UpstreamConnection>, Failure> {
    let timeout = settings.connect_timeout.to_std();
    let trust = settings.upstream_trust.as_ref();
    let stream = tokio::time::timeout(timeout, open(health, trust)).await;
    let stream = stream.map_err(|_| Failure::ConnectTimeout)??;
    let trust = trust.filter(|_| matches!(stream, NetStream::Tls(_))).cloned();
    let timer = Box::pin(tokio::time::sleep(timeout));
    Ok(Box::new(UpstreamConnection { socket: BufferedSocket::new(stream), timer, trust, _permit: slot }))
}

async fn open(health: &Health, trust: Option<&Trust>) -> Result<NetStream, Failure> {
    let UpstreamTarget { address, host: asked } = &health.target;
    match address {
        UpstreamAddress::Tcp { host, port } => tcp(health, host, *port).await.map(NetStream::Tcp),
        UpstreamAddress::Tls { host, port } => {
            let stream = tcp(health, host, *port).await.map_err(|error| connect_failure(&error))?;
            // A configuration with such an upstream has CAs.
            let trust = trust.ok_or(Failure::Tls)?;
            let name = asked.as_ref().map_or(host, |asked| &asked.name);
            return tls::connect(stream, name, trust).await.map_err(|error| tls_failure(&error));
        }
        UpstreamAddress::Unix(path) => UnixStream::connect(path).await.map(NetStream::Unix),
    }
    .map_err(|error| connect_failure(&error))
}

/// `Exhausted` if this machine has run out of a resource: another upstream would not help then.
fn connect_failure(error: &io::Error) -> Failure {
    if connector::is_exhausted(error) { Failure::Exhausted } else { Failure::Connect }
}

async fn tcp(health: &Health, host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = health.connector.connect(host, port).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn tls_failure(error: &io::Error) -> Failure {
    if tls::is_about_certificate(error) { Failure::Certificate } else { Failure::Tls }
}
