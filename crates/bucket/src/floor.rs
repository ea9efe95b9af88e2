//! The floor next to a pool: a guaranteed slow bucket that is spent first, and a burst pool for the rest.
//!
//! An attempt is refused only if both together have too few tokens. A refund goes to the pool alone: floor tokens that
//! are not used are lost, and if a take and a refund turned them into pool tokens, the pool would refill at the rate of
//! the floor.

use super::units::{Span, Time};
use super::{Admission, Continuous, PlainOp, Receipt, SpecError, Step, Verdict, stored_time};

/// A validated floor next to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    floor: Continuous,
    pool: Continuous,
}

/// The theoretical arrival times of pool and floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FloorState {
    pub(super) pool: Time,
    pub(super) floor: Time,
}

impl Floor {
    pub(super) const WORDS: usize = 3;

    /// `floor` in addition to `pool`. Start balance and debt are those of the pool; those of the floor are ignored.
    ///
    /// # Errors
    /// [`SpecError::TooLarge`].
    pub fn new(floor: Continuous, pool: Continuous) -> Result<Self, SpecError> {
        floor.burst().checked_add(pool.burst()).ok_or(SpecError::TooLarge)?;
        let (floor, pool) = (floor.with_initial(floor.burst())?.with_debt(0)?, pool.with_hold(Span::ZERO)?);
        Ok(Self { floor: floor.with_hold(Span::ZERO)?, pool })
    }

    /// The guaranteed bucket.
    #[must_use]
    pub fn floor(&self) -> Continuous {
        self.floor
    }

    /// The pool next to the floor.
    #[must_use]
    pub fn pool(&self) -> Continuous {
        self.pool
    }

    /// Tokens in both together when full.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.floor.burst().saturating_add(self.pool.burst())
    }

    /// Time until both are full.
    #[must_use]
    pub fn window(&self) -> Span {
        self.floor.window().max(self.pool.window())
    }

    /// The longest time to live of a state.
    pub(super) fn max_ttl(&self) -> Span {
        self.floor.max_ttl().max(self.pool.max_ttl())
    }

    pub(super) fn step(&self, state: &mut [u64], now: Time, op: PlainOp) -> Step {
        let stored = stored(state);
        let before = self.load(stored, now);
        let mut receipt = Receipt::default();
        let (admission, after) = match op {
            PlainOp::Take(cost) => self.take(before, now, cost, &mut receipt),
            PlainOp::Peek(cost) => (self.check(before, now, cost), before),
            PlainOp::Give(tokens) => (Admission::Admitted, self.give(before, now, tokens)),
            PlainOp::Refund(taken) => (
                Admission::Admitted,
                FloorState { pool: self.pool.refund(before.pool, now, taken), ..before },
            ),
        };
        let changed = match op {
            PlainOp::Take(_) => {
                after.full_at() > now && stored.map(|times| times.not_before(now)) != Some(after)
            }
            PlainOp::Peek(_) => false,
            PlainOp::Give(_) | PlainOp::Refund(_) => stored.is_some() && after != before,
        };
        after.write(state);
        let left = self.left(after, now);
        let next_token = match left == self.burst() {
            true => Span::ZERO,
            false => self.due(after, now, left.saturating_add(1)).since(now),
        };
        Step { changed, verdict: Verdict { admission, left, next_token, full_at: after.full_at(), receipt } }
    }

    pub(super) fn load(&self, stored: Option<FloorState>, now: Time) -> FloorState {
        FloorState {
            pool: self.pool.load(stored.map(|times| times.pool), now),
            floor: self.floor.load(stored.map(|times| times.floor), now),
        }
    }

    fn take(
        &self,
        before: FloorState,
        now: Time,
        cost: u32,
        receipt: &mut Receipt,
    ) -> (Admission, FloorState) {
        match self.check(before, now, cost) {
            Admission::Admitted => {
                let of_floor = cost.min(self.floor.left(before.floor, now));
                let of_pool = cost.saturating_sub(of_floor);
                let after = FloorState {
                    pool: before.pool.after(self.pool.time_for(of_pool)),
                    floor: before.floor.after(self.floor.time_for(of_floor)),
                };
                *receipt = Receipt { tokens: of_pool, full_at: now.after(self.pool.time_for(of_pool)) };
                (Admission::Admitted, after)
            }
            Admission::Refused { .. } if self.pool.debt() > 0 => {
                let after = FloorState { pool: self.pool.charge_refused(before.pool, now, cost), ..before };
                (self.check(after, now, cost), after)
            }
            refusal => (refusal, before),
        }
    }

    /// Adds tokens to the pool first: the floor refills soon anyway.
    fn give(&self, before: FloorState, now: Time, tokens: u32) -> FloorState {
        let pool = before.pool.before(self.pool.time_for(tokens)).max(now);
        let taken = before.pool.since(pool).as_nanos().div_ceil(self.pool.per_token().as_nanos().max(1));
        let rest = tokens.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
        let floor = before.floor.before(self.floor.time_for(rest)).max(now);
        FloorState { pool, floor }
    }

    fn check(&self, times: FloorState, now: Time, cost: u32) -> Admission {
        if cost > self.burst() {
            return Admission::NeverFits;
        }
        if cost <= self.left(times, now) {
            return Admission::Admitted;
        }
        Admission::Refused { wait: self.due(times, now, cost).since(now) }
    }

    pub(super) fn left(&self, times: FloorState, now: Time) -> u32 {
        self.floor.left(times.floor, now).saturating_add(self.pool.left(times.pool, now))
    }

    /// When both together have this number of tokens, at most a full bucket.
    ///
    /// The tokens can be shared between floor and pool in several ways, and the earliest way counts. With each token
    /// more from the floor its part is due later and the pool's part earlier, so the best share is where the two cross;
    /// bisection finds it.
    fn due(&self, times: FloorState, now: Time, tokens: u32) -> Time {
        let floor_due = |of_floor: u32| self.floor.due(times.floor, of_floor).max(now);
        let pool_due = |of_floor: u32| self.pool.due(times.pool, tokens.saturating_sub(of_floor)).max(now);
        let (mut low, mut high) = (tokens.saturating_sub(self.pool.burst()), tokens.min(self.floor.burst()));
        while low < high {
            let middle = low.midpoint(high);
            if floor_due(middle) >= pool_due(middle) {
                high = middle;
            } else {
                low = middle.saturating_add(1);
            }
        }
        // A share of zero waits for nothing, not even for the debt of that bucket.
        let with = |of_floor: u32| match of_floor {
            0 => pool_due(0),
            all if all >= tokens => floor_due(all),
            _ => floor_due(of_floor).max(pool_due(of_floor)),
        };
        let lower = low.saturating_sub(1).max(tokens.saturating_sub(self.pool.burst()));
        with(low).min(with(lower))
    }
}

pub(super) fn stored(state: &[u64]) -> Option<FloorState> {
    let &[full_at, pool, floor] = state.first_chunk()?;
    stored_time(full_at)?;
    Some(FloorState { pool: Time::from_nanos(pool), floor: Time::from_nanos(floor) })
}

impl FloorState {
    pub(super) fn write(self, state: &mut [u64]) {
        if let Some(words) = state.first_chunk_mut() {
            *words = [self.full_at().as_nanos(), self.pool.as_nanos(), self.floor.as_nanos()];
        }
    }

    fn not_before(self, now: Time) -> Self {
        Self { pool: self.pool.max(now), floor: self.floor.max(now) }
    }

    fn full_at(self) -> Time {
        self.pool.max(self.floor)
    }
}

#[cfg(test)]
mod tests;
