//! A bucket as one would draw it: a level that rises with time up to its brim, and falls with every attempt.
//!
//! The level is in nanoseconds of refill: a token is as many as it takes to come.

use tollgate::bucket::{Admission, Continuous, Time};
use tollgate::time::Span;

use super::Model;

#[derive(Debug, Clone)]
pub(crate) struct Steady {
    spec: Continuous,
    first_visit: Option<Time>,
    taken: Vec<(Time, i128)>,
}

impl Steady {
    pub(crate) fn new(spec: Continuous) -> Self {
        Self { spec, first_visit: None, taken: Vec::new() }
    }

    pub(crate) fn tokens(&self, count: u32) -> i128 {
        i128::from(count) * i128::from(self.spec.per_token().as_nanos())
    }

    pub(crate) fn level(&self, now: Time) -> i128 {
        let brim = self.tokens(self.spec.burst());
        let mut level = self.tokens(self.spec.initial());
        let mut at = self.first_visit.unwrap_or(now);
        for (time, nanos) in self.taken.iter().chain([&(now, 0)]) {
            level = brim.min(level + i128::from(time.since(at).as_nanos())) - nanos;
            at = *time;
        }
        level
    }
}

impl Model for Steady {
    fn visit(&mut self, now: Time) {
        self.first_visit.get_or_insert(now);
    }

    fn answer(&self, now: Time, cost: u32) -> Admission {
        if cost > self.spec.burst() {
            return Admission::NeverFits;
        }
        let lacking = self.tokens(cost) - self.level(now);
        let hold = i128::from(self.spec.hold().as_nanos());
        match lacking {
            ..=0 => Admission::Admitted,
            _ if lacking <= hold => Admission::Held { hold: span(lacking) },
            _ => Admission::Refused { wait: span(lacking - hold) },
        }
    }

    fn admit(&mut self, now: Time, cost: u32) {
        self.taken.push((now, self.tokens(cost)));
    }

    fn debt(&self) -> u32 {
        self.spec.debt()
    }

    fn indebt(&mut self, now: Time, cost: u32) {
        let room = self.level(now) + self.tokens(self.spec.debt());
        self.taken.push((now, self.tokens(cost).min(room.max(0))));
    }

    fn forget(&mut self, attempt: usize) {
        self.taken[attempt].1 = 0;
    }

    fn left(&self, now: Time) -> u32 {
        (self.level(now).max(0) / self.tokens(1)) as u32
    }

    fn next_token(&self, now: Time) -> Span {
        match self.left(now) {
            all if all == self.spec.burst() => Span::ZERO,
            left => span(self.tokens(left + 1) - self.level(now)),
        }
    }

    fn full_at(&self, now: Time) -> Time {
        now.after(span(self.tokens(self.spec.burst()) - self.level(now)))
    }
}

pub(crate) fn span(nanos: i128) -> Span {
    Span::from_nanos(nanos.try_into().unwrap())
}
