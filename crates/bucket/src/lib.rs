//! The arithmetic of a token bucket: one function, [`step`].
//!
//! It uses no clock, no store, no allocation and only integers; it imports nothing but `core`. The caller owns the
//! state, a slice of words, because a rolling window has too many words to be copied around. All words are zero for a
//! key that was never seen, and the first word is always the time at which the bucket is full again: a store can keep,
//! compare and drop states without knowing what the other words mean.

#![cfg_attr(not(test), no_std)]
#![deny(clippy::arithmetic_side_effects, clippy::float_arithmetic)]

mod continuous;
mod convert;
mod distinct;
mod effect;
mod error;
mod escalation;
mod floor;
mod interval;
mod join;
mod period_counts;
mod period_start;
mod recent;
mod record;
mod rolling;
mod standing_order;
#[cfg(test)]
mod tests;
mod units;

pub use continuous::Continuous;
pub use convert::convert;
pub use distinct::Distinct;
pub use effect::{Effect, OnError};
pub use error::SpecError;
pub use escalation::Escalation;
pub use floor::Floor;
pub use interval::Interval;
pub use join::join;
pub use period_start::PeriodStart;
pub use recent::Recent;
pub use record::{DecodeError, LAYOUT, MAX_RECORD_LEN, Own, RecordHeader};
pub use rolling::Rolling;
pub use units::{Key, Span, Time};

/// The specification of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spec {
    /// Refills steadily up to a size.
    Continuous(Continuous),
    /// Becomes full once a period.
    Interval(Interval),
    /// Admits at most a quota in any window of whole periods.
    Rolling(Rolling),
    /// A guaranteed slow bucket next to a pool.
    Floor(Floor),
    /// Refills steadily; a recently charged tag costs nothing.
    Distinct(Distinct),
    /// Makes waits grow with each row of strikes.
    Escalation(Escalation),
    /// Remembers what was seen lately, and has no tokens.
    Recent(Recent),
}

/// An operation on a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Take this number of tokens, or be refused.
    Take(u32),
    /// The verdict of [`Op::Take`], without a change.
    Peek(u32),
    /// As [`Op::Take`], but free if the bucket remembers the tag; the same as [`Op::Take`] if the shape remembers no
    /// tags.
    TakeOnce {
        /// The number of tokens.
        tokens: u32,
        /// A hash of the thing that is charged.
        tag: u64,
    },
    /// The verdict of [`Op::TakeOnce`], without a change.
    PeekOnce {
        /// The number of tokens.
        tokens: u32,
        /// A hash of the thing that would be charged.
        tag: u64,
    },
    /// Count a failed or refused attempt; only [`Spec::Escalation`] does.
    Strike,
    /// Add this number of tokens, never above the bucket's size. [`Spec::Escalation`] ends the row of strikes instead.
    Give(u32),
    /// Undo what an attempt took, as if it had never been made, and never more: in any order of refunds, and however
    /// long the attempts were open. If the bucket was at its deepest debt meanwhile, the part that refused attempts
    /// could not take is not charged later.
    Refund(Receipt),
}

/// What an admitted attempt took: all that a refund needs.
///
/// Time refills tokens, too, and a refund must not return a token that time has returned already: else a client that
/// holds ten attempts open until the bucket is full again would find twenty tokens. A state that is a single time does
/// not show which attempt's tokens came back first. So each open attempt counts as the first: its `n` tokens are back
/// `n` times the time per token after they were taken. All open attempts together can then regain at most what is
/// missing in the bucket: time reduces both alike, and a refund reduces both by its own part. The price: a refund after
/// that time returns nothing, even if the bucket is not full. That errs on the strict side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The tokens taken.
    pub tokens: u32,
    /// When time has returned all of them, as far as a refund is concerned.
    pub full_at: Time,
}

/// The outcome of one [`step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Whether the state has to be stored. Either way the words hold it as of now.
    pub changed: bool,
    /// The verdict on the attempt.
    pub verdict: Verdict,
}

