//! A fresh connection to an upstream.
//!
//! Each is driven by a task of its own, which ends with it.

use std::io;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

use super::ration::Ration;
use super::{Connection, Health, UpstreamAddress};
use crate::event::Failure;
use crate::net::places::Place;
use crate::net::room;
use crate::net::stream::Stream;
use crate::net::tls::{self, Trust};
use crate::proxy::settings::Settings;
use crate::proxy::watched::Watched;

pub(super) async fn connect(
    health: &Health,
    place: Place,
    settings: &Settings,
) -> Result<Connection, Failure> {
    let timeout = settings.connect_timeout.to_std();
    let trust = settings.upstream_trust.as_ref();
    let stream = tokio::time::timeout(timeout, open(health, trust)).await;
    let stream = stream.map_err(|_| Failure::ConnectTimeout)??;
    let trust = trust.filter(|_| matches!(stream, Stream::Tls(_))).cloned();
    let ration = Ration::new();
    let (sender, driver) = http1::Builder::new()
        .max_headers(MOST_HEADERS)
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(Watched { stream, watch: ration.clone() }))
        .await
        .map_err(|_| Failure::Connect)?;
    tokio::task::spawn_local(async move {
        // How a connection ends is told to the request that is on it; afterwards nobody wants to know.
        let _ = driver.with_upgrades().await;
    });
    let patience = Box::pin(tokio::time::sleep(timeout));
    Ok(Connection { sender, patience, ration, trust, _place: place })
}

async fn open(health: &Health, trust: Option<&Trust>) -> Result<Stream, Failure> {
    match &health.address {
        UpstreamAddress::Tcp { host, port } => tcp(health, host, *port).await.map(Stream::Tcp),
        UpstreamAddress::Tls { host, port } => {
            let stream = tcp(health, host, *port).await.map_err(|error| whose_fault(&error))?;
            // A file with such an upstream has somebody to trust.
            let trust = trust.ok_or(Failure::Tls)?;
            return tls::connect(stream, host, trust).await.map_err(|error| why(&error));
        }
        UpstreamAddress::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
    }
    .map_err(|error| whose_fault(&error))
}

/// Where this machine has run out of something another upstream would not help, and the next moment may.
fn whose_fault(error: &io::Error) -> Failure {
    if room::is_exhausted(error) { Failure::Exhausted } else { Failure::Connect }
}

async fn tcp(health: &Health, host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = health.connector.connect(host, port).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn why(error: &io::Error) -> Failure {
    if tls::is_about_certificate(error) { Failure::Certificate } else { Failure::Tls }
}

const MOST_HEADERS: usize = 200;
const BUFFER: usize = 64 * 1024;
