//! Connects to each upstream once when the gate starts, so that one that is away is told at once and not at the first request.
//!
//! It sends nothing. Whether an upstream answers requests is left to its health.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;

use super::Parts;
use crate::net::connector::Connector;
use crate::proxy::upstream::{Health, UpstreamAddress};

impl Parts {
    /// Connects to all of them, each in a task.
    pub(super) fn tell_of_upstreams(&self) {
        let mut seen: Vec<Arc<Health>> = Vec::new();
        for health in self.config.load().upstreams.iter().flatten() {
            if !seen.iter().any(|known| Arc::ptr_eq(known, health)) {
                seen.push(Arc::clone(health));
                tokio::spawn(tell(Arc::clone(health), self.sandbox.connector().clone()));
            }
        }
    }
}

async fn tell(health: Arc<Health>, connector: Connector) {
    let why = match tokio::time::timeout(PATIENCE, connect(&health.target().address, &connector)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", PATIENCE.as_secs()),
    };
    let upstream = health.name();
    tracing::warn!(
        "the upstream {upstream} cannot be reached: {why}: until it can, its requests are answered 502"
    );
}

async fn connect(address: &UpstreamAddress, connector: &Connector) -> io::Result<()> {
    match address {
        UpstreamAddress::Tcp { host, port } | UpstreamAddress::Tls { host, port } => {
            connector.connect(host, *port).await.map(drop)
        }
        UpstreamAddress::Unix(path) => UnixStream::connect(path).await.map(drop),
    }
}

const PATIENCE: Duration = Duration::from_secs(3);
