//! Buckets of bytes, in the memory of this process.
//!
//! A bucket is what it lacks, and when that was so. What it lacks may be more than it holds: an answer takes in advance, and
//! waits. So all answers of a bucket have their turn in the order in which they ask, a piece each, and none is late for good
//! because a timer was: the bucket refills meanwhile. A bucket knows no rate, and a changed rate finds what was missing: also
//! answers that are under way go by the [`ByteTerms`] of the latest rules.
//!
//! Their number is bounded. A new one replaces the fullest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tollgate_grammar::byte_rate::ByteRate;

use crate::bucket::Key as BucketKey;
use crate::time::{Span, Time};

/// The buckets of a limit.
#[derive(Debug)]
pub(super) struct ByteBuckets {
    /// By their keys, so that few threads wait for each other.
    shards: Box<[Mutex<Shard>]>,
    /// Buckets of one shard at most.
    capacity: usize,
    forgotten: AtomicU64,
    at_once: AtomicU64,
    later: AtomicU64,
    terms: RwLock<ByteTerms>,
}

/// By what the answers of a limit pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteTerms {
    pub(super) rate: ByteRate,
    /// Whether answers wait, and are not only counted.
    pub(super) holds: bool,
}

#[derive(Debug, Default)]
struct Shard {
    buckets: HashMap<BucketKey, ByteBucket>,
    /// With so many buckets the full ones are dropped.
    next_sweep: usize,
}

#[derive(Debug, Clone, Copy)]
struct ByteBucket {
    /// Millionths of a byte.
    lacks: u64,
    /// Then.
    at: Time,
}

impl ByteBuckets {
    /// Full buckets, at most about so many that are not.
    pub(super) fn new(capacity: usize, terms: ByteTerms) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (forgotten, at_once, later) = Default::default();
        let (capacity, terms) = (capacity.div_ceil(SHARDS), RwLock::new(terms));
        Self { shards, capacity, forgotten, at_once, later, terms }
    }

    /// The latest terms.
    pub(super) fn terms(&self) -> ByteTerms {
        *self.terms.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on all answers go by these terms.
    pub(super) fn go_by(&self, terms: ByteTerms) {
        if self.terms() != terms {
            *self.terms.write().unwrap_or_else(PoisonError::into_inner) = terms;
        }
    }

    /// The bytes that pass at once.
    pub(super) fn held(&self, key: BucketKey, rate: ByteRate, now: Time) -> u64 {
        rate.burst.saturating_sub(self.shard(key).lacks(key, rate, now).div_ceil(MILLION))
    }

    /// Takes so many bytes. They may pass after this time, until which `holds` is whether they wait. What nothing holds is
    /// not taken beyond what there is.
    pub(super) fn take(&self, key: BucketKey, bytes: usize, rate: ByteRate, holds: bool, now: Time) -> Span {
        let wait = {
            let mut shard = self.shard(key);
            let lacked = shard.lacks(key, rate, now);
            let lacks = lacked.saturating_add(millionths(bytes as u64));
            let wait = time_for(rate, lacks.saturating_sub(millionths(rate.burst)));
            if holds || wait == Span::ZERO {
                self.put(&mut shard, key, ByteBucket { lacks, at: now }, rate);
            }
            wait
        };
        let passed = if wait == Span::ZERO { &self.at_once } else { &self.later };
        passed.fetch_add(bytes as u64, Ordering::Relaxed);
        wait
    }

    /// Gives back bytes that waited and did not pass.
    pub(super) fn give_back(&self, key: BucketKey, bytes: usize) {
        if let Some(bucket) = self.shard(key).buckets.get_mut(&key) {
            bucket.lacks = bucket.lacks.saturating_sub(millionths(bytes as u64));
        }
    }

    /// Buckets that are not full, and those that were forgotten.
    pub(super) fn usage(&self, rate: ByteRate, now: Time) -> (usize, u64) {
        let live = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.buckets.values().filter(|bucket| bucket.lacks(rate, now) > 0).count()
        };
        (self.shards.iter().map(live).sum(), self.forgotten.load(Ordering::Relaxed))
    }

    /// Bytes that passed at once, and those that had to wait.
    pub(super) fn passed(&self) -> [u64; 2] {
        [&self.at_once, &self.later].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn shard(&self, BucketKey(key): BucketKey) -> MutexGuard<'_, Shard> {
        let at = usize::try_from((key >> 64) % SHARDS as u128).unwrap_or_default();
        // There are so many.
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, shard: &mut Shard, key: BucketKey, bucket: ByteBucket, rate: ByteRate) {
        if !shard.buckets.contains_key(&key) {
            shard.sweep(rate, bucket.at, self.capacity);
            if shard.buckets.len() >= self.capacity {
                shard.forget_fullest(rate, bucket.at);
                self.forgotten.fetch_add(1, Ordering::Relaxed);
            }
        }
        shard.buckets.insert(key, bucket);
    }
}

