//! The buckets of one limit, also across a change of that limit.
//!
//! When a limit changes at run time, its buckets start again, and the old ones stay next to them until all of them would
//! be full. A bucket that is touched for the first time takes over, in proportion, the fill level that it had at the
//! change. So a change costs nothing at once, whatever the number of buckets. An attempt that still decides by the old
//! limit after that gets [`Stale`] and takes nothing, because the new buckets would not see its token. The states
//! themselves are left to [`table`](super::table).

mod own_rates;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use arc_swap::ArcSwapOption;

pub use self::own_rates::OwnRateError;
pub use self::snapshot::{BucketsSnapshot, EncodedSpec, RestoreError};

use self::own_rates::OwnRates;
use super::table::{BucketTable, TooLarge};
use super::table_line::{LineGuard, LineVersion};
use tollgate_bucket::{Key, Op, Spec, Step, Verdict, convert, step};
use tollgate_bucket::{Span, Time};

/// The buckets of one limit.
pub struct Buckets {
    table: BucketTable,
    former: ArcSwapOption<Former>,
    /// Shared with the former buckets and the next ones.
    own_rates: Arc<OwnRates>,
    /// The longest time to live of a bucket's state.
    memory: Span,
    closed: AtomicBool,
    /// Live buckets that were forgotten with a former table.
    forgotten_with_former: AtomicU64,
}

/// The buckets as they were before the limit was changed.
struct Former {
    buckets: Arc<Buckets>,
    /// For each class of clients: its former class and spec.
    classes: Box<[Option<(usize, Spec)>]>,
    /// When the limit changed: from then on they refill by the new spec.
    since: Time,
    /// When all of them are full.
    until: Time,
}

/// Identifies a bucket of a limit.
#[derive(Debug, Clone, Copy)]
pub struct BucketKey {
    /// Its key.
    pub key: Key,
    /// Its class of clients: which of the limit's rates it has.
    pub class: usize,
    /// The spec of that class.
    pub spec: Spec,
}

/// The limit was changed: decide again by the rules in force. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit was changed meanwhile")]
pub struct Stale;

/// What an operation would do to a bucket, as far as is known without the lock.
pub(super) struct UnlockedStep {
    pub(super) step: Step,
    /// The version of the line, and the state that is to be written; `None` if only the lock tells, or the state is long.
    after: Option<(LineVersion, [u64; SHORT_WORDS])>,
}

impl UnlockedStep {
    /// Whether it gives tokens, and what it leaves is known.
    pub(super) fn may_be_written(&self) -> bool {
        self.step.verdict.is_admitted() && self.after.is_some()
    }
}

impl AsRef<Self> for Buckets {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Buckets {
    /// Creates at least `capacity` buckets with these specs, one for each class of clients.
    ///
    /// # Errors
    /// [`TooLarge`] if the address space cannot be reserved.
    pub fn new(capacity: usize, specs: &[Spec]) -> Result<Self, TooLarge> {
        let words = specs.iter().map(Spec::words).max().unwrap_or(1);
        Ok(Self {
            table: BucketTable::new(capacity, words)?,
            former: ArcSwapOption::empty(),
            own_rates: Arc::default(),
            memory: specs.iter().map(Spec::max_ttl).max().unwrap_or(Span::ZERO),
            closed: AtomicBool::default(),
            forgotten_with_former: AtomicU64::default(),
        })
    }

    /// Creates the buckets of the changed limit. `classes` gives the former class and spec of each class of clients.
    /// The old buckets must be [closed](Self::close) before the new ones are used.
    ///
    /// # Errors
    /// [`TooLarge`] if the address space cannot be reserved.
    pub fn changed(
        self: &Arc<Self>,
        capacity: usize,
        specs: &[Spec],
        classes: Vec<Option<(usize, Spec)>>,
        now: Time,
    ) -> Result<Self, TooLarge> {
        self.release(now);
        let (new, buckets) = (Self::new(capacity, specs)?, Arc::clone(self));
        let former = Former { buckets, classes: classes.into(), since: now, until: now.after(new.memory) };
        let own_rates = Arc::clone(&self.own_rates);
        let changed = Self { former: ArcSwapOption::from_pointee(former), own_rates, ..new };
        changed
            .forgotten_with_former
            .store(self.forgotten() + changed.forget_former(MAX_FORMER, now), Ordering::Relaxed);
        Ok(changed)
    }

