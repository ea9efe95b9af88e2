//! Opens a connection to an upstream.
//!
//! The slot comes from `upstream`; `http1` speaks over the connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::addresses::NamedAddress;
use super::{Health, UpstreamAddress, UpstreamConnection, UpstreamTarget};
use crate::event::Failure;
use crate::net::connection_slots::ConnectionSlot;
use crate::net::connector;
use crate::net::stream::NetStream;
use crate::net::tls;
use crate::proxy::buffered_socket::BufferedSocket;
use crate::proxy::settings::ProxySettings;

pub(super) async fn connect(
    health: &Health,
    slot: ConnectionSlot,
    settings: &ProxySettings,
) -> Result<Box<UpstreamConnection>, Failure> {
    let within = settings.connect_timeout.to_std();
    let stream = timeout(within, open(health, settings, within)).await;
    let (stream, address) = stream.map_err(|_| Failure::ConnectTimeout)??;
    let trust = settings.upstream_trust.as_ref().filter(|_| matches!(stream, NetStream::Tls(_))).cloned();
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
    settings: &ProxySettings,
    within: Duration,
) -> Result<Opened, Failure> {
    let UpstreamTarget { address, host: asked } = &health.target;
    let (stream, named) =
        transport(health, settings, within).await.map_err(|error| connect_failure(&error))?;
    match (address, stream) {
        (UpstreamAddress::Tls { host, .. }, NetStream::Tcp(stream)) => {
            // A configuration with such an upstream has CAs.
            let trust = settings.upstream_trust.as_ref().ok_or(Failure::Tls)?;
            let name = asked.as_ref().map_or(host, |asked| &asked.name);
            let stream = tls::connect(stream, name, trust).await.map_err(|error| tls_failure(&error))?;
            Ok((stream, named))
        }
        (_, stream) => Ok((stream, named)),
    }
}

impl Health {
    /// Connects to it within about this time, and hangs up.
    ///
    /// # Errors
    /// The error of the kernel or of the resolver.
    pub async fn reach(&self, settings: &ProxySettings, within: Duration) -> io::Result<()> {
        transport(self, settings, within).await.map(drop)
    }
}

async fn transport(health: &Health, settings: &ProxySettings, within: Duration) -> io::Result<Opened> {
    let (host, port) = match &health.target.address {
        UpstreamAddress::Tcp { host, port } | UpstreamAddress::Tls { host, port } => (host, *port),
        UpstreamAddress::Unix(path) => return Ok((NetStream::Unix(UnixStream::connect(path).await?), None)),
    };
    let (stream, named) = match health.looked_up_name() {
        Some(_) => {
            let name = UpstreamName { health, host, port, has_resolver: !settings.resolver.is_empty() };
            let (stream, named) = name.connect(within).await?;
            (stream, Some(named))
        }
        None => (health.connector.connect(host, port).await?, None),
    };
    stream.set_nodelay(true)?;
    Ok((NetStream::Tcp(stream), named))
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

/// The name of an upstream, which has to be looked up.
struct UpstreamName<'h> {
    health: &'h Health,
    host: &'h str,
    port: u16,
    /// Whether the configuration names the servers of DNS: these answer the application alone.
    has_resolver: bool,
}

type OpenedByName = (TcpStream, Arc<NamedAddress>);

impl UpstreamName<'_> {
    /// Connects to the addresses of an answer that holds; without one looks the name up; where it has no answer, connects to
    /// its last addresses. An address that the name has no longer may be a stranger's, so it is not tried because another one
    /// refuses.
    async fn connect(&self, within: Duration) -> io::Result<OpenedByName> {
        let addresses = &self.health.addresses;
        let last = addresses.last();
        let is_failing = addresses.is_failing();
        let share = if is_failing || last.is_empty() { within } else { within * 3 / 4 };
        let mut failed: io::Error = io::ErrorKind::TimedOut.into();
        if !is_failing {
            match timeout(share, self.connect_to_answer(share)).await {
                Ok(Ok(opened)) => return Ok(opened),
                // The kernel's, and not the resolver's.
                Ok(Err(error)) if error.raw_os_error().is_some() => return Err(error),
                Ok(Err(error)) => failed = error,
                Err(_) => {}
            }
        }
        let left = if is_failing { within } else { within / 4 };
        self.connect_to_any(last, left).await.map_err(|error| error.unwrap_or(failed))
    }

    /// If the addresses of the last answer refuse, the name may have moved since, so the system's resolver is asked.
    async fn connect_to_answer(&self, within: Duration) -> io::Result<OpenedByName> {
        let Health { addresses, clock, connector, .. } = self.health;
        let current = match self.has_resolver {
            true => addresses.next_current(|| clock.now()).await,
            false => addresses.current(clock.now()),
        };
        // Time is left for the system's resolver, which hears sooner of a container that was made again.
        let first = if self.has_resolver { within } else { within / 2 };
        match self.connect_to_any(current.unwrap_or_default(), first).await {
            Ok(opened) => return Ok(opened),
            Err(error) if self.has_resolver => {
                return Err(error.unwrap_or_else(|| io::Error::other("its name has no address")));
            }
            Err(_) => addresses.forget_current(),
        }
        let stream = connector.connect(self.host, self.port).await?;
        let ip = stream.peer_addr()?.ip();
        Ok((stream, addresses.connected(ip, clock.now())))
    }

    /// The error is that of the kernel, if there was one.
    async fn connect_to_any(
        &self,
        addresses: Vec<Arc<NamedAddress>>,
        within: Duration,
    ) -> Result<OpenedByName, Option<io::Error>> {
        let share = within / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut failed = None;
        for address in addresses {
            let opened =
                timeout(share, self.health.connector.connect_to(self.host, address.ip, self.port)).await;
            let has_failed = !matches!(opened, Ok(Ok(_)));
            if address.has_failed.load(Relaxed) != has_failed {
                address.has_failed.store(has_failed, Relaxed);
            }
            match opened {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => {}
            }
        }
        Err(failed)
    }
}

fn tls_failure(error: &io::Error) -> Failure {
    if tls::is_about_certificate(error) { Failure::Certificate } else { Failure::Tls }
}
