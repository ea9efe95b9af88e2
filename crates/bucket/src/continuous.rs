//! The continuous bucket: a size, a steady refill, and a single number as its state.
//!
//! GCRA in its virtual scheduling form (ITU-T I.371): with time per token `t`, size `B` and theoretical arrival time
//! `tat`, an attempt of cost `n` is admitted iff `max(tat, now) + n*t - now <= B*t`, and then `tat` becomes
//! `max(tat, now) + n*t`. Debt, start balance, refund and exact wait all use `tat` alone.
//!
//! Rounding: `t` is the period divided by the count, rounded **up** to a whole nanosecond, so that a bucket never
//! refills faster than specified (slower by less than one nanosecond a token).

use super::error::fitting_initial;
use super::units::{Span, Time};
use super::{Admission, MAX_CLOCK_LAG, MAX_SPAN, PlainOp, Receipt, SpecError, Step, Verdict, stored_time};

/// A validated continuous bucket: burst, time per token, start balance, debt and hold fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continuous {
    per_token: Span,
    burst: u32,
    initial: u32,
    debt: u32,
    hold: Span,
}

impl Continuous {
    pub(super) const WORDS: usize = 1;

    /// `count` tokens each `period` into a bucket of `burst` tokens, which starts full and has no debt.
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
        Self { per_token, burst, initial: burst, debt: 0, hold: Span::ZERO }.validated()
    }

    /// The same bucket with `initial` tokens for a key that was never seen.
    ///
    /// # Errors
    /// [`SpecError::InitialAboveBurst`].
    pub fn with_initial(self, initial: u32) -> Result<Self, SpecError> {
        Ok(Self { initial: fitting_initial(initial, self.burst)?, ..self })
    }

    /// The same bucket where refused attempts are charged, too, down to `debt` tokens below zero.
    ///
    /// # Errors
    /// [`SpecError::TooLong`].
    pub fn with_debt(self, debt: u32) -> Result<Self, SpecError> {
        Self { debt, ..self }.validated()
    }

    /// The same bucket where an attempt whose tokens are due within `hold` takes them now and passes when they are due.
    ///
    /// # Errors
    /// [`SpecError::TooLong`].
    pub fn with_hold(self, hold: Span) -> Result<Self, SpecError> {
        Self { hold, ..self }.validated()
    }

    fn validated(self) -> Result<Self, SpecError> {
        let tokens = u64::from(self.burst).checked_add(u64::from(self.debt));
        let nanos = tokens.and_then(|tokens| tokens.checked_mul(self.per_token.as_nanos()));
        match nanos.and_then(|nanos| nanos.checked_add(self.hold.as_nanos())) {
            Some(nanos) if nanos <= MAX_SPAN.as_nanos() => Ok(self),
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

    /// The longest that an attempt is held instead of refused.
    #[must_use]
    pub fn hold(&self) -> Span {
        self.hold
    }

    /// The longest time to live of a state.
    pub(super) fn max_ttl(&self) -> Span {
        self.window().plus(self.time_for(self.debt).max(self.hold))
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let stored = state.first().copied().and_then(stored_time);
        let tat = self.load(stored, now);
        let (admission, next) = match op {
            PlainOp::Take(cost) => self.take(tat, now, cost),
            PlainOp::Peek(cost) => (self.check(tat, now, cost), tat),
            PlainOp::Give(tokens) => (Admission::Admitted, tat.before(self.time_for(tokens)).max(now)),
            PlainOp::Refund(receipt) => (Admission::Admitted, self.refund(tat, now, receipt)),
        };
        let changed = match op {
            // A full state needs no write. A state from before the clock was set back is written again, or it would
            // not refill until the clock has caught up.
            PlainOp::Take(_) => next > now && stored != Some(next),
            PlainOp::Peek(_) => false,
            PlainOp::Give(_) | PlainOp::Refund(_) => stored.is_some() && next != tat,
        };
        if let Some(word) = state.first_mut() {
            *word = next.as_nanos();
        }
        let verdict = Verdict {
            admission,
            left: self.left(next, now),
            next_token: self.next_token(next, now),
            full_at: next,
            receipt: self.receipt(op, admission, now),
        };
        Step { changed, verdict }
    }

    /// The stored time, but never before now (an old state is a full bucket) and never beyond the deepest debt: a clock
    /// that was set back can neither refill a bucket nor lock it for longer than its own depth.
    pub(super) fn load(&self, stored: Option<Time>, now: Time) -> Time {
        match stored {
            None => now.after(self.time_for(self.burst.saturating_sub(self.initial))),
            Some(tat) if tat.since(now) > self.max_ttl().plus(MAX_CLOCK_LAG) => now.after(self.max_ttl()),
            Some(tat) => tat.max(now),
        }
    }

    /// A refusal without debt takes nothing. With a start balance below full the state is written all the same: the
    /// refill has to begin then, or the client would find the same balance each time.
    fn take(&self, tat: Time, now: Time, cost: u32) -> (Admission, Time) {
        match self.check(tat, now, cost) {
            admission if admission.is_admitted() => (admission, tat.after(self.time_for(cost))),
            Admission::Refused { .. } if self.debt > 0 => {
                let next = self.charge_refused(tat, now, cost);
                (self.check(next, now, cost), next)
            }
            admission => (admission, tat),
        }
    }

    /// The next state after a refused attempt: it takes its tokens, too, as far as the debt goes.
    pub(super) fn charge_refused(&self, tat: Time, now: Time, cost: u32) -> Time {
        let deepest = now.after(self.window()).after(self.time_for(self.debt));
        tat.after(self.time_for(cost)).min(deepest).max(tat)
    }

    /// A receipt whose tokens come back first, whatever else is missing: see [`Receipt`].
    fn receipt(&self, op: PlainOp, admission: Admission, now: Time) -> Receipt {
        let (PlainOp::Take(cost) | PlainOp::Peek(cost)) = op else { return Receipt::default() };
        Receipt::of(op, admission, now.after(self.time_for(cost)))
    }

    /// By `full_at` time has returned all tokens of the receipt; what time has returned is not refunded again.
    pub(super) fn refund(&self, tat: Time, now: Time, receipt: Receipt) -> Time {
        let due = self.time_for(receipt.tokens).min(receipt.full_at.since(now));
        tat.before(due).max(now)
    }

    fn check(&self, tat: Time, now: Time, cost: u32) -> Admission {
        if cost > self.burst {
            return Admission::NeverFits;
        }
        match self.due(tat, cost).since(now) {
            Span::ZERO => Admission::Admitted,
            hold if hold <= self.hold => Admission::Held { hold },
            lacking => Admission::Refused { wait: lacking.minus(self.hold) },
        }
    }

    /// When the bucket has this number of tokens.
    pub(super) fn due(&self, tat: Time, tokens: u32) -> Time {
        tat.before(self.time_for(self.burst.saturating_sub(tokens)))
    }

    pub(super) fn left(&self, tat: Time, now: Time) -> u32 {
        let left = self.window().minus(tat.since(now)).as_nanos().checked_div(self.per_token.as_nanos());
        left.and_then(|left| u32::try_from(left).ok()).unwrap_or(self.burst)
    }

    fn next_token(&self, tat: Time, now: Time) -> Span {
        self.due(tat, self.left(tat, now).saturating_add(1)).since(now)
    }

    pub(super) fn time_for(&self, tokens: u32) -> Span {
        self.per_token.times(tokens.into())
    }
}

#[cfg(test)]
mod tests;