impl Shard {
    fn lacks(&self, key: BucketKey, rate: ByteRate, now: Time) -> u64 {
        self.buckets.get(&key).map_or(0, |bucket| bucket.lacks(rate, now))
    }

    /// Drops full buckets, whenever there are twice as many as after the last time.
    fn sweep(&mut self, rate: ByteRate, now: Time, capacity: usize) {
        let count = self.buckets.len();
        if count < self.next_sweep.min(capacity) {
            return;
        }
        self.buckets.retain(|_, bucket| bucket.lacks(rate, now) > 0);
        self.next_sweep = self.buckets.len().saturating_mul(2).max(FIRST_SWEEP);
        self.buckets.shrink_to(self.next_sweep);
    }

    fn forget_fullest(&mut self, rate: ByteRate, now: Time) {
        let fullest = self.buckets.iter().min_by_key(|(_, bucket)| bucket.lacks(rate, now));
        if let Some(key) = fullest.map(|(key, _)| *key) {
            self.buckets.remove(&key);
        }
    }
}

impl ByteBucket {
    fn lacks(&self, rate: ByteRate, now: Time) -> u64 {
        self.lacks.saturating_sub(refill(rate, now.since(self.at)))
    }
}

/// What comes back within this time, in millionths of a byte, rounded down.
fn refill(rate: ByteRate, time: Span) -> u64 {
    let all = u128::from(time.as_nanos()) * u128::from(rate.bytes) * u128::from(MILLION);
    let refilled = all.checked_div(u128::from(rate.period.as_nanos())).unwrap_or_default();
    u64::try_from(refilled).unwrap_or(u64::MAX)
}

/// The time in which so many millionths of a byte come back, rounded up.
fn time_for(rate: ByteRate, millionths: u64) -> Span {
    let per_period = u128::from(rate.bytes) * u128::from(MILLION);
    let nanos = u128::from(millionths) * u128::from(rate.period.as_nanos());
    Span::from_nanos(u64::try_from(nanos.div_ceil(per_period.max(1))).unwrap_or(u64::MAX))
}

fn millionths(bytes: u64) -> u64 {
    bytes.saturating_mul(MILLION)
}

