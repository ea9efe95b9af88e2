//! Buckets over a restart: read before the gate serves, written while it does and once more at the end.
//!
//! A file that cannot be read is moved aside, and the gate begins with full buckets: it does not refuse to start. One that
//! cannot be written is told once, and tried again. The surprising thing: nobody waits for it but the end of the gate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use crate::engine::Engine;
use crate::store::snapshot::{Snapshot, Unreadable, set_aside};

/// Keeps the buckets of an engine in a file.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    engine: Arc<Engine>,
    /// Whether the last attempt failed, and was told.
    failed: AtomicBool,
    /// Another process writes there, or is about to.
    ceased: AtomicBool,
    /// Held while it is written.
    writing: Mutex<()>,
}

impl Keeper {
    /// For this file.
    pub(super) fn new(path: PathBuf, engine: &Arc<Engine>) -> Arc<Self> {
        let (failed, ceased, writing) = Default::default();
        Arc::new(Self { path, engine: Arc::clone(engine), failed, ceased, writing })
    }

    /// Writes again and again.
    pub(super) async fn serve(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if !self.ceased.load(Ordering::Relaxed) {
                self.keep().await;
            }
        }
    }

    /// Writes no more, and waits for the end of what is being written.
    pub(super) async fn cease(&self) {
        self.ceased.store(true, Ordering::Relaxed);
        drop(self.writing.lock().await);
    }

    /// Writes again.
    pub(super) fn resume(&self) {
        self.ceased.store(false, Ordering::Relaxed);
    }

    /// Writes once.
    pub(super) async fn keep(self: &Arc<Self>) {
        let _writing = self.writing.lock().await;
        let keeper = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || keeper.engine.keep().write(&keeper.path)).await;
        let why = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
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
        Ok(Some(kept)) => go_on(engine, &kept),
        Err(Unreadable::Io(error)) => {
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
pub(super) fn go_on(engine: Engine, kept: &Snapshot) -> Engine {
    let (engine, anew) = engine.with_kept(kept);
    for (limit, why) in anew {
        tracing::warn!("the buckets of limit `{limit}` begin anew, all full: {why}");
    }
    engine
}

/// What a crash costs at most is what this and the writing take.
const PAUSE: Duration = Duration::from_secs(3);
