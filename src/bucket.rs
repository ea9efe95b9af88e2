//! The arithmetic of a token bucket: one function, [`step`].
//!
//! No clock, no store, no allocation, integers only; nothing here is imported but `core`. The surprising thing: a
//! state is a handful of words that the caller owns, because a rolling window has too many to be handed around. They
//! are all zero for a bucket that was never seen, and the first is always the time at which the bucket is full again,
//! so a store can keep, compare and forget states without knowing what they mean.

#![deny(clippy::arithmetic_side_effects, clippy::float_arithmetic)]

mod continuous;
mod convert;
mod distinct;
mod error;
mod escalation;
mod floor;
mod interval;
mod join;
mod period_counts;
mod period_start;
mod record;
mod rolling;
#[cfg(test)]
mod tests;
mod units;

pub use continuous::Continuous;
pub use convert::convert;
pub use distinct::Distinct;
pub use error::SpecError;
pub use escalation::Escalation;
pub use floor::Floor;
pub use interval::Interval;
pub use join::join;
pub use period_start::PeriodStart;
pub use record::{DecodeError, LAYOUT, MAX_RECORD_LEN, Own, RecordHeader};
pub use rolling::Rolling;
pub use units::{Key, Span, Time};

/// What a bucket promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spec {
    /// A steady refill up to a size.
    Continuous(Continuous),
    /// Full again once a period.
    Interval(Interval),
    /// At most so many in any window of whole periods.
    Rolling(Rolling),
    /// A guaranteed slow bucket beside a pool.
    Floor(Floor),
    /// A steady refill that is spent on what was not paid for lately.
    Distinct(Distinct),
    /// Waits that grow.
    Escalation(Escalation),
}

/// What is asked of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Take this many tokens, or be refused.
    Take(u32),
    /// Say what [`Op::Take`] would say, and change nothing.
    Peek(u32),
    /// [`Op::Take`], but nothing for what was taken for lately, in a bucket that remembers that; in others the same.
    TakeOnce {
        /// Tokens wanted.
        tokens: u32,
        /// What they are taken for: a hash of it.
        tag: u64,
    },
    /// Say what [`Op::TakeOnce`] would say, and change nothing.
    PeekOnce {
        /// Tokens wanted.
        tokens: u32,
        /// What they would be taken for.
        tag: u64,
    },
    /// An attempt failed or was refused; counts in a bucket that makes waits grow, and is nothing to the others.
    Strike,
    /// Give this many tokens, wherever they come from; never lifts a bucket above its size. Where waits grow, break the
    /// row of strikes.
    Give(u32),
    /// Undo what an attempt took, as if it had never been made, and never more: in whatever order attempts are undone, and
    /// however long they were held open. What refused attempts could not take while it was open, because the bucket was
    /// in as much debt as it may be, is not made up for.
    Refund(Receipt),
}

/// What an admitted attempt took: all that is needed to give it back.
///
/// Time gives tokens back as well, and a token that time has brought back must not come a second time: whoever holds
/// ten attempts open until the bucket is full again would find twenty tokens. Where a state is a time, nobody can say
/// which attempt's tokens came back first, so all that are open are taken to get theirs at once: `n` tokens are gone `n`
/// times the time per token after they were taken. What all open attempts together may still get back is then at most
/// what is missing in the bucket, since time takes from both alike, and an attempt that is undone takes its own part of
/// both. The price: a bucket regains nothing for attempts that are under way and end well. That errs on the strict side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Tokens that were taken.
    pub tokens: u32,
    /// When time has brought back all of them, as far as an attempt is concerned that is undone.
    pub full_at: Time,
}

/// The outcome of one [`step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Whether the state has to be stored. The words hold it either way, as it is at this time.
    pub changed: bool,
    /// What the bucket says to the attempt.
    pub verdict: Verdict,
}

/// What a bucket says to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the attempt may pass, and if not, when.
    pub admission: Admission,
    /// Whole tokens left after this step; 0 while the bucket is in debt.
    pub left: u32,
    /// Time until one token more than `left` is there; zero when the bucket is full.
    pub next_token: Span,
    /// When nothing will be remembered of the bucket any more, because it is full again; now, if it is full.
    pub full_at: Time,
    /// What an admitted attempt took; nothing for the others.
    pub receipt: Receipt,
}

/// Whether an attempt may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The tokens were there.
    Admitted,
    /// The tokens were taken before they were there: the attempt may pass after this long.
    Held {
        /// At most the limit's `wait`.
        hold: Span,
    },
    /// They were not, and will be after this long if nobody else takes them.
    Refused {
        /// Exact: one nanosecond earlier the same attempt is refused.
        wait: Span,
    },
    /// The attempt costs more than the bucket can ever hold.
    NeverFits,
}

