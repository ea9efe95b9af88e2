//! A bucket that charges a thing once: a repeat of a recently charged thing is free.
//!
//! It is a continuous bucket that remembers the last sixteen charged things by tags: the caller passes a keyed hash of
//! an account or a password, and 32 bits of it are kept. Without the key an attacker cannot aim at a tag, so another
//! thing is free by chance only: sixteen times in 2^32. A full bucket remembers nothing, since it equals an absent one;
//! a thing that comes less often than a token refills is then charged each time, which costs the bucket nothing in the
//! long run.
//!
//! Repeats may be bounded: a client that sees that an attempt was free learns that the thing was tried before, and a
//! thing that is free for ever could be tried for ever. Beyond the bound a repeat is charged like any other attempt,
//! until the bucket is full again.

use super::units::{Span, Time};
use super::{Continuous, Op, PlainOp, SpecError, Step, stored_time};

/// A validated bucket that charges a thing once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distinct {
    bucket: Continuous,
    repeats: Option<u32>,
}

/// The tags charged recently, the latest first, and the number of free repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RecentTags {
    repeats: u32,
    /// Zero is an empty entry.
    tags: [u32; REMEMBERED],
}

impl Distinct {
    pub(super) const WORDS: usize = 2 + REMEMBERED / 2;

    /// The number of tags that are remembered.
    pub const MAX_TAGS: usize = REMEMBERED;

    /// Charges `bucket`; at most `repeats` repeats are free until it is full again, or any number with `None`. The
    /// bucket's debt and hold are ignored.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(bucket: Continuous, repeats: Option<u32>) -> Result<Self, SpecError> {
        Ok(Self { bucket: bucket.with_debt(0)?.with_hold(Span::ZERO)?, repeats })
    }

    /// The bucket that is charged.
    #[must_use]
    pub fn bucket(&self) -> Continuous {
        self.bucket
    }

    /// The number of free repeats until the bucket is full again; `None` is any number.
    #[must_use]
    pub fn repeats(&self) -> Option<u32> {
        self.repeats
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: Op) -> Step {
        let mut recent = self.load(state, now);
        let tag = match op {
            Op::TakeOnce { tag, .. } | Op::PeekOnce { tag, .. } => Some(truncate_tag(tag)),
            _ => None,
        };
        if let Some(tag) = tag
            && recent.contains_tag(tag)
            && self.repeats.is_none_or(|max| recent.repeats < max)
        {
            return self.repeat(state, now, recent, op);
        }
        let step = self.bucket.step(state, now, op.plain());
        if let (Op::TakeOnce { tokens: 1.., .. }, Some(tag)) = (op, tag)
            && step.verdict.is_admitted()
        {
            recent.push_tag(tag);
        }
        recent.write(state);
        step
    }

    /// A free repeat: admitted, whatever is left.
    fn repeat(&self, state: &mut [u64], now: Time, before: RecentTags, op: Op) -> Step {
        let step = self.bucket.step(state, now, PlainOp::Give(0));
        let Op::TakeOnce { tag, .. } = op else { return step };
        let mut recent = before;
        recent.push_tag(truncate_tag(tag));
        // Unbounded repeats are not counted: that saves a write.
        recent.repeats = recent.repeats.saturating_add(self.repeats.is_some().into());
        recent.write(state);
        Step { changed: recent != before, ..step }
    }

    /// The recent tags; none if the bucket is full.
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
        let mut recent = Self { repeats: half(repeats), ..Self::default() };
        for (pair, word) in recent.tags.chunks_exact_mut(2).zip(words) {
            pair.copy_from_slice(&[half(word >> 32), half(*word)]);
        }
        recent
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

    /// Moves the tag to the front; the last tag drops out if the tag is new.
    fn push_tag(&mut self, tag: u32) {
        let last = REMEMBERED.saturating_sub(1);
        let index = self.tags.iter().position(|known| *known == tag).unwrap_or(last);
        if let Some(moved) = self.tags.get_mut(..=index) {
            moved.rotate_right(1);
        }
        if let Some(first) = self.tags.first_mut() {
            *first = tag;
        }
    }
}

/// The 32 bits of a tag that are kept; never zero.
pub(super) fn truncate_tag(tag: u64) -> u32 {
    half(tag >> 32 ^ tag).max(1)
}

/// The lower half.
fn half(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

const REMEMBERED: usize = 16;

#[cfg(test)]
mod tests;
