//! Freezes the engine during an upgrade: the new process decides from here on, with a snapshot of these buckets.
//!
//! No tokens are taken from a frozen engine, so a snapshot taken after the freeze is complete. Freezing costs decisions
//! nothing: only a decision that finds closed buckets checks why they are closed.

use std::sync::atomic::Ordering;

use super::{Engine, Undecided};
use crate::store::memory::Stale;

impl Engine {
    /// Stops taking, refunding and adding tokens. Refusals that write nothing go on. Does nothing if the buckets are in
    /// a shared store.
    pub fn freeze(&self) {
        if self.shared.is_none() {
            self.frozen.store(true, Ordering::SeqCst);
            self.rules().buckets.iter().for_each(|buckets| buckets.close());
        }
    }

    /// Goes on deciding: the new process did not take over.
    pub fn thaw(&self) {
        if self.is_frozen() {
            self.rules().buckets.iter().for_each(|buckets| buckets.open());
            self.frozen.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the engine is frozen; the rules must not be replaced then.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Why buckets are closed: other rules are in force, or the engine is frozen.
    #[cold]
    pub(super) fn undecided(&self, stale: Stale) -> Undecided {
        if self.is_frozen() { Undecided::Frozen } else { Undecided::Stale(stale) }
    }
}
