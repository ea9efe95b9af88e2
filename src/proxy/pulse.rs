//! How a worker is: whether it still moves, and whether it has come to rest before another process takes over.
//!
//! The worker writes, the main thread reads; nobody waits. The surprising thing: the worker tells no time, so that a clock that is
//! set makes nobody look dead.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// One worker's.
#[derive(Debug, Default)]
pub struct Pulse {
    beats: AtomicU64,
    rest: AtomicU8,
}

/// How far a worker is that makes room for another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It serves.
    None,
    /// Nobody is there any more who was kept alive.
    SeenOff,
    /// Nobody is let in any more, and it was decided on all that had begun.
    Whole,
}

impl Pulse {
    /// Moves on: at least once a second, from the worker's own runtime.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    /// A number that is another one each second.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    pub(super) fn comes_to(&self, rest: Rest) {
        self.rest.store(rest as u8, Relaxed);
    }

    /// Whether it has come that far.
    #[must_use]
    pub fn has_come_to(&self, rest: Rest) -> bool {
        self.rest.load(Relaxed) >= rest as u8
    }
}