const MILLION: u64 = 1_000_000;
const SHARDS: usize = 64;
/// Buckets of a shard below which none is looked for that is full.
const FIRST_SWEEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000_000);
    const ALICE: BucketKey = BucketKey(1);
    const BOB: BucketKey = BucketKey(2);

    fn rate(text: &str) -> ByteRate {
        text.parse().unwrap()
    }

    fn buckets(capacity: usize) -> ByteBuckets {
        ByteBuckets::new(capacity, ByteTerms { rate: rate("1000B/s"), holds: true })
    }

    fn later(millis: u64) -> Time {
        START.after(Span::from_millis(millis))
    }

    #[test]
    fn what_a_bucket_holds_passes_at_once_and_the_rest_when_it_is_due() {
        let (buckets, rate) = (buckets(100), rate("1000B/s burst 500B"));
        let waits = [500, 100, 100].map(|bytes| buckets.take(ALICE, bytes, rate, true, START));
        assert_eq!(waits, [0, 100, 200].map(Span::from_millis), "in turn");
        assert_eq!(buckets.take(BOB, 500, rate, true, START), Span::ZERO, "another bucket");
        assert_eq!(buckets.take(ALICE, 100, rate, true, later(250)), Span::from_millis(50));
        assert_eq!(buckets.passed(), [1000, 300]);
    }

    #[test]
    fn a_timer_that_is_late_loses_nothing_that_the_bucket_holds() {
        let (buckets, rate) = (buckets(100), rate("1MB/s burst 100KB"));
        let (mut now, mut passed) = (START, 0_u64);
        while now < later(10_000) {
            let wait = buckets.take(ALICE, 10_000, rate, true, now);
            passed += 10_000;
            // Each timer is three milliseconds late.
            now = now.after(if wait == Span::ZERO { Span::ZERO } else { wait.plus(Span::from_millis(3)) });
        }
        assert!((10_000_000..10_200_000).contains(&passed), "{passed}");
    }

    #[test]
    fn what_did_not_pass_is_given_back() {
        let (buckets, rate) = (buckets(100), rate("1000B/s burst 500B"));
        assert_eq!(buckets.take(ALICE, 500, rate, true, START), Span::ZERO);
        assert_eq!(buckets.take(ALICE, 300, rate, true, START), Span::from_millis(300));
        buckets.give_back(ALICE, 300);
        assert_eq!(buckets.take(ALICE, 100, rate, true, START), Span::from_millis(100));
        assert_eq!(buckets.passed(), [500, 400], "a counter never falls");
    }

    #[test]
    fn what_is_only_observed_is_not_taken_in_advance() {
        let (buckets, rate) = (buckets(100), rate("1000B/s burst 500B"));
        let over = (0..100).filter(|_| buckets.take(ALICE, 100, rate, false, START) > Span::ZERO).count();
        assert_eq!((over, buckets.passed()), (95, [500, 9500]));
        assert_eq!(buckets.take(ALICE, 100, rate, false, later(100)), Span::ZERO);
    }

    #[test]
    fn a_new_rate_finds_what_is_missing() {
        let buckets = buckets(100);
        assert_eq!(buckets.take(ALICE, 1000, rate("1000B/s"), true, START), Span::ZERO);
        assert_eq!(buckets.take(ALICE, 100, rate("100B/s burst 1000B"), true, START), Span::from_secs(1));
    }

    #[test]
    fn full_buckets_are_dropped_and_beyond_the_capacity_the_fullest_is_forgotten() {
        let (buckets, rate) = (buckets(64 * 100), rate("1000B/s"));
        let of_one_shard = BucketKey;
        for number in 0..100 {
            buckets.take(of_one_shard(number), 100 + usize::try_from(number).unwrap(), rate, true, START);
        }
        assert_eq!(buckets.usage(rate, START), (100, 0));
        buckets.take(of_one_shard(100), 500, rate, true, START);
        assert_eq!(buckets.usage(rate, START), (100, 1));
        assert_eq!(buckets.shard(of_one_shard(0)).lacks(of_one_shard(0), rate, START), 0, "the fullest");
        assert_eq!(buckets.usage(rate, later(10_000)), (0, 1));
        buckets.take(of_one_shard(101), 500, rate, true, later(10_000));
        assert_eq!(buckets.shard(of_one_shard(0)).buckets.len(), 1, "full ones take no memory");
    }

    #[test]
    fn the_largest_numbers_end_in_no_panic() {
        let (buckets, rate) = (buckets(1), rate("1TB per 1ms burst 1TB"));
        for now in [Time::default(), Time::from_nanos(u64::MAX), START] {
            for _ in 0..3 {
                buckets.take(ALICE, usize::MAX, rate, true, now);
            }
        }
        buckets.give_back(ALICE, usize::MAX);
    }
}