    /// Drops former buckets once all of them are full, and ended own rates likewise.
    pub fn release(&self, now: Time) {
        self.own_rates.release(now.before(self.memory));
        if self.former.load().as_ref().is_some_and(|former| former.until <= now) {
            self.former.store(None);
        }
    }

    /// Forgets the buckets from before the last `changes` changes, and returns how many of them were live. This is an
    /// upper bound: some have been converted since.
    fn forget_former(&self, changes: usize, now: Time) -> u64 {
        let former = self.former.load_full();
        match (former, changes) {
            (None, _) => 0,
            (Some(former), 0) => {
                self.former.store(None);
                former.buckets.live(now) as u64
            }
            (Some(former), changes) => former.buckets.forget_former(changes - 1, now),
        }
    }

    /// Closes the buckets: nothing is taken from them any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // A thread that sees what happens after this sees every line as locked whose holder missed this store.
        fence(Ordering::SeqCst);
    }

    /// Opens closed buckets again; only if no other buckets have taken over from them.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Runs one operation on one bucket.
    ///
    /// # Errors
    /// [`Stale`] if the operation writes and the limit was changed.
    pub fn apply(&self, bucket: &BucketKey, now: Time, op: Op) -> Result<Verdict, Stale> {
        let done = with_words(bucket.spec.words(), |state| {
            let (version, was_converted) = self.read(bucket, now, state);
            if self.own_rates.has(bucket.key) {
                return None;
            }
            let step = decide(bucket, state, now, op, was_converted);
            if !step.changed {
                return Some(Ok(step.verdict));
            }
            let _held = self.table.lock_if_unchanged(bucket.key, version)?;
            if self.is_closed() {
                return Some(Err(Stale));
            }
            self.table.write(bucket.key, state, now);
            Some(Ok(step.verdict))
        });
        // A concurrent write came first, or the bucket has an own rate: once more, with the lock.
        done.unwrap_or_else(|| {
            let _held = self.lock(self.line_of(bucket.key));
            if self.is_closed() { Err(Stale) } else { Ok(self.apply_locked(bucket, now, op)) }
        })
    }

    /// The verdict that an attempt would get if refusals were free.
    #[must_use]
    pub fn peek(&self, bucket: &BucketKey, now: Time, cost: u32) -> Verdict {
        self.dry_run(bucket, now, Op::Peek(cost)).verdict
    }

    /// How many buckets are not full; an estimate for large tables.
    #[must_use]
    pub fn live(&self, now: Time) -> usize {
        self.table.live(now)
    }

