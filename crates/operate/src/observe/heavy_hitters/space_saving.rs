//! Counts the most frequent keys of a stream in fixed memory: SpaceSaving, by Metwally, Agrawal and El Abbadi,
//! "Efficient Computation of Frequent and Top-k Elements in Data Streams" (ICDT 2005).
//!
//! A key without a counter takes over the smallest one, together with its count, which is then the most that the new
//! key may have been counted before. Here the counters are divided into sets, like a processor's cache: a key has its
//! place in one set, and each set is a SpaceSaving of the keys that belong there. So a key costs one short scan. Sums
//! follow Agarwal et al., "Mergeable Summaries" (PODS 2012). What the keys mean is left to the caller.

use std::cmp::Reverse;

use super::hitter_key::HitterKey;

/// The counter of one key.
#[derive(Debug, Clone, Copy)]
pub(super) struct HitCounter {
    pub(super) key: HitterKey,
    /// When it was counted last, in seconds since 1970.
    pub(super) last: u32,
    /// The most that the key was counted.
    upper: u32,
    /// The part of `upper` that belongs to other keys, at most.
    pub(super) error: u32,
}

/// Counters of the most frequent keys; it takes memory with the first key.
#[derive(Debug, Clone, Default)]
pub(super) struct SpaceSaving {
    sets: Box<[HitCounterSet]>,
}

type HitCounterSet = [HitCounter; WAYS];

impl HitCounter {
    const FREE: Self = Self { key: HitterKey::NONE, last: 0, upper: 0, error: 0 };

    /// What was counted for certain; the key occurred at most `error` times more.
    pub(super) fn count(&self) -> u32 {
        self.upper.saturating_sub(self.error)
    }

    /// The counter with this many more that may have been counted elsewhere.
    fn with_unseen(mut self, most: u32) -> Self {
        self.upper = self.upper.saturating_add(most);
        self.error = self.error.saturating_add(most);
        self
    }

    fn add(&mut self, other: &Self) {
        self.upper = self.upper.saturating_add(other.upper);
        self.error = self.error.saturating_add(other.error);
        self.last = self.last.max(other.last);
    }
}

impl SpaceSaving {
    /// Counts a key once, at this second. `hash` is a keyed hash of it, so that a client cannot choose its set.
    pub(super) fn count(&mut self, hash: u64, key: &HitterKey, second: u32) {
        if self.sets.is_empty() {
            self.sets = vec![[HitCounter::FREE; WAYS]; SETS].into_boxed_slice();
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low bits choose the set")]
        let set = &mut self.sets[hash as usize % SETS];
        if let Some(counter) = set.iter_mut().find(|counter| counter.key == *key) {
            counter.upper = counter.upper.saturating_add(1);
            counter.last = counter.last.max(second);
        } else if let Some(smallest) = set.iter_mut().min_by_key(|counter| counter.upper) {
            let error = smallest.upper;
            *smallest = HitCounter { key: *key, last: second, upper: error.saturating_add(1), error };
        }
    }

    /// Adds the counts of another one whose keys have the same hashes.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.sets.is_empty() {
            self.sets.clone_from(&other.sets);
            return;
        }
        for (set, other) in self.sets.iter_mut().zip(&other.sets) {
            merge_sets(set, other);
        }
    }

    /// Forgets all keys; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.sets.fill([HitCounter::FREE; WAYS]);
    }

    /// Takes the key from its counter, and leaves the count: it bounds what other keys may have been counted. Returns whether
    /// the key had one; a dry run changes nothing.
    pub(super) fn forget(&mut self, hash: u64, key: &HitterKey, is_dry_run: bool) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low bits choose the set")]
        let set = &mut self.sets[hash as usize % SETS];
        let Some(counter) = set.iter_mut().find(|counter| counter.key == *key) else { return false };
        if !is_dry_run {
            counter.key = HitterKey::NONE;
        }
        true
    }

    /// The counters in use, in no order.
    pub(super) fn counters(&self) -> impl Iterator<Item = &HitCounter> {
        self.sets.iter().flatten().filter(|counter| counter.upper > 0)
    }
}

