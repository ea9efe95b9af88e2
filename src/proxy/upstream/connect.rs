//! Opens a connection to an upstream.
//!
//! A task of its own drives each connection and ends with it. The slot comes from `upstream`.

use std::io;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

use super::head_limit::HeadLimit;
use super::{Health, UpstreamAddress, UpstreamConnection};
use crate::event::Failure;
use crate::net::connection_slots::ConnectionSlot;
use crate::net::connector;
use crate::net::stream::NetStream;
use crate::net::tls::{self, Trust};
use crate::proxy::settings::ProxySettings;
use crate::proxy::tap::TappedStream;

pub(super) async fn connect(
    health: &Health,
    slot: ConnectionSlot,
    settings: &ProxySettings,
) -> Result<UpstreamConnection, Failure> {
    let timeout = settings.connect_timeout.to_std();
    let trust = settings.upstream_trust.as_ref();
    let stream = tokio::time::timeout(timeout, open(health, trust)).await;
    let stream = stream.map_err(|_| Failure::ConnectTimeout)??;
    let trust = trust.filter(|_| matches!(stream, NetStream::Tls(_))).cloned();
    let head_limit = HeadLimit::new();
    let (sender, driver) = http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(TappedStream { stream, tap: head_limit.clone() }))
        .await
        .map_err(|_| Failure::Connect)?;
    tokio::task::spawn_local(async move {
        // The request on the connection gets its error; an idle connection needs none.
        let _ = driver.with_upgrades().await;
    });
    let timer = Box::pin(tokio::time::sleep(timeout));
    Ok(UpstreamConnection { sender, timer, head_limit, trust, _permit: slot })
}

async fn open(health: &Health, trust: Option<&Trust>) -> Result<NetStream, Failure> {
    match &health.address {
        UpstreamAddress::Tcp { host, port } => tcp(health, host, *port).await.map(NetStream::Tcp),
        UpstreamAddress::Tls { host, port } => {
            let stream = tcp(health, host, *port).await.map_err(|error| connect_failure(&error))?;
            // A configuration with such an upstream has CAs.
            let trust = trust.ok_or(Failure::Tls)?;
            return tls::connect(stream, host, trust).await.map_err(|error| tls_failure(&error));
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

const BUFFER: usize = 64 * 1024;
