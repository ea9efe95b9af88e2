//! Tokens of one bucket that this gate has taken in advance, and hands out without asking.
//!
//! Tokens are bound to time: those taken in advance are still missing in a bucket that is full again, and together they
//! would be more than it holds. So a slice is worth what its tokens could be worth in the bucket, by two rules that hold
//! for all gates at once:
//!
//! - Shortly after it was taken, its tokens come back first, as those of a [`Receipt`] do: what is refunded meanwhile was
//!   taken shortly before, and does not make it worth less.
//! - Later no refund reaches back to it, and the bucket is not full before the time that its own take has left there.
//!
//! Nothing is asked here; that is left to [`leases`](super::leases).

use std::collections::VecDeque;

use tollgate_bucket::{Receipt, Span, Time};

/// The tokens of one bucket.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// The oldest first.
    slices: VecDeque<Slice>,
    /// Tokens that were wanted since the last look.
    wanted: u32,
}

/// Tokens that were taken at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    per_token: Span,
    taken: u32,
    taken_at: Time,
    /// When the bucket is full if no more tokens are taken.
    full_at: Time,
    left: u32,
}

impl Slice {
    /// What an admitted attempt has taken.
    pub(super) fn new(per_token: Span, receipt: Receipt, full_at: Time) -> Self {
        let taken_at = receipt.full_at.before(per_token.times(receipt.tokens.into()));
        Self { per_token, taken: receipt.tokens, taken_at, full_at, left: receipt.tokens }
    }

    /// How many tokens may be handed out now.
    fn worth(&self, now: Time) -> u32 {
        let until = if self.is_young(now) {
            self.taken_at.after(self.per_token.times(self.taken.into()))
        } else {
            self.full_at
        };
        let due =
            until.since(now.after(CLOCK_LAG)).as_nanos().checked_div(self.per_token.as_nanos()).unwrap_or(0);
        self.left.min(u32::try_from(due).unwrap_or(u32::MAX))
    }

    /// Whether earlier attempts may still be refunded.
    fn is_young(&self, now: Time) -> bool {
        now < self.grown_at()
    }

    fn grown_at(&self) -> Time {
        self.taken_at.after(self.per_token.times(LARGEST_REFUND.into()))
    }
}

impl Lease {
    /// Takes tokens for an attempt. The receipt is worth nothing once a refund would reach back beyond younger slices.
    pub(super) fn take(&mut self, tokens: u32, now: Time) -> Option<Receipt> {
        self.wanted = self.wanted.saturating_add(tokens);
        self.slices.retain(|slice| slice.worth(now) > 0);
        let worth = |slice: &Slice| u64::from(slice.worth(now));
        if self.slices.iter().map(worth).sum::<u64>() < u64::from(tokens) {
            return None;
        }
        let (mut missing, mut until) = (tokens, now);
        for slice in &mut self.slices {
            let part = slice.worth(now).min(missing);
            slice.left -= part;
            missing -= part;
            until = now.after(slice.per_token.times(tokens.into())).min(slice.grown_at());
            if missing == 0 {
                break;
            }
        }
        Some(Receipt { tokens, full_at: until })
    }

    /// Takes back what an attempt was given; `false` if there is no room for it.
    pub(super) fn put_back(&mut self, receipt: Receipt, now: Time) -> bool {
        let has_room = |slice: &&mut Slice| slice.taken - slice.left >= receipt.tokens;
        let slice = self.slices.iter_mut().rev().find(has_room).filter(|_| now < receipt.full_at);
        slice.map(|slice| slice.left += receipt.tokens).is_some()
    }

    pub(super) fn add(&mut self, slice: Slice) {
        self.slices.push_back(slice);
    }

    /// Tokens that may be handed out now.
    pub(super) fn left(&self, now: Time) -> u32 {
        self.slices.iter().fold(0, |sum, slice| sum.saturating_add(slice.worth(now)))
    }

    /// Tokens that were wanted since the last call.
    pub(super) fn take_wanted(&mut self) -> u32 {
        std::mem::take(&mut self.wanted)
    }

    /// What can be given back to the bucket: tokens of slices whose refund reaches back to no other.
    pub(super) fn into_receipts(self, now: Time) -> impl Iterator<Item = Receipt> {
        let is_young = move |slice: &Slice| slice.is_young(now) && slice.left > 0;
        self.slices.into_iter().filter(is_young).map(|slice| {
            let full_at = slice.taken_at.after(slice.per_token.times(slice.taken.into()));
            Receipt { tokens: slice.left, full_at: full_at.min(slice.grown_at()) }
        })
    }
}

/// A gate takes itself to be late rather than early, by a round trip at most. Here early is the strict side.
const CLOCK_LAG: Span = Span::from_millis(10);
/// The tokens of the largest attempt whose refund is counted on.
const LARGEST_REFUND: u32 = 16;

#[cfg(test)]
mod tests;
