//! The rolling window: at most a quota in any window of whole periods, with a counter for each period as its state.
//!
//! At each boundary the allowance of the coming period is what the last window but one period has left over, clamped at
//! zero; with a rate, at most the rate. The window is made of whole periods: the finer they are, the closer it comes to
//! a sliding window. The exact wait considers all coming boundaries, because the next one may again allow nothing.

use super::error::fitting_initial;
use super::period_counts::{PeriodCounts, Width};
use super::units::{Span, Time};
use super::{Admission, MAX_CLOCK_LAG, MAX_SPAN, PeriodStart, PlainOp, Receipt, SpecError, Step, Verdict};

/// A validated rolling window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    quota: u32,
    period: Span,
    slots: u16,
    period_start: PeriodStart,
    /// Tokens in one period at most; the quota if there is no rate.
    rate: u32,
    initial: u32,
    debt: u32,
}

impl Rolling {
    /// Periods in the longest window.
    pub const MAX_SLOTS: u16 = 1024;

    pub(super) const MAX_WORDS: usize = Width::Long.words_for(Self::MAX_SLOTS);

    /// At most `quota` tokens in any `window` of whole periods; starts full and has no debt.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(quota: u32, window: Span, period: Span, period_start: PeriodStart) -> Result<Self, SpecError> {
        if quota == 0 || window == Span::ZERO || period == Span::ZERO {
            return Err(SpecError::Zero);
        }
        if window > MAX_SPAN {
            return Err(SpecError::TooLong);
        }
        let slots = window.as_nanos().checked_div(period.as_nanos()).unwrap_or(0);
        if period.times(slots) != window {
            return Err(SpecError::NotWhole);
        }
        let slots = u16::try_from(slots).ok().filter(|slots| *slots <= Self::MAX_SLOTS);
        let slots = slots.ok_or(SpecError::TooManyPeriods)?;
        Ok(Self { quota, period, slots, period_start, rate: quota, initial: quota, debt: 0 })
    }

    /// The same window with at most `rate` tokens in each period, and as many for a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::Zero`].
    pub fn with_rate(self, rate: u32) -> Result<Self, SpecError> {
        if rate == 0 {
            return Err(SpecError::Zero);
        }
        let rate = rate.min(self.quota);
        Ok(Self { rate, initial: rate, ..self })
    }

    /// The same window with `initial` tokens in the first period of a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::InitialAboveBurst`].
    pub fn with_initial(self, initial: u32) -> Result<Self, SpecError> {
        Ok(Self { initial: fitting_initial(initial, self.rate)?, ..self })
    }

    /// The same window where refused attempts are charged, too, down to `debt` tokens below zero.
    ///
    /// # Errors
    /// [`SpecError::TooLarge`].
    pub fn with_debt(self, debt: u32) -> Result<Self, SpecError> {
        self.quota.checked_add(debt).ok_or(SpecError::TooLarge)?;
        Ok(Self { debt, ..self })
    }

    /// Tokens in any window, at least 1.
    #[must_use]
    pub fn quota(&self) -> u32 {
        self.quota
    }

    /// Tokens in one period, at least 1 and at most the quota.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.rate
    }

    /// The length of the window.
    #[must_use]
    pub fn window(&self) -> Span {
        self.period.times(self.slots.into())
    }

    /// The length of a period: how often the allowance is calculated.
    #[must_use]
    pub fn period(&self) -> Span {
        self.period
    }

    /// Periods in the window, 1 to [`Rolling::MAX_SLOTS`].
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.slots
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

    /// The span in which [`Rolling::burst`] tokens may be taken: a period if there is a rate, else the window.
    pub(super) fn policy_window(&self) -> Span {
        if self.rate < self.quota { self.period } else { self.window() }
    }

    pub(super) fn words(&self) -> usize {
        self.width().words_for(self.slots)
    }

    /// The view of this window's words.
    pub(super) fn period_counts<'s>(&self, state: &'s mut [u64]) -> Option<PeriodCounts<'s>> {
        PeriodCounts::new(state, self.slots, self.width())
    }

    /// The width of a count: none exceeds quota and debt together.
    fn width(&self) -> Width {
        Width::of(self.quota.saturating_add(self.debt))
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let Some(mut counts) = self.period_counts(state) else {
            return Step { changed: false, verdict: CORRUPT_VERDICT };
        };
        let (was_absent, repaired) = (counts.is_absent(), self.load(&mut counts, now));
        let (admission, counted) = match op {
            PlainOp::Take(cost) => self.take(&mut counts, now, cost),
            PlainOp::Peek(cost) => (self.check(&counts, now, cost), false),
            PlainOp::Give(tokens) => (Admission::Admitted, give(&mut counts, tokens)),
            PlainOp::Refund(receipt) => (Admission::Admitted, self.refund(&mut counts, receipt)),
        };
        let full_at = self.write_full_at(&mut counts, now);
        let changed = match op {
            PlainOp::Take(_) => full_at > now && (counted || was_absent || repaired),
            PlainOp::Peek(_) => false,
            PlainOp::Give(_) | PlainOp::Refund(_) => counted && !was_absent,
        };
        let receipt = Receipt::of(op, admission, counts.start().after(self.window()));
        let left = u32::try_from(self.balance(&counts)).unwrap_or(0);
        let next_token = match (op, admission) {
            _ if left == self.rate => Span::ZERO,
            // The wait is the time until that token: no second search.
            (PlainOp::Take(cost) | PlainOp::Peek(cost), Admission::Refused { wait })
                if cost == left.saturating_add(1) =>
            {
                wait
            }
            _ => self.due(&counts, left.saturating_add(1)).since(now),
        };
        Step { changed, verdict: Verdict { admission, left, next_token, full_at, receipt } }
    }

    /// Advances the counts to the current period. Returns whether the clock was set back since they were written.
    pub(super) fn load(&self, counts: &mut PeriodCounts<'_>, now: Time) -> bool {
        if counts.is_absent() {
            counts.clear(self.period_start.begin(now, self.period));
            counts.set_withheld(self.rate.saturating_sub(self.initial));
            return false;
        }
        let is_set_back = counts.start().since(now) > MAX_CLOCK_LAG;
        let ended = now.since(counts.start()).as_nanos().checked_div(self.period.as_nanos()).unwrap_or(0);
        if is_set_back {
            self.set_back(counts, now);
        } else if ended > 0 {
            counts.advance(ended, self.period);
        }
        if counts.newest_age().is_none() && counts.withheld() == 0 {
            counts.set_start(self.period_start.begin(now, self.period));
        }
        is_set_back
    }

    /// Restarts the current period, so that it neither returns a token nor lasts longer than a period. If periods
    /// follow the clock, those that will come a second time are merged into it: else each of their boundaries would
    /// move all counts on twice.
    fn set_back(&self, counts: &mut PeriodCounts<'_>, now: Time) {
        if self.period_start == PeriodStart::First || self.slots == 1 {
            // A window of one period has no other to merge: it lasts a whole period from now.
            return counts.set_start(now);
        }
        let begin = self.period_start.begin(now, self.period);
        let again = counts.start().since(begin).as_nanos().checked_div(self.period.as_nanos()).unwrap_or(0);
        counts.merge(again);
        counts.set_start(begin);
    }

    fn take(&self, counts: &mut PeriodCounts<'_>, now: Time, cost: u32) -> (Admission, bool) {
        match self.check(counts, now, cost) {
            Admission::Admitted => {
                counts.set_count(0, counts.count(0).saturating_add(cost));
                (Admission::Admitted, cost > 0)
            }
            Admission::Refused { .. } if self.debt > 0 => {
                let allowed =
                    u32::try_from(self.balance(counts).saturating_add(self.debt.into())).unwrap_or(0);
                counts.set_count(0, counts.count(0).saturating_add(cost.min(allowed)));
                (self.check(counts, now, cost), cost.min(allowed) > 0)
            }
            refusal => (refusal, false),
        }
    }

    /// Refunds to the period in which the tokens were taken, if it is still in the window.
    fn refund(&self, counts: &mut PeriodCounts<'_>, receipt: Receipt) -> bool {
        let taken_in = receipt.full_at.before(self.window());
        let age = counts.start().since(taken_in).as_nanos().checked_div(self.period.as_nanos()).unwrap_or(0);
        if taken_in.after(self.period.times(age)) != counts.start() {
            return false;
        }
        let Some(age) = usize::try_from(age).ok().filter(|age| *age < usize::from(self.slots)) else {
            return false;
        };
        let count = counts.count(age);
        counts.set_count(age, count.saturating_sub(receipt.tokens));
        counts.count(age) != count
    }

    fn check(&self, counts: &PeriodCounts<'_>, now: Time, cost: u32) -> Admission {
        if cost > self.rate {
            return Admission::NeverFits;
        }
        if i64::from(cost) <= self.balance(counts) {
            return Admission::Admitted;
        }
        Admission::Refused { wait: self.due(counts, cost).since(now) }
    }

    /// Tokens that may be taken now; below zero is debt.
    fn balance(&self, counts: &PeriodCounts<'_>) -> i64 {
        let minus =
            |size: u32, taken: u64| i64::from(size).saturating_sub(i64::try_from(taken).unwrap_or(i64::MAX));
        let this_period = u64::from(counts.count(0)).saturating_add(counts.withheld().into());
        minus(self.rate, this_period).min(minus(self.quota, counts.total()))
    }

    /// The first boundary at which this number of tokens, at most a full bucket, may be taken: the newest periods that
    /// are still counted then leave that number free.
    fn due(&self, counts: &PeriodCounts<'_>, tokens: u32) -> Time {
        let allowed = u64::from(self.quota.saturating_sub(tokens));
        let counted = counts.newest_within(allowed, usize::from(self.slots).saturating_sub(1));
        let boundaries = usize::from(self.slots).saturating_sub(counted);
        counts.start().after(self.period.times(boundaries.try_into().unwrap_or(u64::MAX)))
    }

    /// Writes the time at which the window is empty.
    pub(super) fn write_full_at(&self, counts: &mut PeriodCounts<'_>, now: Time) -> Time {
        let full_at = self.full_at(counts, now);
        counts.set_full_at(full_at);
        full_at
    }

    fn full_at(&self, counts: &PeriodCounts<'_>, now: Time) -> Time {
        let periods = match counts.newest_age() {
            Some(age) => usize::from(self.slots).saturating_sub(age),
            None if counts.withheld() > 0 => 1,
            None => return now,
        };
        counts.start().after(self.period.times(periods.try_into().unwrap_or(u64::MAX)))
    }
}

/// Adds tokens, to the newest periods first: they count longest. Withheld tokens bound only the current period.
fn give(counts: &mut PeriodCounts<'_>, tokens: u32) -> bool {
    let (withheld, before) = (counts.withheld(), counts.total());
    let beyond = tokens.saturating_sub(counts.count(0));
    counts.set_withheld(withheld.saturating_sub(beyond));
    let mut rest = tokens;
    for age in 0..counts.slots() {
        let count = counts.count(age);
        counts.set_count(age, count.saturating_sub(rest));
        rest = rest.saturating_sub(count);
    }
    (counts.withheld(), counts.total()) != (withheld, before)
}

/// The verdict of a state with too few words.
const CORRUPT_VERDICT: Verdict = Verdict {
    admission: Admission::NeverFits,
    left: 0,
    next_token: Span::ZERO,
    full_at: Time::from_nanos(0),
    receipt: Receipt { tokens: 0, full_at: Time::from_nanos(0) },
};

#[cfg(test)]
mod tests;
