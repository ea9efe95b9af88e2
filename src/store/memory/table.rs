//! The bounded, set-associative table of one limit's buckets.
//!
//! It never grows, has no sweeper and never pauses: a line is found by the key's hash, five slots are looked at,
//! and that is all that any operation costs. Memory is touched only when used. The surprising thing: being full is
//! the same as being absent, so junk that refills needs no removing.

use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

use super::line::{Held, Line, SLOTS, Written};
use crate::bucket::{Key, Op, Spec, State, Step, Verdict, step};
use crate::time::Time;

/// The buckets of one limit.
pub struct Table {
    lines: Box<[Line]>,
    forgotten: AtomicU64,
}

/// The machine has not enough address space for a table of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for {0} buckets")]
pub struct TooLarge(usize);

impl Table {
    /// A table with room for at least this many buckets, at 12.8 bytes each.
    ///
    /// # Errors
    /// [`TooLarge`] if the address space cannot be had.
    pub fn with_capacity(buckets: usize) -> Result<Self, TooLarge> {
        let lines = buckets.div_ceil(SLOTS).max(1);
        let lines = <[Line]>::new_box_zeroed_with_elems(lines).map_err(|_| TooLarge(buckets))?;
        Ok(Self { lines, forgotten: AtomicU64::new(0) })
    }

    /// Runs one operation on one bucket.
    pub fn apply(&self, key: Key, spec: &Spec, now: Time, op: Op) -> Verdict {
        let decide = |state| step(spec, state, now, op);
        let seen = self.look(key, decide);
        if seen.next.is_none() {
            return seen.verdict;
        }
        let _held = self.hold(self.line_of(key));
        let step = decide(self.stored(key));
        if let Some(next) = step.next {
            self.write(key, next, now);
        }
        step.verdict
    }

    /// How many buckets are not full. Looks at every line of small tables and at an even sample of large ones.
    #[must_use]
    pub fn live(&self, now: Time) -> usize {
        let stride = self.lines.len().div_ceil(MOST_COUNTED);
        let sample = self.lines.iter().step_by(stride).map(|line| line.live(now)).sum::<usize>();
        sample * stride
    }

    /// How many live buckets gave way to others since the start.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// How many buckets there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.lines.len() * SLOTS
    }

    /// Decides on what stands there, without the lock.
    pub(super) fn look(&self, key: Key, decide: impl Fn(Option<State>) -> Step) -> Step {
        decide(self.line(key).look(tag_of(key)).map(as_state))
    }

    pub(super) fn hold(&self, line: usize) -> Held<'_> {
        self.lines[line].hold()
    }

    /// What stands there; the line must be held.
    pub(super) fn stored(&self, key: Key) -> Option<State> {
        self.line(key).find(tag_of(key)).map(as_state)
    }

    /// Writes the state; the line must be held.
    pub(super) fn write(&self, key: Key, State::Continuous { tat }: State, now: Time) {
        if self.line(key).write(tag_of(key), tat, now) == Written::Forgot {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The upper half of the key picks the line, the lower half holds the tag: two independent hashes.
    pub(super) fn line_of(&self, Key(key): Key) -> usize {
        let line = ((key >> 64) * self.lines.len() as u128) >> 64;
        usize::try_from(line).unwrap_or(0)
    }

    fn line(&self, key: Key) -> &Line {
        &self.lines[self.line_of(key)]
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("capacity", &self.capacity())
            .field("forgotten", &self.forgotten())
            .finish()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the tag is the low quarter of the key")]
fn tag_of(Key(key): Key) -> u32 {
    key as u32
}

fn as_state(tat: Time) -> State {
    State::Continuous { tat }
}

const MOST_COUNTED: usize = 262_144;
