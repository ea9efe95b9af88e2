//! The state of a rolling window: the start of the current period and the counts of the periods, two or four to a word.
//!
//! Word 0 is the time at which the window is empty again, word 1 the start of the current period. Then come the tokens
//! withheld from the first period, and the counts, the newest first: a boundary moves each count on by one, so that no
//! position depends on the epoch. Counts that cannot exceed 16 bits take 16 bits, so that the usual windows fit into a
//! cache line.

use super::units::{Span, Time};

/// A view of the words of a rolling window.
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
    /// The width of counts up to `max`.
    pub(super) const fn of(max: u32) -> Self {
        if max <= 0xFFFF { Self::Short } else { Self::Long }
    }

    /// Words of a window: two times, the withheld tokens, and the counts.
    pub(super) const fn words_for(self, slots: u16) -> usize {
        (slots as usize >> self.power()).saturating_add(3)
    }

    const fn bits(self) -> u32 {
        self as u32
    }

    /// The binary logarithm of the number of values in a word.
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

    /// The distance in bits of a value from the low end of its word.
    fn shift(self, index: usize) -> u32 {
        let after = !index & self.counts_per_word().wrapping_sub(1);
        self.bits().wrapping_mul(u32::try_from(after).unwrap_or(0))
    }

    /// The sum of the counts in a word.
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
    /// A view of a window of `slots` periods; `None` if there are too few words.
    pub(super) fn new(words: &'s mut [u64], slots: u16, width: Width) -> Option<Self> {
        let (head, words) = words.get_mut(..width.words_for(slots))?.split_first_chunk_mut()?;
        let mut counts = Self { head, words, slots: slots.into(), width };
        counts.clear_padding();
        Some(counts)
    }

    /// Clears the unused end of the last word: a value there would never expire.
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

    /// Tokens that a new client does not get in its first period.
    pub(super) fn withheld(&self) -> u32 {
        self.value_at(0)
    }

    pub(super) fn set_withheld(&mut self, tokens: u32) {
        self.set_value_at(0, tokens);
    }

    /// Tokens taken `age` periods ago; 0 is the current period.
    pub(super) fn count(&self, age: usize) -> u32 {
        self.value_at(age.saturating_add(1))
    }

    pub(super) fn set_count(&mut self, age: usize, tokens: u32) {
        self.set_value_at(age.saturating_add(1), tokens);
    }

    /// All counts, the newest first.
    pub(super) fn counts(&self) -> impl Iterator<Item = u32> {
        (0..self.slots).map(|age| self.count(age))
    }

    pub(super) fn total(&self) -> u64 {
        // A thousand numbers of 32 bits do not overflow 64 bits; saturating additions would prevent vector
        // instructions.
        self.counted().fold(0, |sum, word| sum.wrapping_add(self.width.sum(word)))
    }

    /// The number of periods since tokens were last taken.
    pub(super) fn newest_age(&self) -> Option<usize> {
        let (at, word) = self.counted().enumerate().find(|(_, word)| *word > 0)?;
        let index = (at << self.width.power())
            .saturating_add((word.leading_zeros() >> 6_u32.wrapping_sub(self.width.power())) as usize);
        index.checked_sub(1)
    }

    /// The number of newest counts whose sum is at most `tokens`, at most `max`.
    pub(super) fn newest_within(&self, mut tokens: u64, max: usize) -> usize {
        let mut values = 0_usize;
        for word in self.counted() {
            let sum = self.width.sum(word);
            if sum <= tokens {
                tokens = tokens.saturating_sub(sum);
                values = values.saturating_add(self.width.counts_per_word());
                continue;
            }
            for index in 0..self.width.counts_per_word() {
                let count = word >> self.width.shift(index) & self.width.mask();
                if count > tokens {
                    return values.saturating_sub(1).min(max);
                }
                tokens = tokens.saturating_sub(count);
                values = values.saturating_add(1);
            }
        }
        values.saturating_sub(1).min(max)
    }

    /// The words of the counts, with zero in place of the withheld tokens.
    fn counted(&self) -> impl Iterator<Item = u64> {
        let first = self.words.first().map(|word| word & (u64::MAX >> self.width.bits()));
        first.into_iter().chain(self.words.iter().skip(1).copied())
    }

    /// Begins the window again, with all counts zero.
    pub(super) fn clear(&mut self, start: Time) {
        self.words.fill(0);
        self.set_start(start);
    }

    /// Moves on by `periods` periods of this length.
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

    /// Merges the current period with `periods` before it; older counts become newer by as many periods.
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

    fn value_at(&self, index: usize) -> u32 {
        let word = self.words.get(index >> self.width.power()).copied().unwrap_or(0);
        u32::try_from(word >> self.width.shift(index) & self.width.mask()).unwrap_or(u32::MAX)
    }

    /// Stores a value; one that is too large for its width saturates.
    fn set_value_at(&mut self, index: usize, value: u32) {
        let (shift, mask) = (self.width.shift(index), self.width.mask());
        if let Some(word) = self.words.get_mut(index >> self.width.power()) {
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

    /// Periods of ten nanoseconds; the current one began at 100 and has the first count.
    fn window<'s>(words: &'s mut [u64; 9], counts: &[u32], width: Width) -> PeriodCounts<'s> {
        let mut window = PeriodCounts::new(words, counts.len().try_into().unwrap(), width).unwrap();
        window.clear(Time::from_nanos(100));
        for (age, count) in counts.iter().enumerate() {
            window.set_count(age, *count);
        }
        window
    }

    fn counts(window: &PeriodCounts<'_>) -> Vec<u32> {
        window.counts().collect()
    }

    #[test]
    fn a_border_moves_all_counts_on_and_gives_what_was_withheld() {
        for width in WIDTHS {
            let mut words = [0; 9];
            let mut window = window(&mut words, &[1, 2, 3, 4], width);
            window.set_withheld(9);
            assert_eq!((window.total(), window.withheld()), (10, 9));
            window.advance(1, Span::from_nanos(10));
            assert_eq!(
                (counts(&window), window.withheld(), window.start()),
                (vec![0, 1, 2, 3], 0, Time::from_nanos(110))
            );
            assert_eq!((window.total(), window.newest_age()), (6, Some(1)));
            window.advance(u64::MAX, Span::from_nanos(10));
            assert_eq!((counts(&window), window.newest_age()), (vec![0; 4], None));
        }
    }

    #[test]
    fn any_number_of_borders_moves_any_number_of_counts_on() {
        for (width, slots, by) in WIDTHS.iter().flat_map(|width| {
            (1..=12_usize).flat_map(move |slots| (0..=13_usize).map(move |by| (*width, slots, by)))
        }) {
            let before: Vec<u32> = (1..).take(slots).map(|count| 0xFFFF - count).collect();
            let mut words = [0; 9];
            let mut window = window(&mut words, &before, width);
            window.advance(by as u64, Span::from_nanos(10));
            let after: Vec<u32> = std::iter::repeat_n(0, by).chain(before).take(slots).collect();
            assert_eq!(
                (counts(&window), window.withheld()),
                (after.clone(), 0),
                "{width:?}, {slots} by {by}"
            );
            assert_eq!(window.total(), after.iter().map(|count| u64::from(*count)).sum::<u64>());
        }
    }

    #[test]
    fn periods_made_one_lose_nothing() {
        for width in WIDTHS {
            let mut words = [0; 9];
            let mut window = window(&mut words, &[1, 2, 3, 4], width);
            window.merge(2);
            assert_eq!(counts(&window), [6, 4, 0, 0]);
            window.merge(u64::MAX);
            assert_eq!(counts(&window), [10, 0, 0, 0]);
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
