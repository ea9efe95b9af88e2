//! How many attempts from each network succeed. Attack mode uses it if its rule has `worst`.
//!
//! A network is a hash here. The counts exist only in the memory of this process, in a table of fixed size: a
//! network may replace another, which then counts as unknown. Counts halve every ten minutes, so that a network does not pay for an
//! attack for long.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::outcome::Outcome;
use crate::time::{Span, Time};

/// Outcomes by network. Nothing is allocated before the first outcome of a route that asks.
#[derive(Debug, Default)]
pub(in crate::defences) struct NetworkOutcomes(OnceLock<Box<[AtomicU64]>>);

/// The recent outcomes of a network's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NetworkRecord {
    /// Attempts that succeeded.
    pub(super) successes: u32,
    /// Attempts that failed.
    pub(super) failures: u32,
}

/// One slot: 20 bits of the hash, 12 of the period, 16 for each count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NetworkEntry {
    tag: u64,
    period: u64,
    counts: NetworkRecord,
}

impl NetworkOutcomes {
    pub(super) fn count(&self, network: u64, outcome: Outcome, now: Time) {
        let one = match outcome {
            Outcome::Success => NetworkRecord { successes: 1, failures: 0 },
            Outcome::Failure => NetworkRecord { successes: 0, failures: 1 },
            Outcome::Neutral | Outcome::Error => return,
        };
        let slots = self.0.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        let Some(slot) = slot_of(slots, network) else { return };
        // A lost race costs one outcome.
        let mut entry = NetworkEntry::read(slot.load(Ordering::Relaxed), network, now);
        entry.counts.successes = entry.counts.successes.saturating_add(one.successes).min(MAX_COUNT);
        entry.counts.failures = entry.counts.failures.saturating_add(one.failures).min(MAX_COUNT);
        slot.store(entry.word(), Ordering::Relaxed);
    }

    pub(super) fn get(&self, network: u64, now: Time) -> NetworkRecord {
        let slot = self.0.get().and_then(|slots| slot_of(slots, network));
        slot.map(|slot| NetworkEntry::read(slot.load(Ordering::Relaxed), network, now).counts)
            .unwrap_or_default()
    }
}

impl NetworkEntry {
    /// The entry of this network in a slot at this time; an empty one if the slot is another's.
    fn read(word: u64, network: u64, now: Time) -> Self {
        let (tag, period) = (network >> 44, now.as_nanos() / HALF_LIFE.as_nanos() % PERIODS);
        let counts = match word >> 44 == tag {
            true => {
                let age = (period + PERIODS - (word >> 32) % PERIODS) % PERIODS;
                let count = |bits: u64| {
                    let halved = (bits & u64::from(MAX_COUNT)).checked_shr(u32::try_from(age).unwrap_or(64));
                    u32::try_from(halved.unwrap_or(0)).unwrap_or(MAX_COUNT)
                };
                NetworkRecord { successes: count(word >> 16), failures: count(word) }
            }
            false => NetworkRecord::default(),
        };
        Self { tag, period, counts }
    }

    fn word(self) -> u64 {
        let Self { tag, period, counts: NetworkRecord { successes, failures } } = self;
        tag << 44 | period << 32 | u64::from(successes) << 16 | u64::from(failures)
    }
}

fn slot_of(slots: &[AtomicU64], network: u64) -> Option<&AtomicU64> {
    slots.get(usize::try_from(network % SLOTS).ok()?)
}

/// A power of two: 128 KiB.
const SLOTS: u64 = 16_384;
const MAX_COUNT: u32 = 0xFFFF;
const HALF_LIFE: Span = Span::from_secs(600);
/// After these periods, 28 days, an old entry could pass for a new one.
const PERIODS: u64 = 1 << 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn counted(outcomes: &NetworkOutcomes, network: u64, at: u64) -> (u32, u32) {
        let NetworkRecord { successes, failures } = outcomes.get(network, NOW.after(Span::from_secs(at)));
        (successes, failures)
    }

    #[test]
    fn counts_halve_every_ten_minutes_and_other_networks_have_none() {
        let outcomes = NetworkOutcomes::default();
        assert_eq!(counted(&outcomes, 7, 0), (0, 0));
        (0..40).for_each(|_| outcomes.count(7, Outcome::Failure, NOW));
        (0..8).for_each(|_| outcomes.count(7, Outcome::Success, NOW));
        [Outcome::Neutral, Outcome::Error].into_iter().for_each(|outcome| outcomes.count(7, outcome, NOW));
        let seen = [0, 600, 1200, 6000, 60_000].map(|at| counted(&outcomes, 7, at));
        assert_eq!(seen, [(8, 40), (4, 20), (2, 10), (0, 0), (0, 0)]);
        assert_eq!([8, 7 | 1 << 50].map(|network| counted(&outcomes, network, 0)), [(0, 0); 2]);
        outcomes.count(7 | 1 << 50, Outcome::Failure, NOW);
        assert_eq!(counted(&outcomes, 7, 0), (0, 0), "it gave way");
    }

    proptest! {
        #[test]
        fn a_slot_holds_what_was_written(tag in 0..1_u64 << 20, period in 0..PERIODS, successes in 0..=MAX_COUNT, failures in 0..=MAX_COUNT) {
            let entry = NetworkEntry { tag, period, counts: NetworkRecord { successes, failures } };
            let at = Time::from_nanos(period * HALF_LIFE.as_nanos());
            prop_assert_eq!(NetworkEntry::read(entry.word(), tag << 44, at), entry);
        }
    }
}
