//! How a worker is: whether it still moves, and whether it has come to rest before another process takes over.
//!
//! The worker writes, the main thread reads; nobody waits. The surprising thing: the worker tells no time, so that a clock that is
//! set makes nobody look dead.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// One worker's.
#[derive(Debug, Default)]
pub struct Pulse {
    beats: AtomicU64,
    at_rest: AtomicBool,
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

    pub(super) fn rests(&self, at_rest: bool) {
        self.at_rest.store(at_rest, Relaxed);
    }

    /// Whether nobody is let in any more, and it was decided on all that had begun.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.at_rest.load(Relaxed)
    }
}