    /// How many live buckets were evicted since the start.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.table.forgotten() + self.forgotten_with_former.load(Ordering::Relaxed)
    }

    /// Words of the longest state.
    #[must_use]
    pub(crate) fn words(&self) -> usize {
        self.table.words()
    }

    /// How many buckets fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// What an operation would do, without the lock.
    pub fn dry_run(&self, bucket: &BucketKey, now: Time, op: Op) -> Step {
        let seen = with_words(bucket.spec.words(), |state| {
            let (_, was_converted) = self.read(bucket, now, state);
            (!self.own_rates.has(bucket.key)).then(|| decide(bucket, state, now, op, was_converted))
        });
        seen.unwrap_or_else(|| {
            let _held = self.lock(self.line_of(bucket.key));
            self.dry_run_locked(bucket, now, op)
        })
    }

    /// The same as [`dry_run`](Self::dry_run), for [`write_seen`](Self::write_seen).
    pub(super) fn dry_run_to_write(&self, bucket: &BucketKey, now: Time, op: Op) -> UnlockedStep {
        let mut words = [0; SHORT_WORDS];
        let Some(state) = words.get_mut(..bucket.spec.words()) else {
            return UnlockedStep { step: self.dry_run(bucket, now, op), after: None };
        };
        let (version, was_converted) = self.read(bucket, now, state);
        if self.own_rates.has(bucket.key) {
            return UnlockedStep { step: self.dry_run(bucket, now, op), after: None };
        }
        let step = decide(bucket, state, now, op, was_converted);
        UnlockedStep { step, after: Some((version, words)) }
    }

    /// Locks the line of a bucket if nothing was written to it since the dry run.
    pub(super) fn lock_if_unchanged(&self, bucket: &BucketKey, seen: &UnlockedStep) -> Option<LineGuard<'_>> {
        let (version, _) = seen.after?;
        self.table.lock_if_unchanged(bucket.key, version)
    }

    /// Writes what the dry run left; the line must have been [locked](Self::lock_if_unchanged) since.
    pub(super) fn write_seen(&self, bucket: &BucketKey, seen: &UnlockedStep, now: Time) {
        let state = seen.after.as_ref().and_then(|(_, words)| words.get(..bucket.spec.words()));
        if let Some(state) = state.filter(|_| seen.step.changed) {
            self.table.write(bucket.key, state, now);
        }
    }

    /// The same as [`dry_run`](Self::dry_run); the line must be locked.
    pub(super) fn dry_run_locked(&self, bucket: &BucketKey, now: Time, op: Op) -> Step {
        if let Some(step) = self.step_own_rate(bucket, now, op, false) {
            return step;
        }
        with_words(bucket.spec.words(), |state| {
            let was_converted = self.read_locked(bucket, now, state);
            decide(bucket, state, now, op, was_converted)
        })
    }

    /// Runs one operation on one bucket; the line must be locked.
    pub(super) fn apply_locked(&self, bucket: &BucketKey, now: Time, op: Op) -> Verdict {
        if let Some(step) = self.step_own_rate(bucket, now, op, true) {
            return step.verdict;
        }
        with_words(bucket.spec.words(), |state| {
            let was_converted = self.read_locked(bucket, now, state);
            let step = decide(bucket, state, now, op, was_converted);
            if step.changed {
                self.table.write(bucket.key, state, now);
            }
            step.verdict
        })
    }

    pub(super) fn line_of(&self, key: Key) -> usize {
        self.table.line_of(key)
    }

    pub(super) fn lock(&self, line: usize) -> LineGuard<'_> {
        self.table.lock(line)
    }

    /// Reliable only while a line is locked.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn read(&self, bucket: &BucketKey, now: Time, state: &mut [u64]) -> (LineVersion, bool) {
        let version = self.table.read(bucket.key, state);
        (version, self.convert_former(bucket, now, state))
    }

    fn read_locked(&self, bucket: &BucketKey, now: Time, state: &mut [u64]) -> bool {
        self.table.read_locked(bucket.key, state);
        self.convert_former(bucket, now, state)
    }

    /// Fills an empty state from the former buckets. Returns whether it did.
    fn convert_former(&self, bucket: &BucketKey, now: Time, state: &mut [u64]) -> bool {
        if state.first() == Some(&0)
            && let Some(former) = &*self.former.load()
            && now < former.until
        {
            former.convert_former(bucket, state);
            return state.first() != Some(&0);
        }
        false
    }
}

impl Former {
    fn convert_former(&self, bucket: &BucketKey, state: &mut [u64]) {
        let Some(&Some((class, spec))) = self.classes.get(bucket.class) else { return };
        with_words(spec.words(), |before| {
            self.buckets.read(&BucketKey { key: bucket.key, class, spec }, self.since, before);
            convert(&spec, before, &bucket.spec, state, self.since);
        });
    }
}

/// An attempt writes a converted state even if it is refused: it would be lost with the old buckets.
fn decide(bucket: &BucketKey, state: &mut [u64], now: Time, op: Op, was_converted: bool) -> Step {
    let step = step(&bucket.spec, state, now, op);
    Step { changed: step.changed || was_converted && op.is_of_attempt(), ..step }
}

/// Lends zeroed words for a state, from the stack.
fn with_words<T>(words: usize, run: impl FnOnce(&mut [u64]) -> T) -> T {
    if words <= SHORT_WORDS {
        return run(&mut [0; SHORT_WORDS][..words]);
    }
    if words <= LONG_WORDS {
        return run(&mut [0; LONG_WORDS][..words]);
    }
    run(&mut [0; Spec::MAX_WORDS][..words.min(Spec::MAX_WORDS)])
}

impl std::fmt::Debug for Buckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets")
            .field("capacity", &self.capacity())
            .field("forgotten", &self.forgotten())
            .finish()
    }
}

