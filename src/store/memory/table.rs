//! The bounded, set-associative table under one limit's buckets.
//!
//! It never grows, has no sweeper and never pauses: a line is found by the key's hash, five slots are looked at,
//! and that is all that any operation costs. Memory is touched only when used. The first word of each state stands in
//! the lines, the others in an array beside them: a slot is 12.8 bytes and 8 more for each further word. The surprising
//! thing: being full is the same as being absent, so junk that refills needs no removing.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use zerocopy::FromZeros;

use super::line::{Held, Line, SLOTS, Written};
use crate::bucket::Key;
use crate::time::Time;

/// States by key, all with the same number of words.
pub(super) struct Table {
    lines: Box<[Line]>,
    /// For each slot all words of its state but the first.
    rest: Box<[AtomicU64]>,
    /// How many those are.
    further: usize,
    forgotten: AtomicU64,
}

/// The machine has not enough address space for a table of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for {0} buckets")]
pub struct TooLarge(usize);

impl Table {
    /// A table with room for at least this many states of so many words.
    pub(super) fn new(states: usize, words: usize) -> Result<Self, TooLarge> {
        let (lines, further) = (states.div_ceil(SLOTS).max(1), words.saturating_sub(1));
        let rest = lines.checked_mul(SLOTS * further).ok_or(TooLarge(states))?;
        Ok(Self {
            lines: <[Line]>::new_box_zeroed_with_elems(lines).map_err(|_| TooLarge(states))?,
            rest: <[AtomicU64]>::new_box_zeroed_with_elems(rest).map_err(|_| TooLarge(states))?,
            further,
            forgotten: AtomicU64::new(0),
        })
    }

    /// How many states are not full. Looks at every line of small tables and at an even sample of large ones.
    pub(super) fn live(&self, now: Time) -> usize {
        let stride = self.lines.len().div_ceil(MOST_COUNTED);
        let sample = self.lines.iter().step_by(stride).map(|line| line.live(now)).sum::<usize>();
        sample * stride
    }

    /// How many live states gave way to others since the start.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    /// How many states there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.lines.len() * SLOTS
    }

    /// Copies the state of this key, or zeros. Without the lock, unless the caller `holds` the line.
    pub(super) fn read(&self, key: Key, state: &mut [u64], holds: bool) {
        let (at, tag) = (self.line_of(key), tag_of(key));
        // The words beside the lines are on their way already while the line is looked at.
        let first = self.further_words(at, 0).first();
        std::hint::black_box(first.map(|word| word.load(Relaxed)));
        let line = &self.lines[at];
        let mut copy = |line: &Line| self.copy(line, at, tag, state);
        if holds { copy(line) } else { line.consistent(copy) }
    }

    pub(super) fn hold(&self, line: usize) -> Held<'_> {
        self.lines[line].hold()
    }

    /// Writes the state of this key; its line must be held.
    pub(super) fn write(&self, key: Key, state: &[u64], now: Time) {
        let Some((full_at, further)) = state.split_first() else { return };
        let at = self.line_of(key);
        let (slot, written) = self.lines[at].write(tag_of(key), Time::from_nanos(*full_at), now);
        for (place, word) in self.further_words(at, slot).iter().zip(further) {
            place.store(*word, Relaxed);
        }
        if written == Written::Forgot {
            self.forgotten.fetch_add(1, Relaxed);
        }
    }

    /// The upper half of the key picks the line, the lower half holds the tag: two independent hashes.
    pub(super) fn line_of(&self, Key(key): Key) -> usize {
        let line = ((key >> 64) * self.lines.len() as u128) >> 64;
        usize::try_from(line).unwrap_or(0)
    }

    fn copy(&self, line: &Line, at: usize, tag: u32, state: &mut [u64]) {
        let Some((slot, full_at)) = line.find(tag) else { return state.fill(0) };
        let Some((first, further)) = state.split_first_mut() else { return };
        *first = full_at.as_nanos();
        for (word, place) in further.iter_mut().zip(self.further_words(at, slot)) {
            *word = place.load(Relaxed);
        }
    }

    fn further_words(&self, line: usize, slot: usize) -> &[AtomicU64] {
        let from = (line * SLOTS + slot) * self.further;
        &self.rest[from..from + self.further]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the tag is the low quarter of the key")]
fn tag_of(Key(key): Key) -> u32 {
    key as u32
}

const MOST_COUNTED: usize = 262_144;
