//! Two levels side by side; who waits is told the first moment at which both together have enough.

use tollgate::bucket::{Admission, Floor, Time};
use tollgate::time::Span;

use super::{Model, Steady};

#[derive(Debug, Clone)]
pub(crate) struct Pair {
    spec: Floor,
    floor: Steady,
    pool: Steady,
}

impl Pair {
    pub(crate) fn new(spec: Floor) -> Self {
        Self { spec, floor: Steady::new(spec.floor()), pool: Steady::new(spec.pool()) }
    }

    /// The first moment at which so many are there: every moment is tried at which one of both gets a token.
    fn due(&self, now: Time, tokens: u32) -> Time {
        let mut known = self.clone();
        known.visit(now);
        let moments = |of: &Steady, burst: u32| {
            let level = of.level(now);
            let lacking = (1..=burst).map(|count| of.tokens(count) - level);
            lacking.filter(|nanos| *nanos > 0).map(super::steady::span).collect::<Vec<_>>()
        };
        let mut moments = [
            moments(&known.floor, self.spec.floor().burst()),
            moments(&known.pool, self.spec.pool().burst()),
        ]
        .concat();
        moments.sort_unstable();
        let due = moments.into_iter().map(|wait| now.after(wait)).find(|at| known.left(*at) >= tokens);
        due.unwrap()
    }
}

impl Model for Pair {
    fn visit(&mut self, now: Time) {
        self.floor.visit(now);
        self.pool.visit(now);
    }

    fn answer(&self, now: Time, cost: u32) -> Admission {
        match self.left(now) {
            _ if cost > self.spec.burst() => Admission::NeverFits,
            left if cost <= left => Admission::Admitted,
            _ => Admission::Refused { wait: self.due(now, cost).since(now) },
        }
    }

    fn admit(&mut self, now: Time, cost: u32) {
        let of_floor = cost.min(self.floor.left(now));
        self.floor.admit(now, of_floor);
        self.pool.admit(now, cost - of_floor);
    }

    fn debt(&self) -> u32 {
        self.spec.pool().debt()
    }

    fn indebt(&mut self, now: Time, cost: u32) {
        self.floor.admit(now, 0);
        self.pool.indebt(now, cost);
    }

    /// What the floor gave is lost.
    fn forget(&mut self, attempt: usize) {
        self.pool.forget(attempt);
    }

    fn left(&self, now: Time) -> u32 {
        self.floor.left(now) + self.pool.left(now)
    }

    fn next_token(&self, now: Time) -> Span {
        match self.left(now) {
            all if all == self.spec.burst() => Span::ZERO,
            left => self.due(now, left + 1).since(now),
        }
    }

    fn full_at(&self, now: Time) -> Time {
        self.floor.full_at(now).max(self.pool.full_at(now))
    }
}
