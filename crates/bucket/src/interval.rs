//! The interval bucket: it becomes full once a period, and unused tokens are lost.
//!
//! A period begins with the first attempt after the last one ended, or by the clock. A client may use a whole bucket
//! just before and just after a boundary, so any span as long as a period may see two of them: this is inherent in the
//! shape, and `check` reports it.
//!
//! Debt outlives its period: each boundary pays for one bucket of it, and until it is paid the periods follow each
//! other without a gap.

use super::error::fitting_initial;
use super::units::{Span, Time};
use super::{
    Admission, MAX_CLOCK_LAG, MAX_SPAN, PeriodStart, PlainOp, Receipt, SpecError, Step, Verdict, stored_time,
};

/// A validated interval bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    quota: u32,
    period: Span,
    period_start: PeriodStart,
    initial: u32,
    debt: u32,
}

/// The current period: its end, and the tokens taken in it; more than the quota while there is debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) end: Time,
    pub(super) taken: u64,
}

impl Interval {
    pub(super) const WORDS: usize = 2;

    /// `quota` tokens each `period`; starts full and has no debt.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(quota: u32, period: Span, period_start: PeriodStart) -> Result<Self, SpecError> {
        if quota == 0 || period == Span::ZERO {
            return Err(SpecError::Zero);
        }
        Self { quota, period, period_start, initial: quota, debt: 0 }.validated()
    }

    /// The same bucket with `initial` tokens in the first period of a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::InitialAboveBurst`].
    pub fn with_initial(self, initial: u32) -> Result<Self, SpecError> {
        Ok(Self { initial: fitting_initial(initial, self.quota)?, ..self })
    }

    /// The same bucket where refused attempts are charged, too, down to `debt` tokens below zero.
    ///
    /// # Errors
    /// [`SpecError::TooLarge`] or [`SpecError::TooLong`].
    pub fn with_debt(self, debt: u32) -> Result<Self, SpecError> {
        Self { debt, ..self }.validated()
    }

    fn validated(self) -> Result<Self, SpecError> {
        self.quota.checked_add(self.debt).ok_or(SpecError::TooLarge)?;
        let nanos = self.period.as_nanos().checked_mul(self.boundaries_for(self.max_taken()));
        if nanos.is_some_and(|nanos| nanos <= MAX_SPAN.as_nanos()) {
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

    /// The length of a period.
    #[must_use]
    pub fn period(&self) -> Span {
        self.period
    }

    /// Where its periods begin.
    #[must_use]
    pub fn period_start(&self) -> PeriodStart {
        self.period_start
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

    /// The longest time to live of a state.
    pub(super) fn max_ttl(&self) -> Span {
        self.period.times(self.boundaries_for(self.max_taken()))
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let stored = self.stored(state);
        let before = self.load(stored, now);
        let (admission, after) = match op {
            PlainOp::Take(cost) => self.take(before, now, cost),
            PlainOp::Peek(cost) => (self.check(before, now, cost), before),
            PlainOp::Give(tokens) => (Admission::Admitted, before.without(tokens)),
            // Tokens of a period that has ended are lost and not refunded.
            PlainOp::Refund(receipt) if receipt.full_at == before.end => {
                (Admission::Admitted, before.without(receipt.tokens))
            }
            PlainOp::Refund(_) => (Admission::Admitted, before),
        };
        let changed = match op {
            PlainOp::Take(_) => after.taken > 0 && stored != Some(after),
            PlainOp::Peek(_) => false,
            PlainOp::Give(_) | PlainOp::Refund(_) => stored.is_some() && after != before,
        };
        let receipt = Receipt::of(op, admission, before.end);
        self.write(after, state, now);
        Step { changed, verdict: self.verdict(after, now, admission, receipt) }
    }

    fn take(&self, before: Period, now: Time, cost: u32) -> (Admission, Period) {
        match self.check(before, now, cost) {
            Admission::Admitted => (Admission::Admitted, before.with(cost)),
            Admission::Refused { .. } if self.debt > 0 => {
                let taken = before.with(cost).taken.min(self.max_taken()).max(before.taken);
                let after = Period { taken, ..before };
                (self.check(after, now, cost), after)
            }
            refusal => (refusal, before),
        }
    }

    /// The current period: the stored one, the one that still has its debt, or a new one.
    pub(super) fn load(&self, stored: Option<Period>, now: Time) -> Period {
        let new = self.begin(now);
        let Some(stored) = stored else {
            return Period { taken: self.quota.saturating_sub(self.initial).into(), ..new };
        };
        let taken = stored.taken.min(self.max_taken());
        if stored.end.since(now) > self.period.plus(MAX_CLOCK_LAG) {
            // The clock was set back. The period ends a whole period from now, even if periods follow the clock: else
            // setting the clock back over a boundary would fill the bucket.
            return Period { end: now.after(self.period), taken };
        }
        if stored.end > now {
            return Period { end: stored.end, taken };
        }
        let ended = self.period_start.boundaries_since(stored.end, now, self.period).saturating_add(1);
        match taken.saturating_sub(ended.saturating_mul(self.quota.into())) {
            0 => new,
            // After the clock was set back one period may end off the clock's boundaries; the next one ends on them.
            taken if self.period_start == PeriodStart::Clock => Period { taken, ..new },
            taken => Period { end: stored.end.after(self.period.times(ended)), taken },
        }
    }

    /// A new period: it begins now, or at the clock's last boundary.
    pub(super) fn begin(&self, now: Time) -> Period {
        Period { end: self.period_start.begin(now, self.period).after(self.period), taken: 0 }
    }

    pub(super) fn stored(&self, state: &[u64]) -> Option<Period> {
        let &[full_at, taken] = state.first_chunk()?;
        let end =
            stored_time(full_at)?.before(self.period.times(self.boundaries_for(taken).saturating_sub(1)));
        Some(Period { end, taken })
    }

    pub(super) fn write(&self, period: Period, state: &mut [u64], now: Time) {
        if let Some([full_at, taken]) = state.first_chunk_mut() {
            *full_at = self.full_at(period, now).as_nanos();
            *taken = period.taken;
        }
    }

    fn check(&self, period: Period, now: Time, cost: u32) -> Admission {
        let quota = u64::from(self.quota);
        match period.taken.saturating_add(cost.into()).saturating_sub(quota) {
            _ if cost > self.quota => Admission::NeverFits,
            0 => Admission::Admitted,
            lacking => Admission::Refused {
                wait: self.boundary_after(period, self.boundaries_for(lacking)).since(now),
            },
        }
    }

    fn verdict(&self, period: Period, now: Time, admission: Admission, receipt: Receipt) -> Verdict {
        let left = u64::from(self.quota).saturating_sub(period.taken);
        let left = u32::try_from(left).unwrap_or(self.quota);
        let next_token = match self.check(period, now, left.saturating_add(1)) {
            Admission::Refused { wait } => wait,
            _ => Span::ZERO,
        };
        Verdict { admission, left, next_token, full_at: self.full_at(period, now), receipt }
    }

    /// When the period's tokens and the debt beyond them are all returned. A period without taken tokens is dropped, as
    /// if it had never begun.
    fn full_at(&self, period: Period, now: Time) -> Time {
        if period.taken == 0 {
            return now;
        }
        self.boundary_after(period, self.boundaries_for(period.taken))
    }

    /// The boundary with this number, counted from this period; the first is its end.
    fn boundary_after(&self, period: Period, number: u64) -> Time {
        period.end.after(self.period.times(number.saturating_sub(1)))
    }

    /// The number of boundaries until this number of tokens is returned; at least one.
    fn boundaries_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(u64::from(self.quota).max(1)).max(1)
    }

    fn max_taken(&self) -> u64 {
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
