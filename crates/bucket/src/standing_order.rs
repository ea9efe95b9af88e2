//! What an operator ordered for one bucket until a time: that it refuses everything, or nothing.
//!
//! Both are kept as a rate of the bucket's own, so that every gate reads them. That rate alone would not do: an attempt from
//! before the ban that gives its tokens back would shorten it. So no attempt changes the state while an order is in force.
//! The bytes are left to [`record`](super::record).

use super::units::{Span, Time};
use super::{Admission, Continuous, Op, PlainOp, Receipt, Step, Verdict};

/// An order for one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandingOrder {
    /// Refuse everything until then.
    Ban(Time),
    /// Admit everything until then, with so many tokens in the bucket.
    Exempt(Time, u32),
}

impl StandingOrder {
    /// The order that the bucket's own rate represents, if it does.
    pub(super) fn of(rate: Continuous, until: Time, state: &[u64]) -> Option<Self> {
        // Gates of earlier versions wrote bans with a full start balance: their only token comes with the end of the rate.
        let is_unmarked = || rate.burst() == 1 && state.first() == Some(&until.as_nanos());
        let is_ban = || is_ban(rate) || is_unmarked();
        if is_exemption(rate) {
            Some(Self::Exempt(until, rate.burst()))
        } else {
            is_ban().then_some(Self::Ban(until))
        }
    }

    pub(super) fn is_in_force(self, now: Time) -> bool {
        let (Self::Ban(until) | Self::Exempt(until, _)) = self;
        until > now
    }

    /// The verdict on an operation. Nothing changes, but that a ban which a gate of an earlier version shortened has its
    /// whole length again.
    pub(super) fn step(self, state: &mut [u64], now: Time, op: Op) -> Step {
        let full_at = match self {
            Self::Ban(until) => until,
            Self::Exempt(..) => now,
        };
        let before = state.first().copied();
        let is_attempt = matches!(op, Op::Take(_) | Op::TakeOnce { .. });
        if let (Self::Ban(until), Some(word)) = (self, state.first_mut()) {
            *word = until.as_nanos();
        }
        Step {
            changed: is_attempt && before != state.first().copied(),
            verdict: Verdict {
                admission: self.admission(now, op),
                left: if let Self::Exempt(_, left) = self { left } else { 0 },
                next_token: full_at.since(now),
                full_at,
                receipt: Receipt::default(),
            },
        }
    }

    fn admission(self, now: Time, op: Op) -> Admission {
        match (self, op.plain()) {
            (Self::Ban(until), PlainOp::Take(1..) | PlainOp::Peek(1..)) => {
                Admission::Refused { wait: until.since(now).max(Span::from_nanos(1)) }
            }
            _ => Admission::Admitted,
        }
    }
}

/// Whether this is the rate of a ban: one token, and none to begin with.
pub(super) fn is_ban(rate: Continuous) -> bool {
    rate.burst() == 1 && rate.initial() == 0
}

/// Whether this is the rate of an exemption.
pub(super) fn is_exemption(rate: Continuous) -> bool {
    rate.burst() == BOUNDLESS
}

/// Tokens a second, and in the bucket, that no gate can use up.
pub(super) const BOUNDLESS: u32 = 1_000_000_000;

#[cfg(test)]
mod tests;
