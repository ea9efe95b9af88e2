//! A gate: what it last saw of each bucket, and whether it calls the store at all.
//!
//! It follows `crates/store/src/shared/mirror.rs` and `circuit_breaker.rs`, without bytes. The requests that are not simulated count
//! for the breaker too, because one success among them closes it.

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

#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) mirror: HashMap<BucketId, Seen, Scattered>,
    failures: u32,
    pub(crate) is_open: bool,
    pub(crate) back_since: Time,
}

impl Seen {
    pub(crate) fn is_recent(&self, now: Time) -> bool {
        self.seen_at <= now && now < self.seen_at.after(FRESH)
    }
}

impl Gate {
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

    pub(crate) fn is_calm(&self) -> bool {
        self.failures == 0
    }

    pub(crate) fn succeeded(&mut self, now: Time) {
        self.failures = 0;
        if self.is_open {
            (self.is_open, self.back_since) = (false, now);
        }
    }

    /// Records a failure. Returns whether it opens the breaker.
    pub(crate) fn failed(&mut self) -> bool {
        self.failures += 1;
        let opens = self.failures >= MOST_FAILURES && !self.is_open;
        self.is_open |= opens;
        opens
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
const MOST_FAILURES: u32 = 5;
