//! The words of a rolling window: when its period began, and 32-bit counts, two to a word.
//!
//! Word 0 is the time at which the window is empty again, word 1 the beginning of the period that is on. Then come
//! what was withheld from the first period, and the counts, the youngest first: a border moves them on by one place,
//! so that no place depends on where 1970 was.

use super::units::{Span, Time};

/// A view of a rolling window's words.
pub(super) struct Ring<'s> {
    head: &'s mut [u64; 2],
    pairs: &'s mut [u64],
    slots: usize,
}

impl<'s> Ring<'s> {
    /// The words of a window of so many periods; `None` if there are fewer.
    pub(super) fn new(words: &'s mut [u64], slots: u16) -> Option<Self> {
        let (head, pairs) = words.split_first_chunk_mut()?;
        let slots = usize::from(slots);
        (pairs.len() > slots / 2).then_some(Self { head, pairs, slots })
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn is_absent(&self) -> bool {
        self.head[0] == 0
    }

    pub(super) fn set_full_at(&mut self, time: Time) {
        self.head[0] = time.as_nanos();
    }

    pub(super) fn start(&self) -> Time {
        Time::from_nanos(self.head[1])
    }

    pub(super) fn set_start(&mut self, time: Time) {
        self.head[1] = time.as_nanos();
    }

    /// Tokens that a client never seen before does not get in its first period.
    pub(super) fn withheld(&self) -> u32 {
        self.half(0)
    }

    pub(super) fn set_withheld(&mut self, tokens: u32) {
        self.set_half(0, tokens);
    }

    /// Tokens taken so many periods ago; 0 is the one that is on.
    pub(super) fn count(&self, age: usize) -> u32 {
        self.half(age.saturating_add(1))
    }

    pub(super) fn set_count(&mut self, age: usize, tokens: u32) {
        self.set_half(age.saturating_add(1), tokens);
    }

    /// All counts, the youngest first.
    pub(super) fn counts(&self) -> impl Iterator<Item = u32> {
        (0..self.slots).map(|age| self.count(age))
    }

    pub(super) fn total(&self) -> u64 {
        let halves = |pair: &u64| (pair >> 32).saturating_add(pair & LOW);
        self.pairs.iter().map(halves).fold(0, u64::saturating_add).saturating_sub(self.withheld().into())
    }

    /// How many periods ago something was last taken.
    pub(super) fn youngest(&self) -> Option<usize> {
        (0..self.slots).find(|&age| self.count(age) > 0)
    }

    /// Begins the window anew: nothing is counted.
    pub(super) fn clear(&mut self, start: Time) {
        self.pairs.fill(0);
        self.set_start(start);
    }

    /// Moves on by so many periods of this length.
    pub(super) fn advance(&mut self, periods: u64, length: Span) {
        let by = usize::try_from(periods).unwrap_or(self.slots);
        for age in (0..self.slots).rev() {
            let count = age.checked_sub(by).map_or(0, |from| self.count(from));
            self.set_count(age, count);
        }
        self.set_withheld(0);
        self.set_start(self.start().after(length.times(periods)));
    }

    fn half(&self, index: usize) -> u32 {
        let pair = self.pairs.get(index / 2).copied().unwrap_or(0);
        let half = if index.is_multiple_of(2) { pair >> 32 } else { pair & LOW };
        u32::try_from(half).unwrap_or(u32::MAX)
    }

    fn set_half(&mut self, index: usize, value: u32) {
        if let Some(pair) = self.pairs.get_mut(index / 2) {
            let value = u64::from(value);
            *pair = if index.is_multiple_of(2) { value << 32 | *pair & LOW } else { *pair & !LOW | value };
        }
    }
}

const LOW: u64 = 0xFFFF_FFFF;
