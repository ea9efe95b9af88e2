//! The buckets of one limit, also across a change of that limit.
//!
//! When a limit is changed while the gate runs, its buckets begin anew, and the old ones stay beside them until all of
//! them would be full: a bucket that is touched for the first time takes over the fill level that it had when the limit
//! was changed, in proportion. So a change costs nothing at once, whatever the number of buckets. The surprising thing:
//! whoever still decides by the old limit then is told so, and nothing is taken: a token taken from the old buckets,
//! after the new ones have looked, would be taken from nobody.

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
use crate::bucket::{Key, Op, Spec, Step, Verdict, convert, step};
use crate::time::{Span, Time};

/// The buckets of one limit.
pub struct Buckets {
    table: BucketTable,
    former: ArcSwapOption<Former>,
    /// Shared with the former buckets and the next ones.
    own_rates: Arc<OwnRates>,
    /// The longest that anything is remembered of a bucket.
    memory: Span,
    closed: AtomicBool,
    /// Live buckets that were forgotten with a former table.
    forgotten_with_former: AtomicU64,
}

/// The buckets as they were before the limit was changed.
struct Former {
    buckets: Arc<Buckets>,
    /// For each class of clients now: which it was, and what was promised to it.
    classes: Box<[Option<(usize, Spec)>]>,
    /// When that was: from then on they are as the new promise says.
    since: Time,
    /// When all of them are full.
    until: Time,
}

/// Which bucket of a limit.
#[derive(Debug, Clone, Copy)]
pub struct BucketKey {
    /// Its name.
    pub key: Key,
    /// Which of the limit's rates it has.
    pub class: usize,
    /// What it promises.
    pub spec: Spec,
}

/// The limit has been changed: decide again, by what is in force now. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit was changed meanwhile")]
pub struct Stale;

impl Buckets {
    /// Room for at least `capacity` buckets with these promises, one for each class of clients.
    ///
    /// # Errors
    /// [`TooLarge`] if the address space cannot be had.
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

