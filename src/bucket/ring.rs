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
        let mut ring = Self { head, pairs: pairs.get_mut(..=slots / 2)?, slots };
        ring.forget_the_half_beyond();
        Some(ring)
    }

    /// With an even number of counts the last half belongs to nothing: whatever stands there would never be forgotten.
    fn forget_the_half_beyond(&mut self) {
        if self.slots.is_multiple_of(2) {
            self.set_half(self.slots.saturating_add(1), 0);
        }
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
        let halves = self.pairs.iter().flat_map(|pair| [pair >> 32, pair & LOW]);
        halves.skip(1).take(self.slots).map(|half| u32::try_from(half).unwrap_or(u32::MAX))
    }

    pub(super) fn total(&self) -> u64 {
        // A thousand numbers of 32 bits do not wrap 64; additions that saturate would be made one after the other.
        let sum = |sum: u64, pair: &u64| sum.wrapping_add(pair >> 32).wrapping_add(pair & LOW);
        self.pairs.iter().fold(0, sum).wrapping_sub(self.withheld().into())
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
        let by = usize::try_from(periods).unwrap_or(self.slots).min(self.slots);
        self.set_withheld(0);
        let (words, is_odd) = (by / 2, !by.is_multiple_of(2));
        let last = self.pairs.len();
        self.pairs.copy_within(..last.saturating_sub(words), words);
        self.pairs.iter_mut().take(words).for_each(|pair| *pair = 0);
        if is_odd {
            self.pairs.iter_mut().fold(0, |before, pair| (*pair << 32, *pair = before | *pair >> 32).0);
        }
        self.forget_the_half_beyond();
        self.set_start(self.start().after(length.times(periods)));
    }

    /// Makes one of the period that is on and so many before it. What was counted before them is that much younger.
    pub(super) fn merge(&mut self, periods: u64) {
        let by = usize::try_from(periods).unwrap_or(usize::MAX).min(self.slots.saturating_sub(1));
        let merged = (0..=by).map(|age| self.count(age)).fold(0, u32::saturating_add);
        for age in 0..self.slots {
            let from = age.saturating_add(by);
            let count = if from < self.slots { self.count(from) } else { 0 };
            self.set_count(age, count);
        }
        self.set_count(0, merged);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Four periods of ten nanoseconds; the one that is on began at 100 and has the first count.
    fn ring(words: &mut [u64; 5], counts: [u32; 4]) -> Ring<'_> {
        let mut ring = Ring::new(words, 4).unwrap();
        ring.clear(Time::from_nanos(100));
        for (age, count) in counts.into_iter().enumerate() {
            ring.set_count(age, count);
        }
        ring
    }

    fn counts(ring: &Ring<'_>) -> Vec<u32> {
        ring.counts().collect()
    }

    #[test]
    fn a_border_moves_all_counts_on_and_gives_what_was_withheld() {
        let mut words = [0; 5];
        let mut ring = ring(&mut words, [1, 2, 3, 4]);
        ring.set_withheld(9);
        assert_eq!((ring.total(), ring.withheld()), (10, 9));
        ring.advance(1, Span::from_nanos(10));
        assert_eq!(
            (counts(&ring), ring.withheld(), ring.start()),
            (vec![0, 1, 2, 3], 0, Time::from_nanos(110))
        );
        assert_eq!((ring.total(), ring.youngest()), (6, Some(1)));
        ring.advance(u64::MAX, Span::from_nanos(10));
        assert_eq!((counts(&ring), ring.youngest()), (vec![0; 4], None));
    }

    #[test]
    fn periods_made_one_lose_nothing() {
        let mut words = [0; 5];
        let mut ring = ring(&mut words, [1, 2, 3, 4]);
        ring.merge(2);
        assert_eq!(counts(&ring), [6, 4, 0, 0]);
        ring.merge(u64::MAX);
        assert_eq!(counts(&ring), [10, 0, 0, 0]);
    }

    #[test]
    fn too_few_words_are_no_ring() {
        assert!(Ring::new(&mut [0; 4], 4).is_none());
        assert!(Ring::new(&mut [0; 3], 1).is_some());
    }
}
