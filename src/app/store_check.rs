//! Asks a shared store once when the gate starts, so that one that is away is told at once and not at the first attempt.
//!
//! It asks what attempts ask, on its own connection and about no client's bucket. What decides meanwhile is left to the store's options.

use std::time::Duration;

use crate::config::StoreSettings;
use crate::store::shared::OnError;
use crate::store::{CompareAndSwap, StoreError, probe_server};
use crate::time::Clock;

/// Asks, and tells how the store answered.
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

/// A store that needs longer for its first connection is as good as away.
const PATIENCE: Duration = Duration::from_secs(3);
