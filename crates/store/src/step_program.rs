//! What a database needs to take a step by itself, if it can do the arithmetic of a bucket's shape.
//!
//! [`step`](tollgate_bucket::step) stays the definition: a gate that is told that the database took a step takes it
//! again on the record that was found there, at the time it was taken, and so gets its verdicts. The database only
//! calculates the next state. All products of tokens and time are calculated here: it adds, subtracts and compares
//! whole numbers of 64 bits, and may leave whatever is unusual to the gate.

use tollgate_bucket::{Op, Spec};
use tollgate_bucket::{Span, Time};

/// The operations of a batch, for a database that can step the bucket's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepProgram {
    /// The bucket's shape and its numbers.
    pub shape: StepShape,
    /// The operations in their order, at least one. An operation that never changes a state is left out.
    pub ops: Vec<StepOp>,
    /// The store's time, as the gate knows it: for a database that steps as of a time that it is told.
    pub now: Time,
    /// The store's time from which on no step is taken, so that one that is late is certainly not taken.
    pub until: Time,
}

/// All operations of a [`StepShape::Continuous`] as one, for a database that knows expressions but no loops: if all of
/// them are admitted, the larger one of `now` and the time that is stored, `tat`, becomes the larger one of `tat + add`
/// and `now + floor`. All are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSum {
    /// The time of the step, before the year 2116.
    pub now: i64,
    /// No step is taken before this time by the database's own clock, which may have been set back since the gate heard
    /// of it: a gate that does not know yet would find buckets full.
    pub from: i64,
    /// What the operations add.
    pub add: i64,
    /// How far before now they end at least; not negative.
    pub floor: i64,
    /// How far after now `tat` may be for all of them to be admitted.
    pub limit: i64,
    /// How far after now `tat` may be unless a clock was set back.
    pub max_ttl: i64,
}

/// A shape, and the numbers of its arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepShape {
    /// [`Spec::Continuous`].
    Continuous(StepRate),
    /// [`Spec::Interval`]: a step within the present period that leaves it neither empty nor with debt.
    Interval {
        /// The longest time to live.
        max_ttl: Span,
        /// The length of a period.
        period: Span,
        /// Tokens in a full bucket.
        quota: u32,
        /// How far below zero refused attempts may take it; with debt such an attempt is left to the gate.
        debt: u32,
    },
    /// [`Spec::Floor`], one token at a time.
    Floor {
        /// Both together.
        max_ttl: Span,
        /// The guaranteed bucket.
        floor: StepRate,
        /// The bucket next to it.
        pool: StepRate,
    },
}

/// The numbers of a continuous bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRate {
    /// The longest time to live.
    pub max_ttl: Span,
    /// The longest that an attempt is held instead of refused.
    pub hold: Span,
    /// The time from the deepest debt to full; zero if refused attempts take nothing.
    pub deepest: Span,
    /// The time for one token.
    pub per_token: Span,
    /// The time from empty to full, but for one token.
    pub but_one: Span,
}

/// An operation on a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOp {
    /// Take tokens, or be refused.
    Take {
        /// Their time; for an interval, their number.
        tokens: u64,
        /// The time of the other tokens that may be missing: from an empty bucket to a full one, but for these.
        rest: u64,
    },
    /// Undo what an attempt took.
    Refund {
        /// The time of its tokens; for an interval, their number.
        tokens: u64,
        /// When time has returned them; for an interval, the end of their period. The end of time for tokens that are
        /// added whatever was taken.
        full_at: u64,
    },
}

impl StepProgram {
    /// The program of these operations; `None` if a database cannot express one of them, or if none can change a state.
    #[must_use]
    pub fn new(spec: &Spec, ops: impl IntoIterator<Item = Op>, now: Time, until: Time) -> Option<Self> {
        let shape = StepShape::of(spec)?;
        let mut steps = Vec::new();
        for op in ops {
            match op {
                Op::Take(tokens) | Op::TakeOnce { tokens, .. } if tokens > spec.burst() => {}
                Op::Take(tokens) | Op::TakeOnce { tokens, .. } => steps.push(take(spec, tokens)?),
                Op::Give(tokens) => steps.push(refund(spec, tokens, None)?),
                Op::Refund(receipt) => steps.push(refund(spec, receipt.tokens, Some(receipt.full_at))?),
                // The others change no state of these shapes.
                _ => {}
            }
        }
        let is_usable = !steps.is_empty() && steps.len() <= MAX_OPS;
        is_usable.then_some(Self { shape, ops: steps, now, until })
    }

