//! The continuous bucket: a size, a steady refill, and a single number as its state.
//!
//! GCRA in its virtual scheduling form (ITU-T I.371): with time per token `t`, size `B` and theoretical arrival
//! time `tat`, an attempt of cost `n` is admitted iff `max(tat, now) + n*t - now <= B*t`, and then `tat` becomes
//! `max(tat, now) + n*t`. The surprising thing: debt, start balance, refund and exact wait all live on `tat`.
//!
//! Rounding: `t` is the period divided by the count, rounded **up** to a whole nanosecond, so that a bucket never
//! refills faster than it was promised to (slower by less than one nanosecond a token).

use core::fmt;

use super::units::{Span, Time};
use super::{Answer, Op, State, Step, Verdict};

/// A checked continuous bucket: burst, time per token, start balance and debt all fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continuous {
    per_token: Span,
    burst: u32,
    initial: u32,
    debt: u32,
}

/// Why numbers do not make a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecError {
    /// A count or a burst of zero would never admit anything.
    Zero,
    /// More than 1,000,000,000 tokens a second.
    TooFast,
    /// Filling the bucket (or paying off its debt) would take longer than 73 years.
    TooLong,
    /// The start balance is larger than the bucket.
    InitialAboveBurst,
}

impl Continuous {
    /// `count` tokens each `period` into a bucket of `burst` tokens, which starts full and knows no debt.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(count: u32, period: Span, burst: u32) -> Result<Self, SpecError> {
        if count == 0 || burst == 0 || period == Span::ZERO {
            return Err(SpecError::Zero);
        }
        if period.as_nanos() < u64::from(count) {
            return Err(SpecError::TooFast);
        }
        let per_token = Span::from_nanos(period.as_nanos().div_ceil(u64::from(count)));
        Self { per_token, burst, initial: burst, debt: 0 }.checked()
    }

    /// The same with `initial` tokens for a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::InitialAboveBurst`].
    pub fn with_initial(self, initial: u32) -> Result<Self, SpecError> {
        if initial > self.burst {
            return Err(SpecError::InitialAboveBurst);
        }
        Ok(Self { initial, ..self })
    }

    /// The same where refused attempts cost too, down to `debt` tokens below zero.
    ///
    /// # Errors
    /// [`SpecError::TooLong`].
    pub fn with_debt(self, debt: u32) -> Result<Self, SpecError> {
        Self { debt, ..self }.checked()
    }

    fn checked(self) -> Result<Self, SpecError> {
        let tokens = u64::from(self.burst).checked_add(u64::from(self.debt));
        match tokens.and_then(|tokens| tokens.checked_mul(self.per_token.as_nanos())) {
            Some(nanos) if nanos <= LONGEST.as_nanos() => Ok(self),
            _ => Err(SpecError::TooLong),
        }
    }

    /// Tokens in a full bucket, at least 1.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Time for one token, at least one nanosecond.
    #[must_use]
    pub fn per_token(&self) -> Span {
        self.per_token
    }

    /// Tokens of a key that was never seen.
    #[must_use]
    pub fn initial(&self) -> u32 {
        self.initial
    }

    /// How far below zero refused attempts may take the bucket.
    #[must_use]
    pub fn debt(&self) -> u32 {
        self.debt
    }

    /// Time from empty to full.
    #[must_use]
    pub fn window(&self) -> Span {
        self.time_for(self.burst)
    }

    pub(super) fn fingerprint(&self) -> u32 {
        let numbers = [self.per_token.as_nanos(), self.burst.into(), self.initial.into(), self.debt.into()];
        let bytes = numbers.into_iter().flat_map(u64::to_be_bytes);
        bytes.fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    pub(super) fn step(&self, stored: Option<Time>, now: Time, op: Op) -> Step {
        let tat = stored.map_or_else(|| self.first_seen(now), |tat| self.clamp(tat, now));
        match op {
            Op::Take(cost) => self.take(stored, tat, now, cost),
            Op::Peek(cost) => {
                Step { next: None, verdict: self.verdict(tat, now, self.answer(tat, now, cost)) }
            }
            Op::Give(tokens) => self.give(stored, tat, now, tokens),
        }
    }

    fn take(&self, stored: Option<Time>, tat: Time, now: Time, cost: u32) -> Step {
        let answer = self.answer(tat, now, cost);
        let next = match answer {
            Answer::Admitted => tat.after(self.time_for(cost)),
            Answer::Refused { .. } => tat.after(self.time_for(cost)).min(self.deepest(now)).max(tat),
            Answer::NeverFits => tat,
        };
        if answer == Answer::Admitted {
            return Step { next: written(next), verdict: self.verdict(next, now, answer) };
        }
        // A refusal without debt leaves the bucket as it is, with one exception: a start balance below full has
        // to begin its refill somewhere, or the client would find the same balance at every visit.
        let next = if self.debt == 0 { tat } else { next };
        let begins = stored.is_none() && self.initial < self.burst;
        let answer = self.answer(next, now, cost);
        let next_state = if next != tat || begins { written(next) } else { None };
        Step { next: next_state, verdict: self.verdict(next, now, answer) }
    }

    fn give(&self, stored: Option<Time>, tat: Time, now: Time, tokens: u32) -> Step {
        let next = tat.before(self.time_for(tokens)).max(now);
        let next_state = if stored.is_some() && next != tat { written(next) } else { None };
        Step { next: next_state, verdict: self.verdict(next, now, Answer::Admitted) }
    }

    fn answer(&self, tat: Time, now: Time, cost: u32) -> Answer {
        if cost > self.burst {
            return Answer::NeverFits;
        }
        match tat.after(self.time_for(cost)).since(now.after(self.window())) {
            Span::ZERO => Answer::Admitted,
            wait => Answer::Refused { wait },
        }
    }

    fn verdict(&self, tat: Time, now: Time, answer: Answer) -> Verdict {
        let used = tat.since(now);
        let left = self.window().minus(used).as_nanos().checked_div(self.per_token.as_nanos()).unwrap_or(0);
        let left = u32::try_from(left).unwrap_or(self.burst);
        let missing = self.burst.saturating_sub(left).saturating_sub(1);
        Verdict { answer, left, next_token: used.minus(self.time_for(missing)), full_at: tat }
    }

    fn first_seen(&self, now: Time) -> Time {
        now.after(self.time_for(self.burst.saturating_sub(self.initial)))
    }

    /// Never before now (an old state is a full bucket), never deeper than a bucket can be drained: a clock that
    /// was set back can neither refill a bucket nor lock it for longer than its own depth.
    fn clamp(&self, tat: Time, now: Time) -> Time {
        tat.clamp(now, self.deepest(now))
    }

    fn deepest(&self, now: Time) -> Time {
        now.after(self.window()).after(self.time_for(self.debt))
    }

    fn time_for(&self, tokens: u32) -> Span {
        self.per_token.times(tokens.into())
    }
}

fn written(tat: Time) -> Option<State> {
    Some(State::Continuous { tat })
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zero => "a count, period or burst of zero would never admit anything",
            Self::TooFast => "more than 1,000,000,000 tokens a second",
            Self::TooLong => "the bucket would take more than 73 years to fill",
            Self::InitialAboveBurst => "the start balance is larger than the bucket",
        })
    }
}

impl core::error::Error for SpecError {}

/// A quarter of what nanoseconds since 1970 leave free, so that a sum of two such spans and a time always fits.
const LONGEST: Span = Span::from_nanos(u64::MAX >> 3);
