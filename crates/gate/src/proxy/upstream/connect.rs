//! Opens a connection to an upstream.
//!
//! The slot comes from `upstream`; `http1` speaks over the connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::addresses::NamedAddress;
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
    let within = settings.connect_timeout.to_std();
    let trust = settings.upstream_trust.as_ref();
    let stream = timeout(within, open(health, trust, within)).await;
    let (stream, address) = stream.map_err(|_| Failure::ConnectTimeout)??;
    let trust = trust.filter(|_| matches!(stream, NetStream::Tls(_))).cloned();
    let timer = Box::pin(tokio::time::sleep(within));
    Ok(Box::new(UpstreamConnection {
        socket: BufferedSocket::new(stream),
        timer,
        trust,
        address,
        _permit: slot,
    }))
}

/// Opens a stream, over TCP within about this time; with the address behind the upstream's name.
pub(super) async fn open(
    health: &Health,
    trust: Option<&Trust>,
    within: Duration,
) -> Result<Opened, Failure> {
    let UpstreamTarget { address, host: asked } = &health.target;
    match address {
        UpstreamAddress::Tcp { host, port } => {
            let (stream, address) = tcp(health, host, *port, within).await?;
            Ok((NetStream::Tcp(stream), address))
        }
        UpstreamAddress::Tls { host, port } => {
            let (stream, address) = tcp(health, host, *port, within).await?;
            // A configuration with such an upstream has CAs.
            let trust = trust.ok_or(Failure::Tls)?;
            let name = asked.as_ref().map_or(host, |asked| &asked.name);
            let stream = tls::connect(stream, name, trust).await.map_err(|error| tls_failure(&error))?;
            Ok((stream, address))
        }
        UpstreamAddress::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| connect_failure(&error))?;
            Ok((NetStream::Unix(stream), None))
        }
    }
}

/// A stream, and the address behind the name of its upstream.
pub(super) type Opened = (NetStream, Option<Arc<NamedAddress>>);

/// `Exhausted` if this machine has run out of a resource: another upstream would not help then.
fn connect_failure(error: &io::Error) -> Failure {
    match error.kind() {
        _ if connector::is_exhausted(error) => Failure::Exhausted,
        io::ErrorKind::TimedOut => Failure::ConnectTimeout,
        _ => Failure::Connect,
    }
}

async fn tcp(
    health: &Health,
    host: &str,
    port: u16,
    within: Duration,
) -> Result<(TcpStream, Option<Arc<NamedAddress>>), Failure> {
    let opened = match health.looked_up_name() {
        Some(_) => by_name(health, host, port, within).await.map(|(stream, address)| (stream, Some(address))),
        None => health.connector.connect(host, port).await.map(|stream| (stream, None)),
    };
    let nodelay = opened.and_then(|opened| opened.0.set_nodelay(true).map(|()| opened));
    nodelay.map_err(|error| connect_failure(&error))
}

/// Looks the name up and connects; where the name has no answer, to its last addresses. An address that the name has no
/// longer may be a stranger's, so it is not tried because another one refuses.
async fn by_name(
    health: &Health,
    host: &str,
    port: u16,
    within: Duration,
) -> io::Result<(TcpStream, Arc<NamedAddress>)> {
    let addresses = &health.addresses;
    let last = addresses.last();
    let mut failed: io::Error = io::ErrorKind::TimedOut.into();
    let is_failing = addresses.is_failing();
    if !is_failing {
        let lookup_share = if last.is_empty() { within } else { within * 3 / 4 };
        match timeout(lookup_share, health.connector.connect(host, port)).await {
            Ok(Ok(stream)) => {
                let ip = stream.peer_addr()?.ip();
                return Ok((stream, addresses.connected(ip, health.clock.now())));
            }
            // The kernel's, and not the resolver's.
            Ok(Err(error)) if error.raw_os_error().is_some() => return Err(error),
            Ok(Err(error)) => failed = error,
            Err(_) => {}
        }
    }
    let left = if is_failing { within } else { within / 4 };
    let share = left / u32::try_from(last.len()).unwrap_or(u32::MAX).max(1);
    for address in last {
        match timeout(share, TcpStream::connect(SocketAddr::new(address.ip, port))).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => failed = error,
            Err(_) => {}
        }
    }
    Err(failed)
}

fn tls_failure(error: &io::Error) -> Failure {
    if tls::is_about_certificate(error) { Failure::Certificate } else { Failure::Tls }
}
