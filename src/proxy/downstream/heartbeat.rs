//! The heartbeat of a worker for the watchdog, and how far it has drained before an upgrade.
//!
//! The worker writes and the main thread reads, both without waiting. The worker counts beats and reads no clock, so a
//! changed clock makes no worker look dead. The watchdog itself is `app`'s.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// The heartbeat of one worker.
#[derive(Debug, Default)]
pub struct Heartbeat {
    beats: AtomicU64,
    progress: AtomicU8,
}

/// How far a worker has drained before another process takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainProgress {
    /// The worker serves.
    Serving,
    /// All connections that were kept alive are closed.
    KeepAliveClosed,
    /// No connection is accepted any more, and every request that began is decided.
    Quiet,
}

impl Heartbeat {
    /// Records a beat: at least one a second, from the worker's own runtime.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    /// The number of beats. It changes at least once a second.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    pub(super) fn set_progress(&self, progress: DrainProgress) {
        self.progress.store(progress as u8, Relaxed);
    }

    /// Whether the worker has reached this progress.
    #[must_use]
    pub fn has_reached(&self, progress: DrainProgress) -> bool {
        self.progress.load(Relaxed) >= progress as u8
    }
}