/// An operation as buckets know it that remember nothing but how full they are.
#[derive(Debug, Clone, Copy)]
enum PlainOp {
    Take(u32),
    Peek(u32),
    Give(u32),
    Refund(Receipt),
}

impl Op {
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
    /// For an attempt whose tokens time has brought back then.
    fn of(op: PlainOp, answer: Admission, full_at: Time) -> Self {
        match op {
            PlainOp::Take(tokens) | PlainOp::Peek(tokens) if answer.is_admitted() => Self { tokens, full_at },
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
/// `state` has [`Spec::words`] words, all zero for a key that was never seen or was forgotten. What stands in them
/// afterwards is the next state; [`BurstPermit::changed`] says whether it is worth storing. The function may run several times for one attempt (a
/// lost race, a look without a lock): it has no other effects.
pub fn step(spec: &Spec, state: &mut [u64], now: Time, op: Op) -> Step {
    match spec {
        Spec::Continuous(continuous) => continuous.step(state, now, op.plain()),
        Spec::Interval(interval) => interval.step(state, now, op.plain()),
        Spec::Rolling(rolling) => rolling.step(state, now, op.plain()),
        Spec::Floor(floor) => floor.step(state, now, op.plain()),
        Spec::Distinct(distinct) => distinct.step(state, now, op),
        Spec::Escalation(escalation) if op == Op::Strike => escalation.strike(state, now),
        Spec::Escalation(escalation) => escalation.step(state, now, op.plain()),
    }
}

impl Spec {
    /// The words of the longest state there is: a rolling window of 1,024 periods.
    pub const MAX_WORDS: usize = Rolling::MAX_WORDS;

    /// Tokens in a full bucket: the most that are ever admitted at once. Where waits grow, the strikes before one.
    #[must_use]
    pub fn burst(&self) -> u32 {
        match self {
            Self::Continuous(continuous) => continuous.burst(),
            Self::Interval(interval) => interval.quota(),
            Self::Rolling(rolling) => rolling.burst(),
            Self::Floor(floor) => floor.burst(),
            Self::Distinct(distinct) => distinct.bucket().burst(),
            Self::Escalation(escalation) => escalation.after(),
        }
    }

    /// Time from empty to full. Where waits grow, the longest.
    #[must_use]
    pub fn window(&self) -> Span {
        match self {
            Self::Continuous(continuous) => continuous.window(),
            Self::Interval(interval) => interval.period(),
            Self::Rolling(rolling) => rolling.policy_window(),
            Self::Floor(floor) => floor.window(),
            Self::Distinct(distinct) => distinct.bucket().window(),
            Self::Escalation(escalation) => escalation.max(),
        }
    }

    /// The longest that anything is remembered of a bucket: from as deep in debt as it gets to full.
    #[must_use]
    pub fn max_ttl(&self) -> Span {
        match self {
            Self::Continuous(continuous) => continuous.max_ttl(),
            Self::Interval(interval) => interval.max_ttl(),
            Self::Rolling(rolling) => rolling.window(),
            Self::Floor(floor) => floor.max_ttl(),
            Self::Distinct(distinct) => distinct.bucket().max_ttl(),
            Self::Escalation(escalation) => escalation.max_ttl(),
        }
    }

    /// Whether refused attempts cost, too.
    #[must_use]
    pub fn has_debt(&self) -> bool {
        match self {
            Self::Continuous(continuous) => continuous.debt() > 0,
            Self::Interval(interval) => interval.debt() > 0,
            Self::Rolling(rolling) => rolling.debt() > 0,
            Self::Floor(floor) => floor.pool().debt() > 0,
            Self::Distinct(_) | Self::Escalation(_) => false,
        }
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
        }
    }
}

/// The time in a state's word; `None` if nothing was ever stored.
fn stored_time(word: u64) -> Option<Time> {
    (word != 0).then_some(Time::from_nanos(word))
}

/// By how much an attempt may be late: whoever decides may have read the clock a while before, so a time that is earlier
/// than a state's by no more than this does not mean that the clock was set back. Concluding that from less would give
/// a thread that was interrupted at a border the tokens of another period.
const MAX_CLOCK_LAG: Span = Span::from_secs(1);

/// A quarter of what nanoseconds since 1970 leave free, so that a sum of two such spans and a time always fits.
const MAX_SPAN: Span = Span::from_nanos(u64::MAX >> 3);
