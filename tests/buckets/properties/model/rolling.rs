//! Whole periods on a grid, and how much was taken in each: every question counts them all.

use tollgate::bucket::{Admission, PeriodStart, Rolling, Time};
use tollgate::time::Span;

use super::Model;

#[derive(Debug, Clone)]
pub(crate) struct Windows {
    spec: Rolling,
    taken: Vec<(Time, u64)>,
    first_visit: Option<Time>,
}

impl Windows {
    pub(crate) fn new(spec: Rolling) -> Self {
        Self { spec, taken: Vec::new(), first_visit: None }
    }

    fn period(&self) -> u64 {
        self.spec.period().as_nanos()
    }

    /// The number of a time's period on the grid that begins there.
    fn number(&self, origin: Time, time: Time) -> u64 {
        time.since(origin).as_nanos() / self.period()
    }

    fn border(&self, origin: Time, number: u64) -> Time {
        origin.after(self.spec.period().times(number))
    }

    /// What does not count as taken, but is not there in the first period.
    fn withheld(&self, origin: Time, now: Time) -> u64 {
        let first = self.first_visit.unwrap_or(now);
        let is_first = first >= origin && self.number(origin, first) == self.number(origin, now);
        if is_first { u64::from(self.spec.burst() - self.spec.initial()) } else { 0 }
    }

    /// Taken in the period of `now`, and in the window that ends with it.
    fn counted(&self, origin: Time, now: Time) -> (u64, u64) {
        let (mut in_period, mut in_window) = (0, 0);
        let on = self.number(origin, now);
        for (time, cost) in self.taken.iter().filter(|(time, _)| *time >= origin && *time <= now) {
            let age = on - self.number(origin, *time);
            in_period += if age == 0 { *cost } else { 0 };
            in_window += if age < u64::from(self.spec.slots()) { *cost } else { 0 };
        }
        (in_period, in_window)
    }

    fn is_forgotten(&self, origin: Time, now: Time) -> bool {
        self.counted(origin, now).1 == 0 && self.withheld(origin, now) == 0
    }

    /// Where the grid begins that is on: with 1970, or with the first attempt after all was forgotten.
    fn origin(&self, now: Time) -> Time {
        if self.spec.period_start() == PeriodStart::Clock {
            return Time::default();
        }
        let mut origin = self.first_visit.unwrap_or(now);
        let mut before = self.clone();
        before.taken.clear();
        for (time, cost) in &self.taken {
            if before.is_forgotten(origin, *time) {
                origin = *time;
            }
            before.taken.push((*time, *cost));
        }
        if before.is_forgotten(origin, now) { now } else { origin }
    }

    fn balance(&self, origin: Time, now: Time) -> i64 {
        let (in_period, in_window) = self.counted(origin, now);
        let of_rate = i64::from(self.spec.burst()) - (in_period + self.withheld(origin, now)) as i64;
        of_rate.min(i64::from(self.spec.quota()) - in_window as i64)
    }

    /// The first coming border at which this is so.
    fn first_border(&self, now: Time, holds: impl Fn(Time, Time) -> bool) -> Time {
        let origin = self.origin(now);
        let on = self.number(origin, now);
        let borders = (1..=u64::from(self.spec.slots())).map(|more| self.border(origin, on + more));
        borders.into_iter().find(|border| holds(origin, *border)).unwrap()
    }
}

impl Model for Windows {
    fn visit(&mut self, now: Time) {
        self.first_visit.get_or_insert(now);
    }

    fn answer(&self, now: Time, cost: u32) -> Admission {
        if cost > self.spec.burst() {
            return Admission::NeverFits;
        }
        if i64::from(cost) <= self.balance(self.origin(now), now) {
            return Admission::Admitted;
        }
        let mut known = self.clone();
        known.visit(now);
        let due = known.first_border(now, |origin, border| i64::from(cost) <= known.balance(origin, border));
        Admission::Refused { wait: due.since(now) }
    }

    fn admit(&mut self, now: Time, cost: u32) {
        self.taken.push((now, cost.into()));
    }

    fn debt(&self) -> u32 {
        self.spec.debt()
    }

    fn indebt(&mut self, now: Time, cost: u32) {
        let room = self.balance(self.origin(now), now) + i64::from(self.spec.debt());
        self.taken.push((now, u64::from(cost).min(room.max(0) as u64)));
    }

    fn forget(&mut self, attempt: usize) {
        self.taken[attempt].1 = 0;
    }

    fn left(&self, now: Time) -> u32 {
        self.balance(self.origin(now), now).max(0) as u32
    }

    fn next_token(&self, now: Time) -> Span {
        match self.left(now) {
            all if all == self.spec.burst() => Span::ZERO,
            left => {
                let more = i64::from(left) + 1;
                self.first_border(now, |origin, border| more <= self.balance(origin, border)).since(now)
            }
        }
    }

    fn full_at(&self, now: Time) -> Time {
        match self.is_forgotten(self.origin(now), now) {
            true => now,
            false => self.first_border(now, |origin, border| self.is_forgotten(origin, border)),
        }
    }
}