/// A key that one side does not know was counted there at most as often as the smallest counter says. The largest
/// counters stay.
fn merge_sets(set: &mut HitCounterSet, other: &HitCounterSet) {
    let (here, there) = (smallest(set), smallest(other));
    let mut all = [HitCounter::FREE; 2 * WAYS];
    for (sum, counter) in all.iter_mut().zip(set.iter().filter(|counter| counter.upper > 0)) {
        *sum = match other.iter().find(|other| other.key == counter.key) {
            Some(known) => {
                let mut sum = *counter;
                sum.add(known);
                sum
            }
            None => counter.with_unseen(there),
        };
    }
    let is_new =
        |counter: &&HitCounter| counter.upper > 0 && !set.iter().any(|known| known.key == counter.key);
    for (sum, counter) in all[WAYS..].iter_mut().zip(other.iter().filter(is_new)) {
        *sum = counter.with_unseen(here);
    }
    all.sort_unstable_by_key(|counter| Reverse(counter.upper));
    set.copy_from_slice(&all[..WAYS]);
}

fn smallest(set: &HitCounterSet) -> u32 {
    set.iter().map(|counter| counter.upper).min().unwrap_or(0)
}

/// Sets of counters: with `WAYS` 1,024 counters of 32 bytes.
const SETS: usize = 128;
/// Counters of a set: four pairs of cache lines' worth of scanning at most.
const WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> HitterKey {
        let mut bytes = [1; 17];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        HitterKey(bytes)
    }

    fn count(sketch: &mut SpaceSaving, numbers: &[u16]) {
        for (second, number) in (1..).zip(numbers) {
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(number);
            sketch.count(hash, &key(*number), second);
        }
    }

    /// Whether each counter tells the truth about its key.
    fn is_true_of(sketch: &SpaceSaving, numbers: &[u16]) -> bool {
        let mut truth: HashMap<HitterKey, u32> = HashMap::new();
        numbers.iter().for_each(|number| *truth.entry(key(*number)).or_default() += 1);
        sketch.counters().all(|counter| {
            let times = truth.get(&counter.key).copied().unwrap_or(0);
            (counter.count()..=counter.count() + counter.error).contains(&times)
        })
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut sketch = SpaceSaving::default();
        assert_eq!(sketch.counters().count(), 0);
        count(&mut sketch, &[7, 8, 7, 7]);
        let mut found: Vec<_> = sketch.counters().map(|c| (c.key, c.count(), c.error, c.last)).collect();
        found.sort_by_key(|(_, count, ..)| *count);
        assert_eq!(found, [(key(8), 1, 0, 2), (key(7), 3, 0, 4)]);
        sketch.clear();
        assert_eq!(sketch.counters().count(), 0);
    }

    /// Few, because each counts thousands of keys.
    fn cases() -> u32 {
        std::env::var("PROPTEST_CASES").map_or(64, |cases| cases.parse().unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases()))]

        #[test]
        fn a_key_was_there_at_least_as_often_as_counted_and_at_most_the_error_more(
            one in prop::collection::vec(0..u16::MAX, 0..6_000),
            two in prop::collection::vec(0..2_000_u16, 0..6_000),
        ) {
            let (mut first, mut second) = (SpaceSaving::default(), SpaceSaving::default());
            count(&mut first, &one);
            count(&mut second, &two);
            prop_assert!(is_true_of(&first, &one) && is_true_of(&second, &two));
            first.merge(&second);
            prop_assert!(is_true_of(&first, &[one, two].concat()));
            prop_assert!(first.counters().count() <= SETS * WAYS);
        }

        /// Metwally et al., theorem 2, for each set: what occurs more often than the set's share is there.
        #[test]
        fn a_frequent_key_is_never_lost(noise in prop::collection::vec(1..u16::MAX, 2_000..6_000), at in 0..2_000_usize) {
            let mut numbers = noise;
            let often = numbers.len() / WAYS + 1;
            numbers.splice(at..at, std::iter::repeat_n(0, often));
            let mut sketch = SpaceSaving::default();
            count(&mut sketch, &numbers);
            prop_assert!(sketch.counters().any(|counter| counter.key == key(0)));
        }
    }
}
