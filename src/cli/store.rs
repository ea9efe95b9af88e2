//! Calls the store of a configuration from the command line: one call at a time, each with a time-out.
//!
//! No mirror, no breaker and no second try stand between, so what is heard is what the store said. The surprising thing: to
//! be asked for its statements it is opened, but nothing that it would do by itself is run, so nobody connects.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use crate::config::StoreSettings;
use crate::store::{CompareAndSwap, StoreError, StoreFuture};

/// A store that several gates share.
pub(super) struct OpenedStore {
    runtime: Runtime,
    backend: std::sync::Arc<dyn CompareAndSwap>,
}

/// Opens it; `None` if the buckets are in the gate's memory.
///
/// # Errors
/// What can be known without asking it.
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
    /// The statements that prepare it.
    pub(super) fn schema(&self) -> Vec<String> {
        self.backend.schema()
    }

    /// Asks, and waits so long for the answer.
    pub(super) fn call<'s, T>(
        &'s self,
        patience: Duration,
        question: impl FnOnce(&'s dyn CompareAndSwap) -> StoreFuture<'s, T>,
    ) -> Result<T, StoreError> {
        let answer = self.runtime.block_on(async {
            let asked = question(&*self.backend);
            tokio::time::timeout(patience, asked).await
        });
        let late = |_| StoreError::Unreachable(format!("no answer within {} s", patience.as_secs()));
        Ok(answer.map_err(late)??.value)
    }
}
