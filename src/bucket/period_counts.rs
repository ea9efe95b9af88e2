//! The state of a rolling window: when its period began, and the counts of its periods, two or four to a word.
//!
//! Word 0 is the time at which the window is empty again, word 1 the beginning of the period that is on. Then come
//! what was withheld from the first period, and the counts, the youngest first: a border moves them on by one place,
//! so that no place depends on where 1970 was. The surprising thing: counts that cannot grow beyond 16 bits have no more,
//! so that the usual windows fit into a cache line.

use super::units::{Span, Time};

/// A view of a rolling window's words.
pub(super) struct PeriodCounts<'s> {
    head: &'s mut [u64; 2],
    words: &'s mut [u64],
    slots: usize,
    width: Width,
}

/// Bits of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Short = 16,
    Long = 32,
}

impl Width {
    /// What counts up to so many need.
    pub(super) const fn of(most: u32) -> Self {
        if most <= 0xFFFF { Self::Short } else { Self::Long }
    }

    /// Words of a window: two times, what was withheld, and the counts.
    pub(super) const fn words_for(self, slots: u16) -> usize {
        (slots as usize >> self.power()).saturating_add(3)
    }

    const fn bits(self) -> u32 {
        self as u32
    }

    /// The power of two that is the number of places in a word.
    const fn power(self) -> u32 {
        match self {
            Self::Short => 2,
            Self::Long => 1,
        }
    }

    const fn counts_per_word(self) -> usize {
        1 << self.power()
    }

    const fn mask(self) -> u64 {
        match self {
            Self::Short => 0xFFFF,
            Self::Long => LOW,
        }
    }

    /// How far the place of this number is from the low end of its word.
    fn shift(self, place: usize) -> u32 {
        let after = !place & self.counts_per_word().wrapping_sub(1);
        self.bits().wrapping_mul(u32::try_from(after).unwrap_or(0))
    }

    /// All counts of a word together.
    const fn sum(self, word: u64) -> u64 {
        match self {
            Self::Short => {
                let two = (word >> 16 & EVERY_OTHER).wrapping_add(word & EVERY_OTHER);
                (two >> 32).wrapping_add(two & LOW)
            }
            Self::Long => (word >> 32).wrapping_add(word & LOW),
        }
    }
}

impl<'s> PeriodCounts<'s> {
    /// The words of a window of so many periods; `None` if there are fewer.
    pub(super) fn new(words: &'s mut [u64], slots: u16, width: Width) -> Option<Self> {
        let (head, words) = words.get_mut(..width.words_for(slots))?.split_first_chunk_mut()?;
        let mut ring = Self { head, words, slots: slots.into(), width };
        ring.clear_padding();
        Some(ring)
    }

