//! Freezes the engine during an upgrade: the new process decides from here on, with a snapshot of these buckets.
//!
//! Nothing is taken from a sealed engine, so whatever is kept of it after that is all that was ever taken. The surprising
//! thing: it costs no decision anything, because only whoever meets closed buckets asks why they are.

use std::sync::atomic::Ordering;

use super::{Engine, Undecided};
use crate::store::memory::Stale;

impl Engine {
    /// From now on nothing is taken, given back or given here. Refusals that write nothing are still given. Where the buckets
    /// are in a store that gates share, nothing changes.
    pub fn freeze(&self) {
        if self.shared.is_none() {
            self.frozen.store(true, Ordering::SeqCst);
            self.rules().buckets.iter().for_each(|buckets| buckets.close());
        }
    }

    /// Goes on from where it was, if nobody else did.
    pub fn thaw(&self) {
        if self.is_frozen() {
            self.rules().buckets.iter().for_each(|buckets| buckets.open());
            self.frozen.store(false, Ordering::SeqCst);
        }
    }

    /// Whether somebody else is to decide; rules must not be replaced then.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Why closed buckets are: other rules are in force, or nothing is decided here any more.
    #[cold]
    pub(super) fn undecided(&self, stale: Stale) -> Undecided {
        if self.is_frozen() { Undecided::Frozen } else { Undecided::Stale(stale) }
    }
}
