//! A set of things that were seen lately: the last sixteen, each for a time.
//!
//! It has no tokens. The caller passes a keyed hash of each thing, of which 32 bits are kept. Seeing a seventeenth makes
//! the one that was not seen for the longest time yields. The time of each is kept in minutes, so a thing is
//! remembered for up to a minute less than the time says.

use core::cmp::Reverse;

use super::distinct::truncate_tag;
use super::units::{Span, Time};
use super::{Admission, Op, Receipt, SpecError, Step, Verdict};

/// A validated set of things that were seen lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recent {
    ttl: Span,
}

/// The tags that were seen, the latest first: the tag in the upper half, and the minute in the lower. Zero is an empty
/// entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SeenTags([u64; Recent::MAX_TAGS]);

impl Recent {
    pub(super) const WORDS: usize = 1 + Self::MAX_TAGS;

    /// The number of things that are remembered.
    pub const MAX_TAGS: usize = 16;

    /// The shortest time for which a thing is remembered: half of it may be lost by whole minutes.
    pub const MIN_TTL: Span = Span::from_secs(120);

    /// Remembers each thing for `ttl`.
    ///
    /// # Errors
    /// [`SpecError::Zero`] below [`Recent::MIN_TTL`], [`SpecError::TooLong`] beyond 73 years.
    pub fn new(ttl: Span) -> Result<Self, SpecError> {
        match ttl {
            _ if ttl < Self::MIN_TTL => Err(SpecError::Zero),
            _ if ttl > super::MAX_SPAN => Err(SpecError::TooLong),
            _ => Ok(Self { ttl }),
        }
    }

    /// How long a thing is remembered after it was seen.
    #[must_use]
    pub fn ttl(&self) -> Span {
        self.ttl
    }

    /// [`Op::TakeOnce`] remembers a thing, [`Op::PeekOnce`] is admitted if it is remembered, and any [`Op::Give`] forgets
    /// all. Other operations change nothing.
    pub(super) fn step(&self, state: &mut [u64], now: Time, op: Op) -> Step {
        let before = self.load(state, now);
        let mut seen = before;
        let admission = match op {
            Op::PeekOnce { tag, .. } if !before.contains(truncate_tag(tag)) => Admission::NeverFits,
            Op::TakeOnce { tag, .. } => {
                seen.push(truncate_tag(tag), now);
                Admission::Admitted
            }
            Op::Give(1..) => {
                seen = SeenTags::default();
                Admission::Admitted
            }
            _ => Admission::Admitted,
        };
        let full_at = self.write(&seen, state, now);
        let verdict = Verdict {
            admission,
            left: seen.free(),
            next_token: Span::ZERO,
            full_at,
            receipt: Receipt::default(),
        };
        Step { changed: seen != before, verdict }
    }

    /// Adds what another state has seen; the latest sixteen stay. Returns whether that changed the state.
    pub(super) fn join(&self, state: &mut [u64], other: &[u64], now: Time) -> bool {
        let (before, there) = (self.load(state, now), self.load(other, now));
        let mut both = [0; 2 * Self::MAX_TAGS];
        for (word, entry) in both.iter_mut().zip(before.0.into_iter().chain(there.0)) {
            *word = entry;
        }
        // The latest first, and of one tag the latest alone.
        both.sort_unstable_by_key(|entry| Reverse((minute_of(*entry), *entry)));
        let mut seen = SeenTags::default();
        let mut free = seen.0.iter_mut();
        for (at, entry) in both.iter().enumerate().filter(|(_, entry)| **entry != 0) {
            let is_first = !both.iter().take(at).any(|known| tag_of(*known) == tag_of(*entry));
            if let Some(word) = is_first.then(|| free.next()).flatten() {
                *word = *entry;
            }
        }
        self.write(&seen, state, now);
        let is_new = |entry: &u64| *entry != 0 && !before.0.contains(entry);
        seen.0.iter().any(is_new)
    }

    /// Takes over what a state of another time to live has seen.
    pub(super) fn take_over(&self, from: &[u64], state: &mut [u64], now: Time) {
        self.write(&self.load(from, now), state, now);
    }

    /// What is still remembered.
    fn load(&self, state: &[u64], now: Time) -> SeenTags {
        let mut seen = SeenTags::default();
        let words = state.iter().skip(1).filter(|word| **word != 0 && self.end_of(**word) > now);
        for (entry, word) in seen.0.iter_mut().zip(words) {
            *entry = *word;
        }
        seen
    }

    /// Writes the set, and returns when all of it will be forgotten.
    fn write(&self, seen: &SeenTags, state: &mut [u64], now: Time) -> Time {
        let ends = seen.0.iter().filter(|entry| **entry != 0).map(|entry| self.end_of(*entry));
        let full_at = ends.max().unwrap_or(now);
        if let Some((first, words)) = state.split_first_mut() {
            *first = full_at.as_nanos();
            for (word, entry) in words.iter_mut().zip(seen.0) {
                *word = entry;
            }
        }
        full_at
    }

    fn end_of(&self, entry: u64) -> Time {
        Time::from_nanos(minute_of(entry).saturating_mul(MINUTE)).after(self.ttl)
    }
}

impl SeenTags {
    fn contains(&self, tag: u32) -> bool {
        self.0.iter().any(|entry| *entry != 0 && tag_of(*entry) == u64::from(tag))
    }

    fn free(&self) -> u32 {
        self.0.iter().fold(0, |free: u32, entry| free.saturating_add((*entry == 0).into()))
    }

    /// Sees a thing now.
    fn push(&mut self, tag: u32, now: Time) {
        let minute = now.as_nanos().checked_div(MINUTE).unwrap_or(0).min(u64::from(u32::MAX));
        self.insert(u64::from(tag) << 32 | minute);
    }

    /// Moves the entry to the front; the last drops out if its tag is new.
    fn insert(&mut self, entry: u64) {
        let last = Recent::MAX_TAGS.saturating_sub(1);
        let is_same = |known: &u64| *known != 0 && tag_of(*known) == tag_of(entry);
        let index = self.0.iter().position(is_same).unwrap_or(last);
        if let Some(moved) = self.0.get_mut(..=index) {
            moved.rotate_right(1);
        }
        if let Some(first) = self.0.first_mut() {
            *first = entry;
        }
    }
}

fn tag_of(entry: u64) -> u64 {
    entry >> 32
}

fn minute_of(entry: u64) -> u64 {
    entry & u64::from(u32::MAX)
}

/// Nanoseconds.
const MINUTE: u64 = 60_000_000_000;

#[cfg(test)]
mod tests;
