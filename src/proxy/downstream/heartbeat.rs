//! The heartbeat of a worker for the watchdog, and how far it has drained before an upgrade.
//!
//! The worker writes, the main thread reads; nobody waits. The surprising thing: the worker tells no time, so that a clock that is
//! set makes nobody look dead.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// One worker's.
#[derive(Debug, Default)]
pub struct Heartbeat {
    beats: AtomicU64,
    progress: AtomicU8,
}

/// How far a worker is that makes room for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainProgress {
    /// It serves.
    Serving,
    /// Nobody is there any more who was kept alive.
    KeepAliveClosed,
    /// Nobody is let in any more, and it was decided on all that had begun.
    Quiet,
}

impl Heartbeat {
    /// Moves on: at least once a second, from the worker's own runtime.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    /// A number that is another one each second.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    pub(super) fn set_progress(&self, rest: DrainProgress) {
        self.progress.store(rest as u8, Relaxed);
    }

    /// Whether it has come that far.
    #[must_use]
    pub fn has_reached(&self, rest: DrainProgress) -> bool {
        self.progress.load(Relaxed) >= rest as u8
    }
}
