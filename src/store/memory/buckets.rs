//! The buckets of one limit, also across a change of that limit.
//!
//! When a limit is changed while the gate runs, its buckets begin anew, and the old ones stay beside them until all of
//! them would be full: a bucket that is touched for the first time takes over the fill level that it had when the limit
//! was changed, in proportion. So a change costs nothing at once, whatever the number of buckets. The surprising thing: whoever still
//! decides by the old limit then is told so, and nothing is taken: a token taken from the old buckets, after the new
//! ones have looked, would be taken from nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use arc_swap::ArcSwapOption;

use super::line::{Held, Version};
use super::table::{Table, TooLarge};
use crate::bucket::{Key, Op, Spec, Step, Verdict, convert, step};
use crate::time::{Span, Time};

/// The buckets of one limit.
pub struct Buckets {
    table: Table,
    former: ArcSwapOption<Former>,
    closed: AtomicBool,
    /// Live buckets that were forgotten with a former table.
    cut: AtomicU64,
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
pub struct Place {
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
            table: Table::new(capacity, words)?,
            former: ArcSwapOption::empty(),
            closed: AtomicBool::default(),
            cut: AtomicU64::default(),
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
        let longest = specs.iter().map(Spec::memory).max().unwrap_or(Span::ZERO);
        let (buckets, until) = (Arc::clone(self), now.after(longest));
        let former = Former { buckets, classes: classes.into(), since: now, until };
        let changed = Self { former: ArcSwapOption::from_pointee(former), ..Self::new(capacity, specs)? };
        changed.cut.store(self.forgotten() + changed.cut_off(MOST_FORMER, now), Ordering::Relaxed);
        Ok(changed)
    }

    /// Lets go of former buckets that are all full by now.
    pub fn release(&self, now: Time) {
        if self.former.load().as_ref().is_some_and(|former| former.until <= now) {
            self.former.store(None);
        }
    }

    /// Forgets what is more than so many changes ago, and says how many live buckets that were.
    fn cut_off(&self, changes: usize, now: Time) -> u64 {
        let former = self.former.load_full();
        match (former, changes) {
            (None, _) => 0,
            (Some(former), 0) => {
                self.former.store(None);
                former.buckets.live(now) as u64
            }
            (Some(former), changes) => former.buckets.cut_off(changes - 1, now),
        }
    }

    /// From now on nothing is taken here any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Whoever sees what is done next sees every line held by somebody who did not see this.
        fence(Ordering::SeqCst);
    }

    /// Runs one operation on one bucket.
    ///
    /// # Errors
    /// [`Stale`] if something is to be written and the limit was changed.
    pub fn apply(&self, place: &Place, now: Time, op: Op) -> Result<Verdict, Stale> {
        let done = on_words(place.spec.words(), |state| {
            let version = self.read(place, now, state);
            let step = step(&place.spec, state, now, op);
            if !step.changed {
                return Some(Ok(step.verdict));
            }
            let _held = self.table.hold_if(place.key, version)?;
            if self.is_closed() {
                return Some(Err(Stale));
            }
            self.table.write(place.key, state, now);
            Some(Ok(step.verdict))
        });
        // Somebody else was faster: with the lock, this time.
        done.unwrap_or_else(|| {
            let _held = self.hold(self.line_of(place.key));
            if self.is_closed() { Err(Stale) } else { Ok(self.apply_held(place, now, op)) }
        })
    }

    /// What an attempt would be told, if refusals were free.
    #[must_use]
    pub fn peek(&self, place: &Place, now: Time, cost: u32) -> Verdict {
        self.look(place, now, Op::Peek(cost)).verdict
    }

    /// How many buckets are not full; an estimate for large tables.
    #[must_use]
    pub fn live(&self, now: Time) -> usize {
        self.table.live(now)
    }

    /// How many live buckets gave way to others since the start.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.table.forgotten() + self.cut.load(Ordering::Relaxed)
    }

    /// How many buckets there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// What an operation would do, without the lock.
    pub(super) fn look(&self, place: &Place, now: Time, op: Op) -> Step {
        on_words(place.spec.words(), |state| {
            self.read(place, now, state);
            step(&place.spec, state, now, op)
        })
    }

    /// The same while the line is held.
    pub(super) fn look_held(&self, place: &Place, now: Time, op: Op) -> Step {
        on_words(place.spec.words(), |state| {
            self.read_held(place, now, state);
            step(&place.spec, state, now, op)
        })
    }

    /// Does it; the line must be held.
    pub(super) fn apply_held(&self, place: &Place, now: Time, op: Op) -> Verdict {
        on_words(place.spec.words(), |state| {
            self.read_held(place, now, state);
            let step = step(&place.spec, state, now, op);
            if step.changed {
                self.table.write(place.key, state, now);
            }
            step.verdict
        })
    }

    pub(super) fn line_of(&self, key: Key) -> usize {
        self.table.line_of(key)
    }

    pub(super) fn hold(&self, line: usize) -> Held<'_> {
        self.table.hold(line)
    }

    /// To be asked while a line is held.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn read(&self, place: &Place, now: Time, state: &mut [u64]) -> Version {
        let version = self.table.read(place.key, state);
        self.take_over(place, now, state);
        version
    }

    fn read_held(&self, place: &Place, now: Time, state: &mut [u64]) {
        self.table.read_held(place.key, state);
        self.take_over(place, now, state);
    }

    /// What is not here may be as it was before the limit was changed.
    fn take_over(&self, place: &Place, now: Time, state: &mut [u64]) {
        if state.first() == Some(&0)
            && let Some(former) = &*self.former.load()
            && now < former.until
        {
            former.take_over(place, state);
        }
    }
}

impl Former {
    fn take_over(&self, place: &Place, state: &mut [u64]) {
        let Some(&Some((class, spec))) = self.classes.get(place.class) else { return };
        on_words(spec.words(), |before| {
            self.buckets.read(&Place { key: place.key, class, spec }, self.since, before);
            convert(&spec, before, &place.spec, state, self.since);
        });
    }
}

/// Lends words for a state, none of them from the heap.
fn on_words<T>(words: usize, run: impl FnOnce(&mut [u64]) -> T) -> T {
    let words = words.min(Spec::MOST_WORDS);
    if words <= FEW {
        run(&mut [0; FEW][..words])
    } else if words <= SOME {
        run(&mut [0; SOME][..words])
    } else {
        run(&mut [0; Spec::MOST_WORDS][..words])
    }
}

impl std::fmt::Debug for Buckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets")
            .field("capacity", &self.capacity())
            .field("forgotten", &self.forgotten())
            .finish()
    }
}

/// All shapes but rolling windows.
const FEW: usize = 3;
/// A rolling window of 24 periods, and a few more.
const SOME: usize = 16;
/// More changes than anybody makes within the time that a bucket takes to fill.
const MOST_FORMER: usize = 16;
