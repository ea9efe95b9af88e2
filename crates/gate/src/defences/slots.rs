//! A table of fixed size in the memory of this process, in which each hash has one place.
//!
//! Two hashes may have the same place, and then take it from each other: the value in it has to tell them apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One number for each place. A clone is the same table. Nothing is allocated before the first number is put in.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureSlots(Arc<OnceLock<Box<[AtomicU64]>>>);

impl FailureSlots {
    /// Puts a number in the place of a hash, and returns the former one; zero is none.
    pub(super) fn swap(&self, hash: u64, number: u64) -> u64 {
        let slots = self.0.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        let slot = usize::try_from(hash % SLOTS).ok().and_then(|slot| slots.get(slot));
        slot.map_or(0, |slot| slot.swap(number, Ordering::Relaxed))
    }
}

/// A power of two: 512 KiB.
pub(super) const SLOTS: u64 = 65_536;
