//! A bucket that counts a thing once: what was paid for lately costs nothing when it comes again.
//!
//! A continuous bucket with a memory of the last sixteen things that were paid for, each a tag: a keyed hash that the
//! caller made of an account or a password, of which 32 bits are kept. Nobody can aim at a tag without the key, so a
//! foreign thing is free by chance only, sixteen times in four thousand million. The surprising thing: a bucket that is
//! full remembers nothing, since a full bucket and an absent one are the same; what comes once in the time that a token
//! takes to come back is then paid for each time, which no bucket notices.
//!
//! Repeats may be bounded: whoever learns from the answer that something was free learns that it was tried before, and
//! a thing that is free for ever could be tried for ever. Beyond the bound a repeat costs like any other attempt, until
//! the bucket is full again.

use super::units::{Span, Time};
use super::{Continuous, Op, PlainOp, SpecError, Step, stored_time};

/// A checked bucket that counts a thing once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distinct {
    bucket: Continuous,
    repeats: Option<u32>,
}

/// What was paid for lately, the latest first, and how often something was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RecentTags {
    repeats: u32,
    /// Zero is none.
    tags: [u32; REMEMBERED],
}

impl Distinct {
    pub(super) const WORDS: usize = 2 + REMEMBERED / 2;

    /// Things that are remembered.
    pub const MAX_TAGS: usize = REMEMBERED;

    /// What is paid for is paid from `bucket`; at most so many `repeats` are free until it is full again, or any number.
    /// The bucket's debt and hold count for nothing.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(bucket: Continuous, repeats: Option<u32>) -> Result<Self, SpecError> {
        Ok(Self { bucket: bucket.with_debt(0)?.with_hold(Span::ZERO)?, repeats })
    }

    /// What is paid from.
    #[must_use]
    pub fn bucket(&self) -> Continuous {
        self.bucket
    }

    /// How many repeats are free until the bucket is full again; `None` is any number.
    #[must_use]
    pub fn repeats(&self) -> Option<u32> {
        self.repeats
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: Op) -> Step {
        let mut memory = self.load(state, now);
        let tag = match op {
            Op::TakeOnce { tag, .. } | Op::PeekOnce { tag, .. } => Some(truncate_tag(tag)),
            _ => None,
        };
        if let Some(tag) = tag
            && memory.contains_tag(tag)
            && self.repeats.is_none_or(|most| memory.repeats < most)
        {
            return self.repeat(state, now, memory, op);
        }
        let step = self.bucket.step(state, now, op.plain());
        if let (Op::TakeOnce { tokens: 1.., .. }, Some(tag)) = (op, tag)
            && step.verdict.is_admitted()
        {
            memory.push_tag(tag);
        }
        memory.write(state);
        step
    }

    /// Once more what was paid for: admitted, whatever is left.
    fn repeat(&self, state: &mut [u64], now: Time, before: RecentTags, op: Op) -> Step {
        let step = self.bucket.step(state, now, PlainOp::Give(0));
        let Op::TakeOnce { tag, .. } = op else { return step };
        let mut memory = before;
        memory.push_tag(truncate_tag(tag));
        // Where repeats are not bounded nobody has to count them.
        memory.repeats = memory.repeats.saturating_add(self.repeats.is_some().into());
        memory.write(state);
        Step { changed: memory != before, ..step }
    }

    /// What a full bucket remembers is nothing.
    fn load(&self, state: &[u64], now: Time) -> RecentTags {
        match state.first().copied().and_then(stored_time) {
            Some(full_at) if full_at > now => RecentTags::read(state),
            _ => RecentTags::default(),
        }
    }
}

impl RecentTags {
    fn read(state: &[u64]) -> Self {
        let Some(&[_, repeats, ref words @ ..]) = state.first_chunk::<{ Distinct::WORDS }>() else {
            return Self::default();
        };
        let mut memory = Self { repeats: half(repeats), ..Self::default() };
        for (pair, word) in memory.tags.chunks_exact_mut(2).zip(words) {
            pair.copy_from_slice(&[half(word >> 32), half(*word)]);
        }
        memory
    }

    fn write(&self, state: &mut [u64]) {
        let Some([_, repeats, words @ ..]) = state.first_chunk_mut::<{ Distinct::WORDS }>() else { return };
        *repeats = self.repeats.into();
        for (word, pair) in words.iter_mut().zip(self.tags.chunks_exact(2)) {
            *word = pair.iter().fold(0, |word, tag| word << 32 | u64::from(*tag));
        }
    }

    fn contains_tag(&self, tag: u32) -> bool {
        self.tags.contains(&tag)
    }

    /// To the front; what was there and behind it moves back, up to the place where the tag stood or out at the end.
    fn push_tag(&mut self, tag: u32) {
        let last = REMEMBERED.saturating_sub(1);
        let place = self.tags.iter().position(|known| *known == tag).unwrap_or(last);
        if let Some(moved) = self.tags.get_mut(..=place) {
            moved.rotate_right(1);
        }
        if let Some(first) = self.tags.first_mut() {
            *first = tag;
        }
    }
}

/// The part of a tag that is kept; never zero.
fn truncate_tag(tag: u64) -> u32 {
    half(tag >> 32 ^ tag).max(1)
}

/// The lower half.
fn half(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

const REMEMBERED: usize = 16;

#[cfg(test)]
mod tests;
