//! Asks a shared store and connects to each upstream once when the gate starts, so that one that is away is told at once and
//! not at the first request.
//!
//! A store is asked what attempts ask, on its own connection and about no client's bucket; its options say what decides
//! meanwhile. An upstream is sent nothing; whether it answers requests is left to its health.

use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use crate::config::StoreSettings;
use crate::proxy::settings::ProxySettings;
use crate::proxy::upstream::Health;
use crate::store::shared::OnError;
use crate::store::{CompareAndSwap, StoreError, probe_server};
use crate::time::Clock;

/// Asks the store, and tells how it answered.
pub(super) async fn tell_of_store(settings: StoreSettings) {
    let Some(Ok(backend)) = settings.address.open(&settings.names) else { return };
    let name = &settings.address;
    let why = match tokio::time::timeout(PATIENCE, probe_all(&*backend)).await {
        Ok(Ok(())) => {
            tracing::info!("the store ({name}) answers");
            return;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    let until = match settings.options.on_error {
        OnError::Local => "this gate's own buckets decide",
        OnError::Allow => "every attempt is admitted",
        OnError::Deny => "every attempt is answered 503",
    };
    tracing::error!("the store ({name}) cannot be used: {why}: until it can, {until} (store.on_error)");
}

/// Asks each of its servers.
async fn probe_all(backend: &dyn CompareAndSwap) -> Result<(), StoreError> {
    for server in backend.servers() {
        probe_server(backend, server.id, Clock::system().now()).await?;
    }
    Ok(())
}

impl Parts {
    /// Connects to all upstreams, each in a task.
    pub(super) fn tell_of_upstreams(&self) {
        let mut seen: Vec<Arc<Health>> = Vec::new();
        let config = self.config.load();
        for health in config.upstreams.iter().flatten() {
            if !seen.iter().any(|known| Arc::ptr_eq(known, health)) {
                seen.push(Arc::clone(health));
                tokio::spawn(tell_of_upstream(Arc::clone(health), Arc::clone(&config.settings)));
            }
        }
    }
}

async fn tell_of_upstream(health: Arc<Health>, settings: Arc<ProxySettings>) {
    let why = match tokio::time::timeout(PATIENCE, health.reach(&settings, PATIENCE)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", PATIENCE.as_secs()),
    };
    let upstream = health.name();
    tracing::warn!(
        "the upstream {upstream} cannot be reached: {why}: until it can, its requests are answered 502"
    );
}

/// What needs longer for its first connection is as good as away.
const PATIENCE: Duration = Duration::from_secs(3);
