//! The bounded, set-associative table under one limit's buckets.
//!
//! It never grows, has no sweeper and never pauses: an operation finds its line by the key's hash and looks at five
//! slots. The first word of each state is in the line, the others right behind it, on the same page: a slot is 12.8
//! bytes and 8 more for each further word, rounded up to whole cache lines. A full bucket is the same as an absent one,
//! so refilled buckets need no removal. The slots of a line are left to [`table_line`](super::table_line).

use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};
use zerocopy::FromZeros;

use super::RestoreError;
use super::sync::AtomicU64;
use super::table_line::{LineGuard, LineVersion, SLOTS, TableLine, WORDS, Written, home_of};
use tollgate_bucket::Key;
use tollgate_bucket::Time;

/// States by key, all with the same number of words.
pub(crate) struct BucketTable {
    /// Blocks of a line and the further words of its slots, from the first whole cache line on. Words and not lines,
    /// because memory allocated with that alignment is written to before its first use.
    words: Box<[AtomicU64]>,
    skipped: usize,
    lines: usize,
    /// Words of a block.
    block: usize,
    /// Words of a state but the first.
    further: usize,
    forgotten: AtomicU64,
}

/// The machine has not enough address space for a table of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory for {0} buckets")]
pub struct TooLarge(usize);

/// The states of a table, for a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct TableSnapshot {
    lines: u64,
    /// Words of each state.
    pub(super) width: u16,
    /// The line and the tag of each.
    slots: Vec<(u64, u32)>,
    /// All states, one after the other.
    words: Vec<u64>,
}

impl BucketTable {
    /// A table for at least `states` states of `words` words.
    pub(crate) fn new(states: usize, words: usize) -> Result<Self, TooLarge> {
        let (lines, further) = (states.div_ceil(SLOTS).max(1), words.saturating_sub(1));
        let block = (WORDS + SLOTS * further).next_multiple_of(WORDS);
        let size =
            lines.checked_mul(block).and_then(|size| size.checked_add(WORDS)).ok_or(TooLarge(states))?;
        let words = <[AtomicU64]>::new_box_zeroed_with_elems(size).map_err(|_| TooLarge(states))?;
        let address = words.as_ptr().addr() / size_of::<AtomicU64>();
        let skipped = address.next_multiple_of(WORDS) - address;
        Ok(Self { words, skipped, lines, block, further, forgotten: AtomicU64::new(0) })
    }

    /// How many states are not full. Counts every line of a small table, and an even sample of a large one.
    pub(super) fn live(&self, now: Time) -> usize {
        let stride = self.lines.div_ceil(MAX_COUNTED);
        let sample = (0..self.lines).step_by(stride).map(|line| self.line(line).live(now)).sum::<usize>();
        sample * stride
    }

    /// How many live states were evicted since the start.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }

    /// How many states fit.
    pub(super) fn capacity(&self) -> usize {
        self.lines * SLOTS
    }

    /// Words of each state.
    pub(super) fn words(&self) -> usize {
        self.further + 1
    }

    /// All states that are not full, read line by line without the lock.
    pub(super) fn snapshot(&self, now: Time) -> TableSnapshot {
        let width = u16::try_from(self.words()).unwrap_or(u16::MAX);
        let mut all = TableSnapshot { lines: self.lines as u64, width, ..TableSnapshot::default() };
        for line in 0..self.lines {
            let before = (all.slots.len(), all.words.len());
            self.line(line).consistent(|| {
                // Drops what was read before a concurrent write.
                all.slots.truncate(before.0);
                all.words.truncate(before.1);
                for (slot, (tag, full_at)) in self.line(line).slots().into_iter().enumerate() {
                    if full_at > now.as_nanos() {
                        all.slots.push((line as u64, tag));
                        all.words.push(full_at);
                        all.words
                            .extend(self.further_words(line, slot).iter().map(|word| word.load(Relaxed)));
                    }
                }
            });
        }
        all
    }