    /// The last places of the last word belong to nothing: whatever stood there would never be forgotten.
    fn clear_padding(&mut self) {
        let beyond = self.width.shift(self.slots);
        if let Some(last) = self.words.last_mut() {
            *last = *last >> beyond << beyond;
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
        self.value_at(0)
    }

    pub(super) fn set_withheld(&mut self, tokens: u32) {
        self.set_value_at(0, tokens);
    }

    /// Tokens taken so many periods ago; 0 is the one that is on.
    pub(super) fn count(&self, age: usize) -> u32 {
        self.value_at(age.saturating_add(1))
    }

    pub(super) fn set_count(&mut self, age: usize, tokens: u32) {
        self.set_value_at(age.saturating_add(1), tokens);
    }

    /// All counts, the youngest first.
    pub(super) fn counts(&self) -> impl Iterator<Item = u32> {
        (0..self.slots).map(|age| self.count(age))
    }

    pub(super) fn total(&self) -> u64 {
        // A thousand numbers of 32 bits do not wrap 64; additions that saturate would be made one after the other.
        self.counted().fold(0, |sum, word| sum.wrapping_add(self.width.sum(word)))
    }

    /// How many periods ago something was last taken.
    pub(super) fn newest_age(&self) -> Option<usize> {
        let (at, word) = self.counted().enumerate().find(|(_, word)| *word > 0)?;
        let place = (at << self.width.power())
            .saturating_add((word.leading_zeros() >> 6_u32.wrapping_sub(self.width.power())) as usize);
        place.checked_sub(1)
    }

    /// How many of the youngest counts add up to no more than `room`, at most `most`.
    pub(super) fn newest_within(&self, mut room: u64, most: usize) -> usize {
        let mut places = 0_usize;
        for word in self.counted() {
            let sum = self.width.sum(word);
            if sum <= room {
                room = room.saturating_sub(sum);
                places = places.saturating_add(self.width.counts_per_word());
                continue;
            }
            for place in 0..self.width.counts_per_word() {
                let count = word >> self.width.shift(place) & self.width.mask();
                if count > room {
                    return places.saturating_sub(1).min(most);
                }
                room = room.saturating_sub(count);
                places = places.saturating_add(1);
            }
        }
        places.saturating_sub(1).min(most)
    }

    /// The words of the counts, with nothing in the place of what was withheld.
    fn counted(&self) -> impl Iterator<Item = u64> {
        let first = self.words.first().map(|word| word & (u64::MAX >> self.width.bits()));
        first.into_iter().chain(self.words.iter().skip(1).copied())
    }

    /// Begins the window anew: nothing is counted.
    pub(super) fn clear(&mut self, start: Time) {
        self.words.fill(0);
        self.set_start(start);
    }

    /// Moves on by so many periods of this length.
    pub(super) fn advance(&mut self, periods: u64, length: Span) {
        let by = usize::try_from(periods).unwrap_or(self.slots).min(self.slots);
        self.set_withheld(0);
        let (words, rest) = (by >> self.width.power(), by & self.width.counts_per_word().wrapping_sub(1));
        self.words.copy_within(..self.words.len().saturating_sub(words), words);
        self.words.iter_mut().take(words).for_each(|word| *word = 0);
        if rest > 0 {
            let left = self.width.shift(rest.saturating_sub(1));
            let right = u64::BITS.saturating_sub(left);
            self.words.iter_mut().fold(0, |before, word| (*word << left, *word = before | *word >> right).0);
        }
        self.clear_padding();
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

    fn value_at(&self, place: usize) -> u32 {
        let word = self.words.get(place >> self.width.power()).copied().unwrap_or(0);
        u32::try_from(word >> self.width.shift(place) & self.width.mask()).unwrap_or(u32::MAX)
    }

    /// A number that is too large for its place is as large as can be.
    fn set_value_at(&mut self, place: usize, value: u32) {
        let (shift, mask) = (self.width.shift(place), self.width.mask());
        if let Some(word) = self.words.get_mut(place >> self.width.power()) {
            *word = *word & !(mask << shift) | u64::from(value).min(mask) << shift;
        }
    }
}

const LOW: u64 = 0xFFFF_FFFF;
const EVERY_OTHER: u64 = 0x0000_FFFF_0000_FFFF;

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [Width; 2] = [Width::Short, Width::Long];

    /// Periods of ten nanoseconds; the one that is on began at 100 and has the first count.
    fn ring<'s>(words: &'s mut [u64; 9], counts: &[u32], width: Width) -> PeriodCounts<'s> {
        let mut ring = PeriodCounts::new(words, counts.len().try_into().unwrap(), width).unwrap();
        ring.clear(Time::from_nanos(100));
        for (age, count) in counts.iter().enumerate() {
            ring.set_count(age, *count);
        }
        ring
    }

    fn counts(ring: &PeriodCounts<'_>) -> Vec<u32> {
        ring.counts().collect()
    }

    #[test]
    fn a_border_moves_all_counts_on_and_gives_what_was_withheld() {
        for width in WIDTHS {
            let mut words = [0; 9];
            let mut ring = ring(&mut words, &[1, 2, 3, 4], width);
            ring.set_withheld(9);
            assert_eq!((ring.total(), ring.withheld()), (10, 9));
            ring.advance(1, Span::from_nanos(10));
            assert_eq!(
                (counts(&ring), ring.withheld(), ring.start()),
                (vec![0, 1, 2, 3], 0, Time::from_nanos(110))
            );
            assert_eq!((ring.total(), ring.newest_age()), (6, Some(1)));
            ring.advance(u64::MAX, Span::from_nanos(10));
            assert_eq!((counts(&ring), ring.newest_age()), (vec![0; 4], None));
        }
    }

    #[test]
    fn any_number_of_borders_moves_any_number_of_counts_on() {
        for (width, slots, by) in WIDTHS.iter().flat_map(|width| {
            (1..=12_usize).flat_map(move |slots| (0..=13_usize).map(move |by| (*width, slots, by)))
        }) {
            let before: Vec<u32> = (1..).take(slots).map(|count| 0xFFFF - count).collect();
            let mut words = [0; 9];
            let mut ring = ring(&mut words, &before, width);
            ring.advance(by as u64, Span::from_nanos(10));
            let after: Vec<u32> = std::iter::repeat_n(0, by).chain(before).take(slots).collect();
            assert_eq!((counts(&ring), ring.withheld()), (after.clone(), 0), "{width:?}, {slots} by {by}");
            assert_eq!(ring.total(), after.iter().map(|count| u64::from(*count)).sum::<u64>());
        }
    }

    #[test]
    fn periods_made_one_lose_nothing() {
        for width in WIDTHS {
            let mut words = [0; 9];
            let mut ring = ring(&mut words, &[1, 2, 3, 4], width);
            ring.merge(2);
            assert_eq!(counts(&ring), [6, 4, 0, 0]);
            ring.merge(u64::MAX);
            assert_eq!(counts(&ring), [10, 0, 0, 0]);
        }
    }

    #[test]
    fn too_few_words_are_no_ring() {
        assert!(PeriodCounts::new(&mut [0; 4], 4, Width::Long).is_none());
        assert!(PeriodCounts::new(&mut [0; 3], 1, Width::Long).is_some());
        assert!(PeriodCounts::new(&mut [0; 3], 4, Width::Short).is_none());
        assert!(PeriodCounts::new(&mut [0; 3], 3, Width::Short).is_some());
    }

    #[test]
    fn a_count_is_as_wide_as_it_may_grow() {
        assert_eq!((Width::of(65_535), Width::of(65_536)), (Width::Short, Width::Long));
        assert_eq!((Width::Short.words_for(24), Width::Long.words_for(24)), (9, 15));
    }
}