/// The verdict of a bucket on an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the attempt may pass, and if not, when.
    pub admission: Admission,
    /// Whole tokens left after this step; 0 while the bucket is in debt.
    pub left: u32,
    /// Time until the bucket has one token more than `left`; zero if it is full.
    pub next_token: Span,
    /// When the bucket is full again and its state can be dropped; now, if it is full.
    pub full_at: Time,
    /// What an admitted attempt took; empty for others.
    pub receipt: Receipt,
}

/// Whether an attempt may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The bucket had the tokens.
    Admitted,
    /// The tokens were taken in advance: the attempt may pass after `hold`.
    Held {
        /// At most the limit's `wait`.
        hold: Span,
    },
    /// The bucket did not have the tokens; it has them after `wait` if no other attempt takes them.
    Refused {
        /// Exact: one nanosecond earlier the same attempt is refused.
        wait: Span,
    },
    /// The attempt costs more than the bucket can ever hold.
    NeverFits,
}

/// An operation for shapes that remember no tags and count no strikes.
#[derive(Debug, Clone, Copy)]
enum PlainOp {
    Take(u32),
    Peek(u32),
    Give(u32),
    Refund(Receipt),
}

impl Op {
    /// Whether an attempt makes it, and not an operator or an outcome that takes something back.
    #[must_use]
    pub fn is_of_attempt(self) -> bool {
        matches!(self, Self::Take(_) | Self::TakeOnce { .. } | Self::Strike)
    }

    fn plain(self) -> PlainOp {
        match self {
            Self::Take(tokens) | Self::TakeOnce { tokens, .. } => PlainOp::Take(tokens),
            Self::Peek(tokens) | Self::PeekOnce { tokens, .. } => PlainOp::Peek(tokens),
            Self::Give(tokens) => PlainOp::Give(tokens),
            Self::Refund(receipt) => PlainOp::Refund(receipt),
            Self::Strike => PlainOp::Give(0),
        }
    }
}

impl Receipt {
    /// The receipt of an admitted attempt; empty for other operations.
    fn of(op: PlainOp, admission: Admission, full_at: Time) -> Self {
        match op {
            PlainOp::Take(tokens) | PlainOp::Peek(tokens) if admission.is_admitted() => {
                Self { tokens, full_at }
            }
            _ => Self::default(),
        }
    }
}

impl Admission {
    /// Whether the attempt may pass, now or after having been held.
    #[must_use]
    pub fn is_admitted(self) -> bool {
        matches!(self, Self::Admitted | Self::Held { .. })
    }
}

impl Verdict {
    /// Whether the attempt may pass, now or after having been held.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.admission.is_admitted()
    }
}

/// Decides one operation on one bucket.
///
/// `state` has [`Spec::words`] words, all zero for a key that was never seen or was dropped. Afterwards they hold the
/// next state; [`Step::changed`] says whether it has to be stored. The function has no other effects, so it may run
/// several times for one attempt (a write conflict, a check without a lock).
pub fn step(spec: &Spec, state: &mut [u64], now: Time, op: Op) -> Step {
    match spec {
        Spec::Continuous(continuous) => continuous.step(state, now, op.plain()),
        Spec::Interval(interval) => interval.step(state, now, op.plain()),
        Spec::Rolling(rolling) => rolling.step(state, now, op.plain()),
        Spec::Floor(floor) => floor.step(state, now, op.plain()),
        Spec::Distinct(distinct) => distinct.step(state, now, op),
        Spec::Escalation(escalation) if op == Op::Strike => escalation.strike(state, now),
        Spec::Escalation(escalation) => escalation.step(state, now, op.plain()),
        Spec::Recent(recent) => recent.step(state, now, op),
    }
}

impl Spec {
    /// Words of the longest state: a rolling window of 1,024 periods.
    pub const MAX_WORDS: usize = Rolling::MAX_WORDS;