    /// Restores the states of a table of the same size.
    pub(super) fn restore(&self, states: &TableSnapshot) -> Result<(), RestoreError> {
        if states.lines != self.lines as u64 {
            return Err(RestoreError::Capacity);
        }
        let width = self.words();
        if usize::from(states.width) != width || states.words.len() != states.slots.len() * width {
            return Err(RestoreError::Corrupt);
        }
        for ((line, tag), state) in states.slots.iter().zip(states.words.chunks_exact(width)) {
            let line =
                usize::try_from(*line).ok().filter(|line| *line < self.lines).ok_or(RestoreError::Corrupt)?;
            let _held = self.lock(line);
            self.write_at(line, *tag, state, Time::from_nanos(0));
        }
        Ok(())
    }

    /// Copies the state of this key, or zeros, without the lock. Returns the version of the line.
    pub(super) fn read(&self, key: Key, state: &mut [u64]) -> LineVersion {
        let line = self.line_of(key);
        // Prefetches the words behind the line while the line is searched.
        for word in self.further_words(line, home_of(tag_of(key))).iter().step_by(WORDS) {
            std::hint::black_box(word.load(Relaxed));
        }
        self.line(line).consistent(|| self.copy(key, state)).1
    }

    /// Copies the state of this key, or zeros, for a caller that does not go on to write it.
    pub(crate) fn peek(&self, key: Key, state: &mut [u64]) {
        self.read(key, state);
    }

    /// Writes the state of this key, whatever it was.
    pub(crate) fn put(&self, key: Key, state: &[u64], now: Time) {
        let _held = self.lock(self.line_of(key));
        self.write(key, state, now);
    }

    /// Copies the state of this key, or zeros; its line must be locked.
    pub(super) fn read_locked(&self, key: Key, state: &mut [u64]) {
        self.copy(key, state);
    }

    pub(super) fn lock(&self, line: usize) -> LineGuard<'_> {
        self.line(line).lock()
    }

    /// Locks the line of this key if nothing was written to it since it was read.
    pub(super) fn lock_if_unchanged(&self, key: Key, version: LineVersion) -> Option<LineGuard<'_>> {
        self.line(self.line_of(key)).lock_if_unchanged(version)
    }

    /// Writes the state of this key; its line must be locked.
    pub(super) fn write(&self, key: Key, state: &[u64], now: Time) {
        self.write_at(self.line_of(key), tag_of(key), state, now);
    }

    fn write_at(&self, line: usize, tag: u32, state: &[u64], now: Time) {
        let Some((full_at, further)) = state.split_first() else { return };
        let (slot, written) = self.line(line).write(tag, Time::from_nanos(*full_at), now);
        for (cell, word) in self.further_words(line, slot).iter().zip(further) {
            cell.store(*word, Relaxed);
        }
        if written == Written::Evicted {
            self.forgotten.fetch_add(1, Relaxed);
        }
    }

    /// Zeroes the state of this key; its line must be locked.
    pub(super) fn forget(&self, key: Key, now: Time) {
        let line = self.line(self.line_of(key));
        if line.find(tag_of(key)).is_some() {
            line.write(tag_of(key), Time::from_nanos(0), now);
        }
    }

    /// The upper half of the key picks the line, the lower half holds the tag: two independent hashes.
    pub(super) fn line_of(&self, Key(key): Key) -> usize {
        let line = ((key >> 64) * self.lines as u128) >> 64;
        usize::try_from(line).unwrap_or(0)
    }

    fn copy(&self, key: Key, state: &mut [u64]) {
        let line = self.line_of(key);
        let Some((slot, full_at)) = self.line(line).find(tag_of(key)) else { return state.fill(0) };
        let Some((first, further)) = state.split_first_mut() else { return };
        *first = full_at.as_nanos();
        for (word, cell) in further.iter_mut().zip(self.further_words(line, slot)) {
            *word = cell.load(Relaxed);
        }
    }

    fn line(&self, line: usize) -> TableLine<'_> {
        let (chunks, _) = self.words[self.skipped..].as_chunks();
        TableLine(&chunks[line * self.block / WORDS])
    }

    fn further_words(&self, line: usize, slot: usize) -> &[AtomicU64] {
        let from = self.skipped + line * self.block + WORDS + slot * self.further;
        &self.words[from..from + self.further]
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the tag is the low quarter of the key")]
fn tag_of(Key(key): Key) -> u32 {
    key as u32
}

const MAX_COUNTED: usize = 262_144;
