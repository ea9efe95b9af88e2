//! Restores buckets from the snapshot or the old process, and writes snapshots while the gate runs.
//!
//! A damaged file is moved aside, and the gate starts with full buckets. A failed write is logged once and tried again.
//! Only a stopping gate waits for a write.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::AppStartError;
use super::sandbox::{Broker, Sandbox};
use super::upgrade::OldProcess;
use crate::config::StoreSettings;
use crate::engine::{Engine, store_observer};
use crate::event::Events;
use crate::policy::Policy;
use crate::policy::key::KeyHasher;
use crate::store::Store;
use crate::store::snapshot::{Snapshot, SnapshotError, set_aside};
use crate::time::Clock;

/// Writes the buckets of an engine to a file.
#[derive(Debug)]
pub(super) struct Snapshotter {
    path: PathBuf,
    engine: Arc<Engine>,
    broker: Broker,
    /// Whether the last write failed; then it was logged.
    failed: AtomicBool,
    /// Whether another process writes the file, or is about to.
    paused: AtomicBool,
    /// Held during a write.
    writing: Arc<Mutex<()>>,
}

impl Snapshotter {
    /// Writes to the file that the settings name; `None` if they name none, or gates share the store.
    pub(super) fn of(store: &StoreSettings, engine: &Arc<Engine>, sandbox: &Sandbox) -> Option<Arc<Self>> {
        let path = store.snapshot.clone().filter(|_| !store.address.is_shared())?;
        let ((failed, paused, writing), broker) = (Default::default(), sandbox.broker().clone());
        Some(Arc::new(Self { path, engine: Arc::clone(engine), broker, failed, paused, writing }))
    }

    /// Writes in a loop, with a pause after each; never ends.
    pub(super) async fn serve(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if !self.paused.load(Ordering::Relaxed) {
                self.write().await;
            }
        }
    }

    /// Stops writing, and waits for the end of a write in progress.
    pub(super) async fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
        drop(self.writing.lock().await);
    }

    /// Resumes writing.
    pub(super) fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes once, and returns whether the file holds what the gate has.
    pub(super) async fn write_now(self: &Arc<Self>) -> bool {
        if self.paused.load(Ordering::Relaxed) {
            return false;
        }
        self.write().await;
        !self.failed.load(Ordering::Relaxed)
    }

    /// Writes once.
    pub(super) async fn write(self: &Arc<Self>) {
        let (snapshotter, writing) = (Arc::clone(self), Arc::clone(&self.writing).lock_owned().await);
        let write = move || {
            // Held until the file is written, also if the caller no longer waits.
            let _writing = writing;
            snapshotter.engine.snapshot().write(&snapshotter.path)
        };
        let written = self.broker.run(write).await;
        let why = written.and_then(|written| written).err().map(|error| error.to_string());
        let was = self.failed.swap(why.is_some(), Ordering::Relaxed);
        match why {
            Some(why) if !was => {
                tracing::error!("store.snapshot cannot be written to {}: {why}", self.path.display());
            }
            None if was => tracing::info!("store.snapshot is written to {} again", self.path.display()),
            _ => {}
        }
    }
}

/// Restores the buckets of a file, if there is one.
pub(super) fn restore(engine: Engine, path: &Path) -> Engine {
    match Snapshot::read(path) {
        Ok(None) => engine,
        Ok(Some(snapshot)) => restore_from(engine, &snapshot),
        Err(SnapshotError::Io(error)) => {
            tracing::warn!("all buckets begin full: {} cannot be read: {error}", path.display());
            engine
        }
        Err(why) => {
            let aside = match set_aside(path) {
                Ok(aside) => format!("it is {} now", aside.display()),
                Err(error) => format!("and cannot be moved aside: {error}"),
            };
            tracing::warn!("all buckets begin full: {}: {why}; {aside}", path.display());
            engine
        }
    }
}

/// Restores the buckets of a snapshot.
pub(super) fn restore_from(engine: Engine, snapshot: &Snapshot) -> Engine {
    let (engine, reset) = engine.with_snapshot(snapshot);
    for (limit, why) in reset {
        tracing::warn!("the buckets of limit `{limit}` are reset, all full: {why}");
    }
    engine
}

/// Builds the engine, with the buckets of the store, of the old process, or of the snapshot.
pub(super) fn build_engine(
    policy: Policy,
    store: &StoreSettings,
    clock: &Clock,
    events: &Events,
    old_process: Option<&mut OldProcess>,
) -> Result<Engine, AppStartError> {
    let StoreSettings { address, names, options, capacity, .. } = store;
    let observer = store_observer(events.clone());
    let opened = Store::open(address, names, *options, *capacity, clock.clone(), observer)?;
    let is_lost_at_end = opened.ends_with_process();
    let engine = Engine::with_store(policy, opened, events.clone())?;
    let received =
        old_process.map(|old| old.receive_snapshot().map_err(AppStartError::OldProcess)).transpose()?;
    if !is_lost_at_end {
        let secret = store.names.key_secret(store.secrets.reveal_newest());
        return Ok(engine.with_hasher(KeyHasher::of_secret(secret)));
    }
    Ok(match (received.flatten(), &store.snapshot) {
        (Some(snapshot), _) => restore_from(engine, &snapshot),
        (None, Some(path)) => restore(engine, path),
        (None, None) => engine,
    })
}

/// A crash loses the decisions of at most this time and the time of one write.
const PAUSE: Duration = Duration::from_secs(3);