    /// Tokens in a full bucket: the most that are admitted at once. For [`Spec::Escalation`] the strikes before a wait,
    /// for [`Spec::Recent`] what it can remember.
    #[must_use]
    pub fn burst(&self) -> u32 {
        match self {
            Self::Continuous(continuous) => continuous.burst(),
            Self::Interval(interval) => interval.quota(),
            Self::Rolling(rolling) => rolling.burst(),
            Self::Floor(floor) => floor.burst(),
            Self::Distinct(distinct) => distinct.bucket().burst(),
            Self::Escalation(escalation) => escalation.after(),
            Self::Recent(_) => RECENT_TAGS,
        }
    }

    /// Time from empty to full. For [`Spec::Escalation`] the longest wait, for [`Spec::Recent`] how long it remembers.
    #[must_use]
    pub fn window(&self) -> Span {
        match self {
            Self::Continuous(continuous) => continuous.window(),
            Self::Interval(interval) => interval.period(),
            Self::Rolling(rolling) => rolling.policy_window(),
            Self::Floor(floor) => floor.window(),
            Self::Distinct(distinct) => distinct.bucket().window(),
            Self::Escalation(escalation) => escalation.max(),
            Self::Recent(recent) => recent.ttl(),
        }
    }

    /// The longest time to live of a state: from the deepest debt to full.
    #[must_use]
    pub fn max_ttl(&self) -> Span {
        match self {
            Self::Continuous(continuous) => continuous.max_ttl(),
            Self::Interval(interval) => interval.max_ttl(),
            Self::Rolling(rolling) => rolling.window(),
            Self::Floor(floor) => floor.max_ttl(),
            Self::Distinct(distinct) => distinct.bucket().max_ttl(),
            Self::Escalation(escalation) => escalation.max_ttl(),
            Self::Recent(recent) => recent.ttl(),
        }
    }

    /// Whether refused attempts are charged, too.
    #[must_use]
    pub fn has_debt(&self) -> bool {
        match self {
            Self::Continuous(continuous) => continuous.debt() > 0,
            Self::Interval(interval) => interval.debt() > 0,
            Self::Rolling(rolling) => rolling.debt() > 0,
            Self::Floor(floor) => floor.pool().debt() > 0,
            Self::Distinct(_) | Self::Escalation(_) | Self::Recent(_) => false,
        }
    }

    /// Whether a bucket may have its own [rate](Continuous).
    #[must_use]
    pub fn has_rate(&self) -> bool {
        !matches!(self, Self::Escalation(_) | Self::Recent(_))
    }

    /// Words of a state, at most [`Spec::MAX_WORDS`].
    #[must_use]
    pub fn words(&self) -> usize {
        match self {
            Self::Continuous(_) => Continuous::WORDS,
            Self::Interval(_) => Interval::WORDS,
            Self::Rolling(rolling) => rolling.words(),
            Self::Floor(_) => Floor::WORDS,
            Self::Distinct(_) => Distinct::WORDS,
            Self::Escalation(_) => Escalation::WORDS,
            Self::Recent(_) => Recent::WORDS,
        }
    }
}

/// The time in a word of a state; `None` if nothing was stored.
fn stored_time(word: u64) -> Option<Time> {
    (word != 0).then_some(Time::from_nanos(word))
}

/// By how much an attempt may be late: a thread may decide some time after it has read the clock. A time that is
/// earlier than a state's by no more than this does not mean that the clock was set back. A smaller value would give a
/// thread that was preempted at a period boundary the tokens of another period.
const MAX_CLOCK_LAG: Span = Span::from_secs(1);

/// Why no operator gives a bucket a rate that [has none](Spec::has_rate).
pub const NO_RATE: &str = "escalating waits have no rate";

/// What [`Spec::Recent`] remembers.
const RECENT_TAGS: u32 = 16;

/// 73 years, an eighth of the range of `u64`: a sum of two such spans and a time of this century fits.
const MAX_SPAN: Span = Span::from_nanos(u64::MAX >> 3);
