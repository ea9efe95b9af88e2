//! The interval bucket: full again once a period, and what was not used by then is lost.
//!
//! A period begins with the first attempt after the last one ended, or by the clock. The surprising thing: just before
//! and just after a border a client may use a whole bucket each, so any span as long as a period may see two of them;
//! that is what the shape is, and `check` says so.
//!
//! Debt outlives its period: each border pays for one bucket of it, and until it is paid the periods follow each
//! other without a gap.

use super::units::{Span, Time};
use super::{Anchor, Answer, LATE, LONGEST, Plain, Receipt, SpecError, Step, Verdict, seen};

/// A checked interval bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    quota: u32,
    period: Span,
    anchor: Anchor,
    initial: u32,
    debt: u32,
}

/// The period that is on: when it ends, and the tokens taken in it; more than the quota while there is debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) end: Time,
    pub(super) taken: u64,
}

impl Interval {
    pub(super) const WORDS: usize = 2;

    /// `quota` tokens each `period`; starts full and knows no debt.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(quota: u32, period: Span, anchor: Anchor) -> Result<Self, SpecError> {
        if quota == 0 || period == Span::ZERO {
            return Err(SpecError::Zero);
        }
        Self { quota, period, anchor, initial: quota, debt: 0 }.checked()
    }

    /// The same with `initial` tokens in the first period of a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::InitialAboveBurst`].
    pub fn with_initial(self, initial: u32) -> Result<Self, SpecError> {
        if initial > self.quota {
            return Err(SpecError::InitialAboveBurst);
        }
        Ok(Self { initial, ..self })
    }

    /// The same where refused attempts cost too, down to `debt` tokens below zero.
    ///
    /// # Errors
    /// [`SpecError::TooLarge`] or [`SpecError::TooLong`].
    pub fn with_debt(self, debt: u32) -> Result<Self, SpecError> {
        Self { debt, ..self }.checked()
    }

    fn checked(self) -> Result<Self, SpecError> {
        self.quota.checked_add(self.debt).ok_or(SpecError::TooLarge)?;
        let nanos = self.period.as_nanos().checked_mul(self.borders(self.deepest()));
        if nanos.is_some_and(|nanos| nanos <= LONGEST.as_nanos()) {
            Ok(self)
        } else {
            Err(SpecError::TooLong)
        }
    }

    /// Tokens in a full bucket, at least 1.
    #[must_use]
    pub fn quota(&self) -> u32 {
        self.quota
    }

    /// How often it is full again.
    #[must_use]
    pub fn period(&self) -> Span {
        self.period
    }

    /// Where its periods begin.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Tokens in the first period of a key that was never seen.
    #[must_use]
    pub fn initial(&self) -> u32 {
        self.initial
    }

    /// How far below zero refused attempts may take the bucket.
    #[must_use]
    pub fn debt(&self) -> u32 {
        self.debt
    }

    /// The longest that anything is remembered.
    pub(super) fn memory(&self) -> Span {
        self.period.times(self.borders(self.deepest()))
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: Plain) -> Step {
        let stored = self.stored(state);
        let before = self.load(stored, now);
        let (answer, after) = match op {
            Plain::Take(cost) => self.take(before, now, cost),
            Plain::Peek(cost) => (self.answer(before, now, cost), before),
            Plain::Give(tokens) => (Answer::Admitted, before.without(tokens)),
            // A period that has ended took its tokens along.
            Plain::Refund(receipt) if receipt.full_at == before.end => {
                (Answer::Admitted, before.without(receipt.tokens))
            }
            Plain::Refund(_) => (Answer::Admitted, before),
        };
        let changed = match op {
            Plain::Take(_) => after.taken > 0 && stored != Some(after),
            Plain::Peek(_) => false,
            Plain::Give(_) | Plain::Refund(_) => stored.is_some() && after != before,
        };
        let receipt = Receipt::of(op, answer, before.end);
        self.write(after, state, now);
        Step { changed, verdict: self.verdict(after, now, answer, receipt) }
    }

    fn take(&self, before: Period, now: Time, cost: u32) -> (Answer, Period) {
        match self.answer(before, now, cost) {
            Answer::Admitted => (Answer::Admitted, before.with(cost)),
            Answer::Refused { .. } if self.debt > 0 => {
                let taken = before.with(cost).taken.min(self.deepest()).max(before.taken);
                let after = Period { taken, ..before };
                (self.answer(after, now, cost), after)
            }
            answer => (answer, before),
        }
    }

    /// The period that is on: the stored one, the one that its debt has led to, or a new one.
    pub(super) fn load(&self, stored: Option<Period>, now: Time) -> Period {
        let new = self.begin(now);
        let Some(stored) = stored else {
            return Period { taken: self.quota.saturating_sub(self.initial).into(), ..new };
        };
        let taken = stored.taken.min(self.deepest());
        if stored.end.since(now) > self.period.plus(LATE) {
            // The clock was set back. A whole period from now even where periods follow the clock, or setting it back
            // over a border would be a way to be full again.
            return Period { end: now.after(self.period), taken };
        }
        if stored.end > now {
            return Period { end: stored.end, taken };
        }
        let ended = self.anchor.borders(stored.end, now, self.period).saturating_add(1);
        match taken.saturating_sub(ended.saturating_mul(self.quota.into())) {
            0 => new,
            // Where periods follow the clock, one that does not since the clock was set back is the only one.
            taken if self.anchor == Anchor::Clock => Period { taken, ..new },
            taken => Period { end: stored.end.after(self.period.times(ended)), taken },
        }
    }

    /// A period that begins now, or the clock's that is on.
    pub(super) fn begin(&self, now: Time) -> Period {
        Period { end: self.anchor.begin(now, self.period).after(self.period), taken: 0 }
    }

    pub(super) fn stored(&self, state: &[u64]) -> Option<Period> {
        let &[full_at, taken] = state.first_chunk()?;
        let end = seen(full_at)?.before(self.period.times(self.borders(taken).saturating_sub(1)));
        Some(Period { end, taken })
    }

    pub(super) fn write(&self, period: Period, state: &mut [u64], now: Time) {
        if let Some([full_at, taken]) = state.first_chunk_mut() {
            *full_at = self.full_at(period, now).as_nanos();
            *taken = period.taken;
        }
    }

    fn answer(&self, period: Period, now: Time, cost: u32) -> Answer {
        let quota = u64::from(self.quota);
        match period.taken.saturating_add(cost.into()).saturating_sub(quota) {
            _ if cost > self.quota => Answer::NeverFits,
            0 => Answer::Admitted,
            lacking => Answer::Refused { wait: self.border(period, self.borders(lacking)).since(now) },
        }
    }

    fn verdict(&self, period: Period, now: Time, answer: Answer, receipt: Receipt) -> Verdict {
        let left = u64::from(self.quota).saturating_sub(period.taken);
        let left = u32::try_from(left).unwrap_or(self.quota);
        let next_token = match self.answer(period, now, left.saturating_add(1)) {
            Answer::Refused { wait } => wait,
            _ => Span::ZERO,
        };
        Verdict { answer, left, next_token, full_at: self.full_at(period, now), receipt }
    }

    /// When a period's tokens, and the debt beyond them, are forgotten. Without any the period itself is, as if it had
    /// never begun.
    fn full_at(&self, period: Period, now: Time) -> Time {
        if period.taken == 0 {
            return now;
        }
        self.border(period, self.borders(period.taken))
    }

    /// The given border from this period on; the first is its end.
    fn border(&self, period: Period, number: u64) -> Time {
        period.end.after(self.period.times(number.saturating_sub(1)))
    }

    /// How many borders it takes until so many tokens are back; at least one.
    fn borders(&self, tokens: u64) -> u64 {
        tokens.div_ceil(u64::from(self.quota).max(1)).max(1)
    }

    fn deepest(&self) -> u64 {
        u64::from(self.quota).saturating_add(self.debt.into())
    }
}

impl Period {
    fn with(self, tokens: u32) -> Self {
        Self { taken: self.taken.saturating_add(tokens.into()), ..self }
    }

    fn without(self, tokens: u32) -> Self {
        Self { taken: self.taken.saturating_sub(tokens.into()), ..self }
    }
}

#[cfg(test)]
mod tests;
