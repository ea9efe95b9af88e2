//! Tokens of one bucket that this gate has taken in advance, and hands out without asking.
//!
//! Tokens are bound to time: those taken in advance are still missing in a bucket that is full again, and both together
//! would be more than it holds. So they lapse as those of a [`Receipt`] do: they come back first, whatever else is missing
//! in the bucket, because other gates may refund all of that meanwhile. Nothing is asked here; that is left to
//! [`leases`](super::leases).

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
    taken: Receipt,
    left: u32,
}

impl Slice {
    /// What an admitted attempt has taken.
    pub(super) fn new(per_token: Span, taken: Receipt) -> Self {
        Self { per_token, taken, left: taken.tokens }
    }

    /// How many tokens may be handed out from now on.
    fn worth(&self, now: Time) -> u32 {
        let due = self.taken.full_at.since(now.after(CLOCK_LAG)).as_nanos();
        let due = due.checked_div(self.per_token.as_nanos()).unwrap_or(0);
        self.left.min(u32::try_from(due).unwrap_or(u32::MAX))
    }
}

impl Lease {
    /// Takes tokens for an attempt.
    pub(super) fn take(&mut self, tokens: u32, now: Time) -> Option<Receipt> {
        self.wanted = self.wanted.saturating_add(tokens);
        self.lapse(now);
        if self.left(now) < tokens {
            return None;
        }
        let (mut missing, mut until) = (tokens, now);
        for slice in &mut self.slices {
            let part = slice.left.min(missing);
            slice.left -= part;
            missing -= part;
            until = now.after(slice.per_token.times(tokens.into())).min(slice.taken.full_at);
            if missing == 0 {
                break;
            }
        }
        Some(Receipt { tokens, full_at: until })
    }

    /// Takes back what an attempt was given, as far as it is still worth something; `false` if that was not given here.
    pub(super) fn put_back(&mut self, receipt: Receipt, now: Time) -> bool {
        self.lapse(now);
        let has_given = |slice: &&mut Slice| slice.taken.tokens - slice.left >= receipt.tokens;
        let Some(slice) = self.slices.iter_mut().rev().find(has_given) else { return false };
        slice.left += receipt.tokens;
        slice.left = slice.worth(now);
        true
    }

    pub(super) fn add(&mut self, slice: Slice) {
        self.slices.push_back(slice);
    }

    /// Tokens that may be handed out now.
    pub(super) fn left(&self, now: Time) -> u32 {
        self.slices.iter().fold(0, |sum, slice| sum.saturating_add(slice.worth(now)))
    }

    /// Drops what the bucket does not lack, the oldest tokens first. All that attempts and leases have taken is missing in
    /// the bucket until time returns it; if less is missing, an operator has given it back.
    pub(super) fn trim(&mut self, full_at: Time, now: Time) {
        let mut missing = full_at.since(now);
        for slice in self.slices.iter_mut().rev() {
            let most = missing.as_nanos().checked_div(slice.per_token.as_nanos()).unwrap_or(0);
            slice.left = slice.worth(now).min(u32::try_from(most).unwrap_or(u32::MAX));
            missing = missing.minus(slice.per_token.times(slice.left.into()));
        }
    }

    /// Tokens that were wanted since the last call.
    pub(super) fn take_wanted(&mut self) -> u32 {
        std::mem::take(&mut self.wanted)
    }

    /// What is given back to the bucket.
    pub(super) fn into_receipts(self) -> impl Iterator<Item = Receipt> {
        self.slices
            .into_iter()
            .filter(|slice| slice.left > 0)
            .map(|slice| Receipt { tokens: slice.left, full_at: slice.taken.full_at })
    }

    /// Drops what time has returned.
    fn lapse(&mut self, now: Time) {
        self.slices.iter_mut().for_each(|slice| slice.left = slice.worth(now));
        self.slices.retain(|slice| now < slice.taken.full_at);
    }
}

/// A gate takes itself to be late rather than early, by a round trip at most. Here early is the strict side.
const CLOCK_LAG: Span = Span::from_millis(10);

#[cfg(test)]
mod tests;
