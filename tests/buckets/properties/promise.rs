//! The promises in words, held against the list of what was admitted: no model and no bucket is asked.

use proptest::prelude::*;
use tollgate::bucket::{Continuous, Floor, Interval, PeriodStart, Rolling, Spec, Time};

/// Attempts that were admitted, with their costs, and when the bucket was first seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admitted {
    pub(crate) first_visit: Option<Time>,
    pub(crate) list: Vec<(Time, u32)>,
    /// Whether the period that was on first had begun with an attempt that is not in the list.
    pub(crate) began_before: bool,
}

impl Admitted {
    pub(crate) fn keep(self, spec: &Spec) -> Result<(), TestCaseError> {
        match spec {
            Spec::Continuous(spec) => self.in_any_window(&|nanos| of_steady(spec, nanos)),
            Spec::Distinct(spec) => self.in_any_window(&|nanos| of_steady(&spec.bucket(), nanos)),
            Spec::Escalation(_) | Spec::Recent(_) => Ok(()),
            Spec::Floor(spec) => self.in_any_window(&|nanos| of_floor(spec, nanos)),
            Spec::Interval(spec) => self.in_each_period(spec),
            Spec::Rolling(spec) => self.in_consecutive_periods(spec),
        }
    }

    /// At most so many tokens within so many nanoseconds, both ends counted.
    fn in_any_window(&self, most: &dyn Fn(u64) -> u128) -> Result<(), TestCaseError> {
        for (first, (from, _)) in self.list.iter().enumerate() {
            let mut tokens = 0_u128;
            for (to, cost) in &self.list[first..] {
                tokens += u128::from(*cost);
                prop_assert!(tokens <= most(to.since(*from).as_nanos()), "{tokens} from {from:?} to {to:?}");
            }
        }
        Ok(())
    }

    fn in_each_period(&self, spec: &Interval) -> Result<(), TestCaseError> {
        let (quota, period) = (u128::from(spec.quota()), spec.period().as_nanos());
        self.in_any_window(&|nanos| if nanos < period { 2 * quota } else { u128::MAX })?;
        // Debt makes periods follow each other without a gap, and nothing in the list tells of it.
        if spec.period_start() == PeriodStart::First && (spec.debt() > 0 || self.began_before) {
            return Ok(());
        }
        let (mut begin, mut tokens) = (None, 0);
        let first = self.first_visit.filter(|_| spec.initial() < spec.quota()).map(|time| (time, 0));
        for (time, cost) in first.into_iter().chain(self.list.iter().copied()) {
            let is_on = |begin: Time| time.since(begin).as_nanos() < period;
            if !begin.is_some_and(is_on) {
                let since_border = match spec.period_start() {
                    PeriodStart::First => 0,
                    PeriodStart::Clock => time.as_nanos() % period,
                };
                (begin, tokens) = (Some(Time::from_nanos(time.as_nanos() - since_border)), 0);
            }
            tokens += u128::from(cost);
            prop_assert!(tokens <= quota, "{tokens} in the period from {begin:?}");
        }
        Ok(())
    }

    fn in_consecutive_periods(&self, spec: &Rolling) -> Result<(), TestCaseError> {
        let (quota, rate) = (u128::from(spec.quota()), u128::from(spec.burst()));
        let (period, slots) = (spec.period().as_nanos(), u64::from(spec.slots()));
        if spec.period_start() == PeriodStart::Clock {
            let number = |time: Time| Time::from_nanos(time.as_nanos() / period);
            let list = self.list.iter().map(|(time, cost)| (number(*time), *cost)).collect();
            let by_number = Self { list, ..self.clone() };
            by_number.in_any_window(&|periods| if periods == 0 { rate } else { u128::MAX })?;
            return by_number.in_any_window(&|periods| if periods < slots { quota } else { u128::MAX });
        }
        // A span of all periods but one, wherever it begins, touches as many periods as the window has.
        self.in_any_window(&|nanos| if nanos <= (slots - 1) * period { quota } else { u128::MAX })?;
        self.in_any_window(&|nanos| if nanos < period { 2 * rate } else { u128::MAX })
    }
}

fn of_steady(spec: &Continuous, nanos: u64) -> u128 {
    let refill = u128::from(nanos) + u128::from(spec.hold().as_nanos());
    u128::from(spec.burst()) + refill / u128::from(spec.per_token().as_nanos())
}

fn of_floor(spec: &Floor, nanos: u64) -> u128 {
    of_steady(&spec.floor(), nanos) + of_steady(&spec.pool(), nanos)
}
