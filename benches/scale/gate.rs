//! A gate: what it last saw of each bucket, and which shards it calls.
//!
//! It follows `crates/store/src/shared/mirror.rs` and `circuit_breaker.rs`, without bytes; each shard has a breaker. A request
//! counts there as often as it stands for, because all requests to a shard fare alike.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tollgate::bucket::{Op, Spec, Step, step};
use tollgate::time::{Span, Time};

use super::store::BucketId;

/// What a gate knows of a bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// The state here.
    pub(crate) tat: u64,
    /// The state that was seen in the store: another one, if something was decided here alone since.
    pub(crate) seen: u64,
    pub(crate) version: u64,
    pub(crate) seen_at: Time,
    pub(crate) gone_at: Time,
}

#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) mirror: HashMap<BucketId, Seen, Scattered>,
    pub(crate) breakers: Vec<Breaker>,
    /// The share of attempts that each limit refused lately.
    refused: [u32; 2],
}

/// The breaker of a shard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Breaker {
    failures: u64,
    pub(crate) is_open: bool,
    pub(crate) back_since: Time,
}

impl Seen {
    pub(crate) fn is_recent(&self, now: Time) -> bool {
        self.seen_at <= now && now < self.seen_at.after(FRESH)
    }
}

impl Gate {
    pub(crate) fn new(shards: usize) -> Self {
        Self { mirror: HashMap::default(), breakers: vec![Breaker::default(); shards], refused: [0; 2] }
    }

    /// Notes what a bucket said in the store.
    pub(crate) fn note(&mut self, bucket: BucketId, is_admitted: bool) {
        let share = &mut self.refused[usize::from(bucket & 1 == 1)];
        *share = *share - *share / NOTES + if is_admitted { 0 } else { ALL / NOTES };
    }

    /// The bucket of the limit that refuses most attempts, unless it was seen a moment ago.
    pub(crate) fn refusing_most(&self, buckets: [BucketId; 2], now: Time) -> Option<BucketId> {
        let share = |bucket: &BucketId| self.refused[usize::from(bucket & 1 == 1)];
        let is_known = |bucket: &BucketId| self.mirror.get(bucket).is_some_and(|seen| seen.is_recent(now));
        let refusing = buckets.into_iter().filter(|bucket| share(bucket) > ALL / 2 && !is_known(bucket));
        refusing.max_by_key(share)
    }

    /// Whether it calls some shard no more.
    pub(crate) fn has_open(&self) -> bool {
        self.breakers.iter().any(|breaker| breaker.is_open)
    }

    /// Runs one operation on the bucket as it is here.
    pub(crate) fn here(&mut self, bucket: BucketId, spec: &Spec, now: Time, op: Op) -> Step {
        let seen = self.mirror.entry(bucket).or_default();
        let mut tat = seen.tat;
        let step = run(spec, &mut tat, now, op);
        if step.changed {
            seen.tat = tat;
        }
        step
    }

    /// Whether an attempt is refused by a state that was seen a moment ago.
    pub(crate) fn is_refused_here(&self, bucket: BucketId, spec: &Spec, now: Time) -> bool {
        self.mirror.get(&bucket).is_some_and(|seen| seen.is_recent(now)) && self.refuses(bucket, spec, now)
    }

    /// Whether an attempt is refused by a state that was seen at any time.
    pub(crate) fn refuses(&self, bucket: BucketId, spec: &Spec, now: Time) -> bool {
        self.mirror.get(&bucket).is_some_and(|seen| {
            let mut tat = seen.tat;
            !run(spec, &mut tat, now, Op::Peek(1)).verdict.is_admitted()
        })
    }
}

impl Breaker {
    pub(crate) fn is_calm(&self) -> bool {
        self.failures == 0
    }

    pub(crate) fn succeeded(&mut self, now: Time) {
        self.failures = 0;
        if self.is_open {
            (self.is_open, self.back_since) = (false, now);
        }
    }

    /// Records so many failures in a row.
    pub(crate) fn failed(&mut self, count: u64) {
        self.failures += count;
        self.is_open |= self.failures >= MOST_FAILURES;
    }
}

/// The library's arithmetic.
pub(crate) fn run(spec: &Spec, tat: &mut u64, now: Time, op: Op) -> Step {
    step(spec, std::slice::from_mut(tat), now, op)
}

/// Hashes the numbers of buckets for a map: well spread, and the same in each run.
pub(crate) type Scattered = BuildHasherDefault<Scatter>;

#[derive(Debug, Default)]
pub(crate) struct Scatter(u64);

impl Hasher for Scatter {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) const FRESH: Span = Span::from_secs(1);
/// A share of one.
const ALL: u32 = 1 << 16;
const NOTES: u32 = 32;
const MOST_FAILURES: u64 = 5;