    /// Words of the state.
    #[must_use]
    pub fn words(&self) -> usize {
        match self.shape {
            StepShape::Continuous(_) => 1,
            StepShape::Interval { .. } => 2,
            StepShape::Floor { .. } => 3,
        }
    }

    /// The longest that a state lives.
    #[must_use]
    pub fn max_ttl(&self) -> Span {
        match self.shape {
            StepShape::Continuous(rate) => rate.max_ttl,
            StepShape::Interval { max_ttl, .. } | StepShape::Floor { max_ttl, .. } => max_ttl,
        }
    }

    /// The tokens of each operation, for a database that keeps operations and not their sum; `None` if one of them is a
    /// refund.
    #[must_use]
    pub fn takes(&self) -> Option<Vec<u32>> {
        let per_token = match self.shape {
            StepShape::Continuous(rate) => rate.per_token.as_nanos(),
            StepShape::Interval { .. } | StepShape::Floor { .. } => 1,
        };
        let tokens = |op: &StepOp| match op {
            StepOp::Take { tokens, .. } => u32::try_from(tokens.checked_div(per_token)?).ok(),
            StepOp::Refund { .. } => None,
        };
        self.ops.iter().map(tokens).collect()
    }

    /// The sum of all operations; `None` if there is none, or if they can never be admitted together.
    #[must_use]
    pub fn sum(&self) -> Option<StepSum> {
        let StepShape::Continuous(rate) = self.shape else { return None };
        let now = i128::from(self.now.as_nanos());
        let (mut add, mut floor, mut limit) = (0, 0, MAX_SUM);
        for op in &self.ops {
            match *op {
                StepOp::Take { tokens, rest } => {
                    let window = i128::from(tokens) + i128::from(rest) + i128::from(rate.hold.as_nanos());
                    (add, floor) = (add + i128::from(tokens), floor + i128::from(tokens));
                    if floor > window {
                        return None;
                    }
                    limit = limit.min(window - add);
                }
                StepOp::Refund { tokens, full_at } => {
                    let due = i128::from(tokens).min(i128::from(full_at) - now).max(0);
                    (add, floor) = (add - due, (floor - due).max(0));
                }
            }
        }
        let number = |number: i128| i64::try_from(number).ok().filter(|_| number.abs() <= MAX_SUM);
        Some(StepSum {
            now: number(now)?,
            from: number(now - i128::from(MAX_AHEAD.as_nanos()))?,
            add: number(add)?,
            floor: number(floor)?,
            limit: number(limit)?,
            max_ttl: number(rate.max_ttl.as_nanos().into())?,
        })
    }

    /// The program as bytes: the words of the state (1), the last microsecond (8), the numbers of the shape (8 each),
    /// and for each operation its kind (1; 1 takes, 2 refunds) and its two numbers (8 each). Big endian.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(self.words()).unwrap_or(0)];
        bytes.extend((self.until.as_nanos() / 1000).to_be_bytes());
        self.shape.numbers().iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        for op in &self.ops {
            let (kind, one, other) = match *op {
                StepOp::Take { tokens, rest } => (1, tokens, rest),
                StepOp::Refund { tokens, full_at } => (2, tokens, full_at),
            };
            bytes.push(kind);
            bytes.extend(one.to_be_bytes());
            bytes.extend(other.to_be_bytes());
        }
        bytes
    }
}

impl StepShape {
    /// The shape of a bucket; `None` if no database steps it.
    #[must_use]
    pub fn of(spec: &Spec) -> Option<Self> {
        let max_ttl = spec.max_ttl();
        match spec {
            Spec::Continuous(_) => Some(Self::Continuous(StepRate::of(spec)?)),
            Spec::Interval(interval) => {
                let (period, quota, debt) = (interval.period(), interval.quota(), interval.debt());
                Some(Self::Interval { max_ttl, period, quota, debt })
            }
            Spec::Floor(floor) => Some(Self::Floor {
                max_ttl,
                floor: StepRate::of(&Spec::Continuous(floor.floor()))?,
                pool: StepRate::of(&Spec::Continuous(floor.pool()))?,
            }),
            _ => None,
        }
    }

    fn numbers(&self) -> Vec<u64> {
        let nanos = |spans: &[Span]| spans.iter().map(|span| span.as_nanos()).collect();
        match *self {
            Self::Continuous(rate) => nanos(&[rate.max_ttl, rate.hold, rate.deepest]),
            Self::Interval { max_ttl, period, quota, debt } => {
                vec![max_ttl.as_nanos(), period.as_nanos(), quota.into(), debt.into()]
            }
            Self::Floor { max_ttl, floor, pool } => nanos(&[
                max_ttl,
                floor.max_ttl,
                floor.per_token,
                floor.but_one,
                pool.max_ttl,
                pool.per_token,
                pool.but_one,
                pool.deepest,
            ]),
        }
    }
}

