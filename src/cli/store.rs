//! Calls the store of a configuration from the command line: one call at a time, each with a time-out.
//!
//! Calls go to the store itself: no mirror, no circuit breaker, no second attempt. To list its statements the store is
//! opened but not run, so it connects to no server.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use crate::config::StoreSettings;
use crate::store::{CompareAndSwap, Fleet, FleetKeys, ServerId, StoreError, StoreFuture, probe_server};
use crate::time::Time;

/// A store that several gates share.
pub(super) struct OpenedStore {
    runtime: Runtime,
    backend: std::sync::Arc<dyn CompareAndSwap>,
}

/// Opens the store; `None` if the buckets are in the gate's memory.
///
/// # Errors
/// If the address or its options cannot work; no server is asked for that.
pub(super) fn open(store: &StoreSettings) -> anyhow::Result<Option<OpenedStore>> {
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
    let backend = {
        let _within = runtime.enter();
        store.address.open(&store.names)
    };
    let backend = backend.transpose().with_context(|| format!("the store ({})", store.address))?;
    Ok(backend.map(|backend| OpenedStore { runtime, backend }))
}

impl OpenedStore {
    /// The statements that prepare the store.
    pub(super) fn schema(&self) -> Vec<String> {
        self.backend.schema()
    }

    /// The servers of the store, as far as they are known.
    pub(super) fn servers(&self) -> Vec<ServerId> {
        self.backend.servers().into_iter().map(|server| server.id).collect()
    }

    /// What gates share in the store in addition to buckets.
    pub(super) fn fleet(&self, keys: FleetKeys) -> Fleet {
        Fleet::new(std::sync::Arc::clone(&self.backend), keys)
    }

    /// Waits for requests to the store, at most this long.
    pub(super) fn wait<T>(&self, timeout: Duration, requests: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { tokio::time::timeout(timeout, requests).await.ok() })
    }

    /// Calls the store, and waits at most `timeout` for its reply.
    pub(super) fn call<'s, T>(
        &'s self,
        timeout: Duration,
        call: impl FnOnce(&'s dyn CompareAndSwap) -> StoreFuture<'s, T>,
    ) -> Result<T, StoreError> {
        Ok(self
            .wait(timeout, async { call(&*self.backend).await })
            .unwrap_or_else(|| Err(late(timeout)))?
            .value)
    }

    /// Asks a server what attempts ask, and waits at most `timeout`.
    pub(super) fn probe(&self, timeout: Duration, server: ServerId, now: Time) -> Result<(), StoreError> {
        let probe = probe_server(&*self.backend, server, now);
        self.wait(timeout, probe).unwrap_or_else(|| Err(late(timeout)))
    }
}

fn late(timeout: Duration) -> StoreError {
    StoreError::Unreachable(format!("no answer within {} s", timeout.as_secs()))
}
