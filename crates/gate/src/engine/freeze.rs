//! Freezes the engine during an upgrade: from then on the new process decides, with a snapshot of these buckets.
//!
//! Nothing takes tokens from a frozen engine, so a snapshot taken after the freeze is complete. Decisions do not check for a freeze.
//! Only one that finds closed buckets checks why they are closed.

use super::{Engine, Undecided};
use crate::store::memory::Stale;

impl Engine {
    /// Stops taking, refunding and adding tokens. Refusals that write nothing go on. Does nothing if the store does not
    /// end with the process.
    pub fn freeze(&self) {
        self.store.freeze(&self.rules().buckets);
    }

    /// Goes on deciding: the new process did not take over.
    pub fn thaw(&self) {
        self.store.thaw(&self.rules().buckets);
    }

    /// Whether the engine is frozen; the rules must not be replaced then.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.store.is_frozen()
    }

    /// Why buckets are closed: other rules are in force, or the engine is frozen.
    #[cold]
    pub(super) fn undecided(&self, stale: Stale) -> Undecided {
        if self.is_frozen() { Undecided::Frozen } else { Undecided::Stale(stale) }
    }
}