/// All shapes but rolling windows and those that remember what they counted.
const SHORT_WORDS: usize = 3;
/// A rolling window of 24 periods and a few more words; also what a bucket stores that counts each value once, or that
/// remembers what was seen.
const LONG_WORDS: usize = 17;
/// More changes than an operator makes within the time that a bucket takes to fill.
const MAX_FORMER: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_bucket::{Admission, Continuous};

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
    const HOUR: Span = Span::from_secs(3600);

    fn spec(burst: u32) -> Spec {
        Spec::Continuous(Continuous::new(burst, HOUR, burst).unwrap())
    }

    fn bucket(key: u128, spec: Spec) -> BucketKey {
        BucketKey { key: Key(key), class: 0, spec }
    }

    fn taken(buckets: &Buckets, bucket: &BucketKey, now: Time) -> bool {
        buckets.apply(bucket, now, Op::Take(1)).unwrap().is_admitted()
    }

    fn changed(old: &Arc<Buckets>, from: Spec, to: Spec, now: Time) -> Arc<Buckets> {
        let new = Arc::new(old.changed(100, &[to], vec![Some((0, from))], now).unwrap());
        old.close();
        new
    }

    #[test]
    fn a_changed_limit_takes_over_the_level_of_then_and_refills_by_the_new_rate() {
        let old = Arc::new(Buckets::new(100, &[spec(3600)]).unwrap());
        let drained = bucket(1, spec(3600));
        old.apply(&drained, NOW, Op::Take(3600)).unwrap();
        let new = changed(&old, spec(3600), spec(2), NOW);
        let later = NOW.after(Span::from_secs(900));
        // By the old rate a quarter would be back by now: half a token of two.
        assert_eq!(new.peek(&bucket(1, spec(2)), later, 1).next_token, Span::from_secs(900));
        assert_eq!(new.peek(&bucket(2, spec(2)), later, 1).left, 2, "an unknown bucket is full");
    }

    #[test]
    fn a_bucket_that_is_only_ever_refused_survives_any_number_of_changes() {
        let mut buckets = Arc::new(Buckets::new(100, &[spec(4)]).unwrap());
        buckets.apply(&bucket(1, spec(4)), NOW, Op::Take(4)).unwrap();
        for change in 0..100 {
            let sizes = [4, 8];
            let (from, to) = (spec(sizes[change % 2]), spec(sizes[(change + 1) % 2]));
            buckets = changed(&buckets, from, to, NOW);
            assert!(!taken(&buckets, &bucket(1, to), NOW), "after {change} changes");
        }
    }

    #[test]
    fn unused_buckets_are_forgotten_after_sixteen_changes_and_counted() {
        let mut buckets = Arc::new(Buckets::new(100, &[spec(4)]).unwrap());
        buckets.apply(&bucket(1, spec(4)), NOW, Op::Take(4)).unwrap();
        let sizes = [4, 8];
        for change in 0..16 {
            buckets = changed(&buckets, spec(sizes[change % 2]), spec(sizes[(change + 1) % 2]), NOW);
        }
        assert_eq!((buckets.peek(&bucket(1, spec(4)), NOW, 1).left, buckets.forgotten()), (0, 0));
        buckets = changed(&buckets, spec(4), spec(8), NOW);
        assert_eq!((buckets.peek(&bucket(1, spec(8)), NOW, 1).left, buckets.forgotten()), (8, 1));
    }

    #[test]
    fn nothing_is_taken_from_closed_buckets_but_refusals_are_still_given() {
        let old = Arc::new(Buckets::new(100, &[spec(2)]).unwrap());
        assert!(taken(&old, &bucket(1, spec(2)), NOW) && taken(&old, &bucket(1, spec(2)), NOW));
        let _new = changed(&old, spec(2), spec(4), NOW);
        assert_eq!(old.apply(&bucket(2, spec(2)), NOW, Op::Take(1)), Err(Stale));
        let refused = old.apply(&bucket(1, spec(2)), NOW, Op::Take(1)).unwrap().admission;
        assert_eq!(refused, Admission::Refused { wait: Span::from_secs(1800) });
    }

    #[test]
    fn former_buckets_are_let_go_of_once_they_would_all_be_full() {
        let old = Arc::new(Buckets::new(100, &[spec(2)]).unwrap());
        let new = changed(&old, spec(2), spec(4), NOW);
        assert_eq!(Arc::strong_count(&old), 2);
        new.release(NOW.after(HOUR).before(Span::from_nanos(1)));
        assert_eq!(Arc::strong_count(&old), 2);
        new.release(NOW.after(HOUR));
        assert_eq!(Arc::strong_count(&old), 1);
    }
}
