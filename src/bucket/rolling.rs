//! The rolling window: at most so many in any window of whole periods, and a counter for each period as its state.
//!
//! At each border the allowance of the coming period is what the last window but one period has left over, clamped at
//! zero; with a rate, at most that. The window is made of whole periods: the finer they are, the closer it comes to
//! one that slides. The surprising thing: a wait looks at all coming borders, because the next may again allow nothing.

use super::period_counts::{PeriodCounts, Width};
use super::units::{Span, Time};
use super::{Admission, MAX_CLOCK_LAG, MAX_SPAN, PeriodStart, PlainOp, Receipt, SpecError, Step, Verdict};

/// A checked rolling window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    quota: u32,
    period: Span,
    slots: u16,
    period_start: PeriodStart,
    /// At most this many in one period; the quota if there is no rate.
    rate: u32,
    initial: u32,
    debt: u32,
}

impl Rolling {
    /// Periods in the longest window.
    pub const MAX_SLOTS: u16 = 1024;

    pub(super) const MAX_WORDS: usize = Width::Long.words_for(Self::MAX_SLOTS);

    /// At most `quota` tokens in any `window` of whole periods; starts full and knows no debt.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new(quota: u32, window: Span, period: Span, anchor: PeriodStart) -> Result<Self, SpecError> {
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
        Ok(Self { quota, period, slots, period_start: anchor, rate: quota, initial: quota, debt: 0 })
    }

    /// The same with at most `rate` tokens in each period, and that many for a key that was never seen.
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

    /// The same with `initial` tokens in the first period of a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::InitialAboveBurst`].
    pub fn with_initial(self, initial: u32) -> Result<Self, SpecError> {
        if initial > self.rate {
            return Err(SpecError::InitialAboveBurst);
        }
        Ok(Self { initial, ..self })
    }

    /// The same where refused attempts are counted as well, down to `debt` tokens below zero.
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

    /// How often the allowance is calculated anew.
    #[must_use]
    pub fn period(&self) -> Span {
        self.period
    }

    /// Periods in the window, 1 to [`Rolling::MOST_SLOTS`].
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

    /// The span in which [`Rolling::burst`] tokens may be taken: a period where a rate says so.
    pub(super) fn policy_window(&self) -> Span {
        if self.rate < self.quota { self.period } else { self.window() }
    }

    pub(super) fn words(&self) -> usize {
        self.width().words_for(self.slots)
    }

    /// This window's view of its words.
    pub(super) fn period_counts<'s>(&self, state: &'s mut [u64]) -> Option<PeriodCounts<'s>> {
        PeriodCounts::new(state, self.slots, self.width())
    }

    /// No count is larger than all of them and the debt may be.
    fn width(&self) -> Width {
        Width::of(self.quota.saturating_add(self.debt))
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let Some(mut ring) = self.period_counts(state) else {
            return Step { changed: false, verdict: CORRUPT_VERDICT };
        };
        let (was_absent, repaired) = (ring.is_absent(), self.load(&mut ring, now));
        let (answer, counted) = match op {
            PlainOp::Take(cost) => self.take(&mut ring, now, cost),
            PlainOp::Peek(cost) => (self.check(&ring, now, cost), false),
            PlainOp::Give(tokens) => (Admission::Admitted, give(&mut ring, tokens)),
            PlainOp::Refund(receipt) => (Admission::Admitted, self.refund(&mut ring, receipt)),
        };
        let full_at = self.write_full_at(&mut ring, now);
        let changed = match op {
            PlainOp::Take(_) => full_at > now && (counted || was_absent || repaired),
            PlainOp::Peek(_) => false,
            PlainOp::Give(_) | PlainOp::Refund(_) => counted && !was_absent,
        };
        let receipt = Receipt::of(op, answer, ring.start().after(self.window()));
        let left = u32::try_from(self.balance(&ring)).unwrap_or(0);
        let next_token = match (op, answer) {
            _ if left == self.rate => Span::ZERO,
            // Looked for already.
            (PlainOp::Take(cost) | PlainOp::Peek(cost), Admission::Refused { wait })
                if cost == left.saturating_add(1) =>
            {
                wait
            }
            _ => self.due(&ring, left.saturating_add(1)).since(now),
        };
        Step { changed, verdict: Verdict { admission: answer, left, next_token, full_at, receipt } }
    }

    /// Brings the counts up to the period that is on. Says whether the clock was set back since they were written.
    pub(super) fn load(&self, ring: &mut PeriodCounts<'_>, now: Time) -> bool {
        if ring.is_absent() {
            ring.clear(self.period_start.begin(now, self.period));
            ring.set_withheld(self.rate.saturating_sub(self.initial));
            return false;
        }
        let is_set_back = ring.start().since(now) > MAX_CLOCK_LAG;
        let ended = now.since(ring.start()).as_nanos().checked_div(self.period.as_nanos()).unwrap_or(0);
        if is_set_back {
            self.set_back(ring, now);
        } else if ended > 0 {
            ring.advance(ended, self.period);
        }
        if ring.newest_age().is_none() && ring.withheld() == 0 {
            ring.set_start(self.period_start.begin(now, self.period));
        }
        is_set_back
    }

    /// The period that was on begins anew, so that it can neither give a token nor last longer than it may. Where
    /// periods follow the clock, those that will come a second time are made one with it: each of their borders moves
    /// all counts on, and would do so twice.
    fn set_back(&self, ring: &mut PeriodCounts<'_>, now: Time) {
        if self.period_start == PeriodStart::First || self.slots == 1 {
            // A window of one period has nothing to be made one with: it lasts for a whole one from now.
            return ring.set_start(now);
        }
        let begin = self.period_start.begin(now, self.period);
        let again = ring.start().since(begin).as_nanos().checked_div(self.period.as_nanos()).unwrap_or(0);
        ring.merge(again);
        ring.set_start(begin);
    }

    fn take(&self, ring: &mut PeriodCounts<'_>, now: Time, cost: u32) -> (Admission, bool) {
        match self.check(ring, now, cost) {
            Admission::Admitted => {
                ring.set_count(0, ring.count(0).saturating_add(cost));
                (Admission::Admitted, cost > 0)
            }
            Admission::Refused { .. } if self.debt > 0 => {
                let room = u32::try_from(self.balance(ring).saturating_add(self.debt.into())).unwrap_or(0);
                ring.set_count(0, ring.count(0).saturating_add(cost.min(room)));
                (self.check(ring, now, cost), cost.min(room) > 0)
            }
            answer => (answer, false),
        }
    }

    /// Out of the period in which it was taken, if that is still remembered.
    fn refund(&self, ring: &mut PeriodCounts<'_>, receipt: Receipt) -> bool {
        let taken_in = receipt.full_at.before(self.window());
        let age = ring.start().since(taken_in).as_nanos().checked_div(self.period.as_nanos()).unwrap_or(0);
        if taken_in.after(self.period.times(age)) != ring.start() {
            return false;
        }
        let Some(age) = usize::try_from(age).ok().filter(|age| *age < usize::from(self.slots)) else {
            return false;
        };
        let count = ring.count(age);
        ring.set_count(age, count.saturating_sub(receipt.tokens));
        ring.count(age) != count
    }

    fn check(&self, ring: &PeriodCounts<'_>, now: Time, cost: u32) -> Admission {
        if cost > self.rate {
            return Admission::NeverFits;
        }
        if i64::from(cost) <= self.balance(ring) {
            return Admission::Admitted;
        }
        Admission::Refused { wait: self.due(ring, cost).since(now) }
    }

    /// Tokens that may be taken now; below zero is debt.
    fn balance(&self, ring: &PeriodCounts<'_>) -> i64 {
        let minus =
            |size: u32, taken: u64| i64::from(size).saturating_sub(i64::try_from(taken).unwrap_or(i64::MAX));
        let this_period = u64::from(ring.count(0)).saturating_add(ring.withheld().into());
        minus(self.rate, this_period).min(minus(self.quota, ring.total()))
    }

    /// The first border at which so many tokens, at most a full bucket, may be taken: as many of the youngest periods
    /// are still counted then as leave room for them.
    fn due(&self, ring: &PeriodCounts<'_>, tokens: u32) -> Time {
        let room = u64::from(self.quota.saturating_sub(tokens));
        let counted = ring.newest_within(room, usize::from(self.slots).saturating_sub(1));
        let borders = usize::from(self.slots).saturating_sub(counted);
        ring.start().after(self.period.times(borders.try_into().unwrap_or(u64::MAX)))
    }

    /// Writes down when nothing is counted any more.
    pub(super) fn write_full_at(&self, ring: &mut PeriodCounts<'_>, now: Time) -> Time {
        let full_at = self.full_at(ring, now);
        ring.set_full_at(full_at);
        full_at
    }

    fn full_at(&self, ring: &PeriodCounts<'_>, now: Time) -> Time {
        let periods = match ring.newest_age() {
            Some(age) => usize::from(self.slots).saturating_sub(age),
            None if ring.withheld() > 0 => 1,
            None => return now,
        };
        ring.start().after(self.period.times(periods.try_into().unwrap_or(u64::MAX)))
    }
}

/// The youngest first: they count longest. What was withheld bounds only the period that is on.
fn give(ring: &mut PeriodCounts<'_>, tokens: u32) -> bool {
    let (withheld, before) = (ring.withheld(), ring.total());
    let beyond = tokens.saturating_sub(ring.count(0));
    ring.set_withheld(withheld.saturating_sub(beyond));
    let mut rest = tokens;
    for age in 0..ring.slots() {
        let count = ring.count(age);
        ring.set_count(age, count.saturating_sub(rest));
        rest = rest.saturating_sub(count);
    }
    (ring.withheld(), ring.total()) != (withheld, before)
}

/// What a state says that has too few words to be one.
const CORRUPT_VERDICT: Verdict = Verdict {
    admission: Admission::NeverFits,
    left: 0,
    next_token: Span::ZERO,
    full_at: Time::from_nanos(0),
    receipt: Receipt { tokens: 0, full_at: Time::from_nanos(0) },
};

#[cfg(test)]
mod tests;
