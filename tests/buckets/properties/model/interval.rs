//! Periods, walked through one after the other: each border pays for one quota of what was taken.

use tollgate::bucket::{Admission, Interval, PeriodStart, Time};
use tollgate::time::Span;

use super::Model;

#[derive(Debug, Clone)]
pub(crate) struct Periods {
    spec: Interval,
    taken: Vec<(Time, u64)>,
    first_visit: Option<(Time, u64)>,
}

/// A period that is on: when it ends and what was taken in it.
type On = Option<(Time, u64)>;

impl Periods {
    pub(crate) fn new(spec: Interval) -> Self {
        Self { spec, taken: Vec::new(), first_visit: None }
    }

    fn missing_at_first(&self) -> u64 {
        u64::from(self.spec.quota() - self.spec.initial())
    }

    fn until(&self, mut on: On, now: Time) -> On {
        while let Some((end, taken)) = on {
            if end > now {
                break;
            }
            let rest = taken.saturating_sub(self.spec.quota().into());
            on = (rest > 0).then_some((end.after(self.spec.period()), rest));
        }
        on
    }

    fn new_end(&self, now: Time) -> Time {
        let period = self.spec.period();
        match self.spec.period_start() {
            PeriodStart::First => now.after(period),
            PeriodStart::Clock => {
                Time::from_nanos((now.as_nanos() / period.as_nanos() + 1) * period.as_nanos())
            }
        }
    }

    fn on(&self, now: Time) -> On {
        let mut on = None;
        for (time, cost) in self.first_visit.iter().chain(&self.taken) {
            on = self.until(on, *time);
            if *cost > 0 {
                let (end, taken) = on.unwrap_or((self.new_end(*time), 0));
                on = Some((end, taken + cost));
            }
        }
        self.until(on, now)
    }

    fn taken(&self, now: Time) -> u64 {
        if self.first_visit.is_none() {
            return self.missing_at_first();
        }
        self.on(now).map_or(0, |(_, taken)| taken)
    }

    /// The first border at which no more than so many are taken.
    fn border(&self, now: Time, taken: u64) -> Time {
        let (mut end, mut rest) = self.on(now).unwrap();
        loop {
            rest = rest.saturating_sub(self.spec.quota().into());
            if rest <= taken {
                return end;
            }
            end = end.after(self.spec.period());
        }
    }
}

impl Model for Periods {
    fn visit(&mut self, now: Time) {
        let missing = self.missing_at_first();
        self.first_visit.get_or_insert((now, missing));
    }

    fn answer(&self, now: Time, cost: u32) -> Admission {
        let quota = self.spec.quota();
        if cost > quota {
            return Admission::NeverFits;
        }
        if self.taken(now) + u64::from(cost) <= u64::from(quota) {
            return Admission::Admitted;
        }
        let mut known = self.clone();
        known.visit(now);
        Admission::Refused { wait: known.border(now, u64::from(quota - cost)).since(now) }
    }

    fn admit(&mut self, now: Time, cost: u32) {
        self.taken.push((now, cost.into()));
    }

    fn debt(&self) -> u32 {
        self.spec.debt()
    }

    fn indebt(&mut self, now: Time, cost: u32) {
        let deepest = u64::from(self.spec.quota()) + u64::from(self.spec.debt());
        let room = deepest.saturating_sub(self.taken(now));
        self.taken.push((now, room.min(cost.into())));
    }

    fn forget(&mut self, attempt: usize) {
        self.taken[attempt].1 = 0;
    }

    fn left(&self, now: Time) -> u32 {
        u64::from(self.spec.quota()).saturating_sub(self.taken(now)) as u32
    }

    fn next_token(&self, now: Time) -> Span {
        match self.left(now) {
            all if all == self.spec.quota() => Span::ZERO,
            left => self.border(now, u64::from(self.spec.quota() - left - 1)).since(now),
        }
    }

    fn full_at(&self, now: Time) -> Time {
        if self.on(now).is_none() { now } else { self.border(now, 0) }
    }
}