    /// The same room for a changed limit. `classes` says for each class of clients which it was before and what was
    /// promised to it then. The old buckets have to be [closed](Self::close) before the new ones are used.
    ///
    /// # Errors
    /// [`TooLarge`] if the address space cannot be had.
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
        let own = Arc::clone(&self.own_rates);
        let changed = Self { former: ArcSwapOption::from_pointee(former), own_rates: own, ..new };
        changed
            .forgotten_with_former
            .store(self.forgotten() + changed.forget_former(MAX_FORMER, now), Ordering::Relaxed);
        Ok(changed)
    }

    /// Lets go of former buckets that are all full by now, and of ended rates of single buckets that are.
    pub fn release(&self, now: Time) {
        self.own_rates.release(now.before(self.memory));
        if self.former.load().as_ref().is_some_and(|former| former.until <= now) {
            self.former.store(None);
        }
    }

    /// Forgets what is more than so many changes ago, and says how many live buckets that were at most: some have come
    /// over since.
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

    /// From now on nothing is taken here any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Whoever sees what is done next sees every line held by somebody who did not see this.
        fence(Ordering::SeqCst);
    }

    /// As if it had not been closed; only where nothing else has taken over from it.
    pub fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Runs one operation on one bucket.
    ///
    /// # Errors
    /// [`Stale`] if something is to be written and the limit was changed.
    pub fn apply(&self, place: &BucketKey, now: Time, op: Op) -> Result<Verdict, Stale> {
        let done = with_words(place.spec.words(), |state| {
            let (version, came_over) = self.read(place, now, state);
            if self.own_rates.has(place.key) {
                return None;
            }
            let step = decide(place, state, now, op, came_over);
            if !step.changed {
                return Some(Ok(step.verdict));
            }
            let _held = self.table.lock_if_unchanged(place.key, version)?;
            if self.is_closed() {
                return Some(Err(Stale));
            }
            self.table.write(place.key, state, now);
            Some(Ok(step.verdict))
        });
        // Somebody else was faster, or the bucket is not in the table: with the lock, this time.
        done.unwrap_or_else(|| {
            let _held = self.lock(self.line_of(place.key));
            if self.is_closed() { Err(Stale) } else { Ok(self.apply_locked(place, now, op)) }
        })
    }

    /// What an attempt would be told, if refusals were free.
    #[must_use]
    pub fn peek(&self, place: &BucketKey, now: Time, cost: u32) -> Verdict {
        self.dry_run(place, now, Op::Peek(cost)).verdict
    }

    /// How many buckets are not full; an estimate for large tables.
    #[must_use]
    pub fn live(&self, now: Time) -> usize {
        self.table.live(now)
    }

    /// How many live buckets gave way to others since the start.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.table.forgotten() + self.forgotten_with_former.load(Ordering::Relaxed)
    }

    /// Words of the longest state.
    #[must_use]
    pub(in crate::store) fn words(&self) -> usize {
        self.table.words()
    }

    /// How many buckets there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// What an operation would do, without the lock.
    pub(in crate::store) fn dry_run(&self, place: &BucketKey, now: Time, op: Op) -> Step {
        let seen = with_words(place.spec.words(), |state| {
            let (_, came_over) = self.read(place, now, state);
            (!self.own_rates.has(place.key)).then(|| decide(place, state, now, op, came_over))
        });
        seen.unwrap_or_else(|| {
            let _held = self.lock(self.line_of(place.key));
            self.dry_run_locked(place, now, op)
        })
    }

    /// The same while the line is held.
    pub(super) fn dry_run_locked(&self, place: &BucketKey, now: Time, op: Op) -> Step {
        if let Some(step) = self.step_own_rate(place, now, op, false) {
            return step;
        }
        with_words(place.spec.words(), |state| {
            let came_over = self.read_locked(place, now, state);
            decide(place, state, now, op, came_over)
        })
    }

    /// Does it; the line must be held.
    pub(super) fn apply_locked(&self, place: &BucketKey, now: Time, op: Op) -> Verdict {
        if let Some(step) = self.step_own_rate(place, now, op, true) {
            return step.verdict;
        }
        with_words(place.spec.words(), |state| {
            let came_over = self.read_locked(place, now, state);
            let step = decide(place, state, now, op, came_over);
            if step.changed {
                self.table.write(place.key, state, now);
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

    /// To be asked while a line is held.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn read(&self, place: &BucketKey, now: Time, state: &mut [u64]) -> (LineVersion, bool) {
        let version = self.table.read(place.key, state);
        (version, self.convert_former(place, now, state))
    }

    fn read_locked(&self, place: &BucketKey, now: Time, state: &mut [u64]) -> bool {
        self.table.read_locked(place.key, state);
        self.convert_former(place, now, state)
    }

    /// What is not here may be as it was before the limit was changed. Says whether it was.
    fn convert_former(&self, place: &BucketKey, now: Time, state: &mut [u64]) -> bool {
        if state.first() == Some(&0)
            && let Some(former) = &*self.former.load()
            && now < former.until
        {
            former.convert_former(place, state);
            return state.first() != Some(&0);
        }
        false
    }
}

impl Former {
    fn convert_former(&self, place: &BucketKey, state: &mut [u64]) {
        let Some(&Some((class, spec))) = self.classes.get(place.class) else { return };
        with_words(spec.words(), |before| {
            self.buckets.read(&BucketKey { key: place.key, class, spec }, self.since, before);
            convert(&spec, before, &place.spec, state, self.since);
        });
    }
}

/// An attempt writes what came over even if it is refused: with the old buckets it would be lost one day.
fn decide(place: &BucketKey, state: &mut [u64], now: Time, op: Op, came_over: bool) -> Step {
    let step = step(&place.spec, state, now, op);
    let is_attempt = matches!(op, Op::Take(_) | Op::TakeOnce { .. } | Op::Strike);
    Step { changed: step.changed || came_over && is_attempt, ..step }
}

/// Lends words for a state, none of them from the heap.
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
/// A rolling window of 24 periods, and a few more; what a bucket remembers that counts a thing once.
const LONG_WORDS: usize = 16;
/// More changes than anybody makes within the time that a bucket takes to fill.
const MAX_FORMER: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Admission, Continuous};

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
    const HOUR: Span = Span::from_secs(3600);

    fn spec(burst: u32) -> Spec {
        Spec::Continuous(Continuous::new(burst, HOUR, burst).unwrap())
    }

    fn place(key: u128, spec: Spec) -> BucketKey {
        BucketKey { key: Key(key), class: 0, spec }
    }

    fn taken(buckets: &Buckets, place: &BucketKey, now: Time) -> bool {
        buckets.apply(place, now, Op::Take(1)).unwrap().is_admitted()
    }

    fn changed(old: &Arc<Buckets>, from: Spec, to: Spec, now: Time) -> Arc<Buckets> {
        let new = Arc::new(old.changed(100, &[to], vec![Some((0, from))], now).unwrap());
        old.close();
        new
    }

    #[test]
    fn a_changed_limit_takes_over_the_level_of_then_and_refills_by_the_new_rate() {
        let old = Arc::new(Buckets::new(100, &[spec(3600)]).unwrap());
        let drained = place(1, spec(3600));
        old.apply(&drained, NOW, Op::Take(3600)).unwrap();
        let new = changed(&old, spec(3600), spec(2), NOW);
        let later = NOW.after(Span::from_secs(900));
        // By the old rate a quarter would be back by now: half a token of two.
        assert_eq!(new.peek(&place(1, spec(2)), later, 1).next_token, Span::from_secs(900));
        assert_eq!(new.peek(&place(2, spec(2)), later, 1).left, 2, "a bucket that nobody knew is full");
    }

    #[test]
    fn a_bucket_that_is_only_ever_refused_survives_any_number_of_changes() {
        let mut buckets = Arc::new(Buckets::new(100, &[spec(4)]).unwrap());
        buckets.apply(&place(1, spec(4)), NOW, Op::Take(4)).unwrap();
        for change in 0..100 {
            let sizes = [4, 8];
            let (from, to) = (spec(sizes[change % 2]), spec(sizes[(change + 1) % 2]));
            buckets = changed(&buckets, from, to, NOW);
            assert!(!taken(&buckets, &place(1, to), NOW), "after {change} changes");
        }
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_after_sixteen_changes_and_counted() {
        let mut buckets = Arc::new(Buckets::new(100, &[spec(4)]).unwrap());
        buckets.apply(&place(1, spec(4)), NOW, Op::Take(4)).unwrap();
        let sizes = [4, 8];
        for change in 0..16 {
            buckets = changed(&buckets, spec(sizes[change % 2]), spec(sizes[(change + 1) % 2]), NOW);
        }
        assert_eq!((buckets.peek(&place(1, spec(4)), NOW, 1).left, buckets.forgotten()), (0, 0));
        buckets = changed(&buckets, spec(4), spec(8), NOW);
        assert_eq!((buckets.peek(&place(1, spec(8)), NOW, 1).left, buckets.forgotten()), (8, 1));
    }

    #[test]
    fn nothing_is_taken_from_closed_buckets_but_refusals_are_still_given() {
        let old = Arc::new(Buckets::new(100, &[spec(2)]).unwrap());
        assert!(taken(&old, &place(1, spec(2)), NOW) && taken(&old, &place(1, spec(2)), NOW));
        let _new = changed(&old, spec(2), spec(4), NOW);
        assert_eq!(old.apply(&place(2, spec(2)), NOW, Op::Take(1)), Err(Stale));
        let refused = old.apply(&place(1, spec(2)), NOW, Op::Take(1)).unwrap().admission;
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