impl StepRate {
    fn of(spec: &Spec) -> Option<Self> {
        let Spec::Continuous(rate) = spec else { return None };
        let per_token = rate.per_token();
        let deepest = match rate.debt() {
            0 => Span::ZERO,
            debt => rate.window().plus(per_token.times(debt.into())),
        };
        let but_one = rate.window().minus(per_token);
        Some(Self { max_ttl: spec.max_ttl(), hold: rate.hold(), deepest, per_token, but_one })
    }
}

fn take(spec: &Spec, tokens: u32) -> Option<StepOp> {
    match spec {
        Spec::Continuous(rate) => {
            let rest = rate.burst().saturating_sub(tokens);
            let time_for = |tokens: u32| rate.per_token().times(tokens.into()).as_nanos();
            Some(StepOp::Take { tokens: time_for(tokens), rest: time_for(rest) })
        }
        Spec::Interval(_) => Some(StepOp::Take { tokens: tokens.into(), rest: 0 }),
        // How many of several come from the floor takes a division.
        Spec::Floor(_) if tokens == 1 => Some(StepOp::Take { tokens: 1, rest: 0 }),
        _ => None,
    }
}

/// Without a time the tokens are added whatever was taken.
fn refund(spec: &Spec, tokens: u32, full_at: Option<Time>) -> Option<StepOp> {
    let end = full_at.map_or(u64::MAX, Time::as_nanos);
    match (spec, full_at) {
        (Spec::Continuous(rate), _) => {
            Some(StepOp::Refund { tokens: rate.per_token().times(tokens.into()).as_nanos(), full_at: end })
        }
        (Spec::Interval(_), full_at) if full_at.is_none() || end < u64::MAX => {
            Some(StepOp::Refund { tokens: tokens.into(), full_at: end })
        }
        (Spec::Floor(floor), Some(_)) => {
            let tokens = floor.pool().per_token().times(tokens.into()).as_nanos();
            Some(StepOp::Refund { tokens, full_at: end })
        }
        _ => None,
    }
}

/// What a database does in one go: other clients wait meanwhile.
const MAX_OPS: usize = 500;
/// By how much a gate may take a database's clock to be ahead.
const MAX_AHEAD: Span = Span::from_millis(100);
/// A sum of two such numbers fits 64 bits with a sign.
const MAX_SUM: i128 = i64::MAX as i128 / 2;

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_bucket::{Continuous, Receipt};

    fn spec() -> Spec {
        Spec::Continuous(Continuous::new(1, Span::from_secs(60), 10).unwrap())
    }

    #[test]
    fn what_never_changes_a_state_is_left_out() {
        let program = |ops: &[Op]| {
            StepProgram::new(&spec(), ops.iter().copied(), Time::from_nanos(7_000), Time::from_nanos(8_000))
        };
        assert_eq!(program(&[Op::Peek(1), Op::Take(11), Op::Strike]), None);
        let both = program(&[Op::Peek(1), Op::Take(4), Op::Refund(Receipt::default())]).unwrap();
        let minutes = |count: u64| 60_000_000_000 * count;
        assert_eq!(
            both.ops,
            [StepOp::Take { tokens: minutes(4), rest: minutes(6) }, StepOp::Refund { tokens: 0, full_at: 0 }]
        );
        assert_eq!(both.encode().len(), 1 + 8 + 3 * 8 + 2 * 17);
    }

    #[test]
    fn a_sum_is_all_operations_one_after_the_other() {
        let (minutes, now) = (|count: i64| 60_000_000_000 * count, Time::from_nanos(1 << 60));
        let sum = |ops: &[Op]| StepProgram::new(&spec(), ops.iter().copied(), now, now).unwrap().sum();
        let one = StepSum {
            now: 1 << 60,
            from: (1 << 60) - 100_000_000,
            add: minutes(3),
            floor: minutes(3),
            limit: minutes(7),
            max_ttl: minutes(10),
        };
        assert_eq!(sum(&[Op::Take(1), Op::Take(2)]), Some(one));
        let refunded = StepSum { add: minutes(-2), floor: minutes(1), limit: minutes(12), ..one };
        assert_eq!(sum(&[Op::Give(3), Op::Take(1)]), Some(refunded));
        assert_eq!(sum(&[Op::Take(6), Op::Take(6)]), None, "never together");
        let late = Receipt { tokens: 3, full_at: now };
        let nothing = StepSum { add: 0, floor: 0, limit: MAX_SUM.try_into().unwrap(), ..one };
        assert_eq!(sum(&[Op::Refund(late)]), Some(nothing));
    }
}
