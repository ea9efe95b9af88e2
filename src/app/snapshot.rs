//! Restores buckets from the snapshot or the old process, and writes snapshots while the gate runs.
//!
//! A file that cannot be read is moved aside, and the gate begins with full buckets: it does not refuse to start. One that
//! cannot be written is told once, and tried again. The surprising thing: nobody waits for it but the end of the gate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::AppStartError;
use super::sandbox::Broker;
use super::upgrade::OldProcess;
use crate::config::StoreSettings;
use crate::engine::{Engine, store_observer};
use crate::event::Events;
use crate::policy::Policy;
use crate::policy::key::KeyHasher;
use crate::store::shared::SharedStore;
use crate::store::snapshot::{Snapshot, SnapshotError, set_aside};
use crate::time::Clock;

/// Keeps the buckets of an engine in a file.
#[derive(Debug)]
pub(super) struct Snapshotter {
    path: PathBuf,
    engine: Arc<Engine>,
    broker: Broker,
    /// Whether the last attempt failed, and was told.
    failed: AtomicBool,
    /// Another process writes there, or is about to.
    paused: AtomicBool,
    /// Held while it is written.
    writing: Arc<Mutex<()>>,
}

impl Snapshotter {
    /// For this file.
    pub(super) fn new(path: PathBuf, engine: &Arc<Engine>, broker: Broker) -> Arc<Self> {
        let (failed, ceased, writing) = Default::default();
        Arc::new(Self { path, engine: Arc::clone(engine), broker, failed, paused: ceased, writing })
    }

    /// Writes again and again.
    pub(super) async fn serve(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if !self.paused.load(Ordering::Relaxed) {
                self.write().await;
            }
        }
    }

    /// Writes no more, and waits for the end of what is being written.
    pub(super) async fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
        drop(self.writing.lock().await);
    }

    /// Writes again.
    pub(super) fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Writes once.
    pub(super) async fn write(self: &Arc<Self>) {
        let (keeper, writing) = (Arc::clone(self), Arc::clone(&self.writing).lock_owned().await);
        let write = move || {
            // Until it is written, whether anybody still waits for it or not.
            let _writing = writing;
            keeper.engine.snapshot().write(&keeper.path)
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

/// Goes on from what the file has, if there is one.
pub(super) fn restore(engine: Engine, path: &Path) -> Engine {
    match Snapshot::read(path) {
        Ok(None) => engine,
        Ok(Some(kept)) => restore_from(engine, &kept),
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

/// Goes on from these.
pub(super) fn restore_from(engine: Engine, kept: &Snapshot) -> Engine {
    let (engine, anew) = engine.with_snapshot(kept);
    for (limit, why) in anew {
        tracing::warn!("the buckets of limit `{limit}` begin anew, all full: {why}");
    }
    engine
}

/// With its buckets where the file says, or as the gate had them whose place this one takes.
pub(super) fn build_engine(
    policy: Policy,
    store: &StoreSettings,
    clock: &Clock,
    events: &Events,
    predecessor: Option<&mut OldProcess>,
) -> Result<Engine, AppStartError> {
    let engine = Engine::new(policy, store.capacity, clock.clone(), events.clone())?;
    let handed_over =
        |predecessor: &mut OldProcess| predecessor.receive_snapshot().map_err(AppStartError::OldProcess);
    if !store.address.is_shared() {
        let kept = predecessor.map(handed_over).transpose()?;
        return Ok(match (kept.flatten(), &store.snapshot) {
            (Some(kept), _) => restore_from(engine, &kept),
            (None, Some(path)) => restore(engine, path),
            (None, None) => engine,
        });
    }
    let observer = store_observer(events.clone());
    let shared = SharedStore::start(&store.address, &store.names, store.options, clock.clone(), observer)?;
    let hasher = KeyHasher::of_installation(store.names.as_str(), store.secret.reveal());
    let engine = engine.with_store(shared, hasher)?;
    predecessor.map(handed_over).transpose()?;
    Ok(engine)
}

/// What a crash costs at most is what this and the writing take.
const PAUSE: Duration = Duration::from_secs(3);
