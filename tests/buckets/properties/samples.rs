//! Random specs, and random courses of attempts: bunched, idle, and on borders to the nanosecond.
//!
//! All of it comes from single numbers, because drawing many values one by one takes longer than deciding on them.

use proptest::prelude::*;
use tollgate::bucket::{
    Admission, Continuous, Distinct, Escalation, Floor, Interval, PeriodStart, Rolling, Spec, Time, Verdict,
};
use tollgate::time::Span;

/// On no border of any period that is drawn here.
pub(crate) const START: Time = Time::from_nanos(1_800_000_000_123_456_789);

pub(crate) fn cases() -> ProptestConfig {
    let chosen = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { chosen.cases } else { 2_500 };
    ProptestConfig { cases, failure_persistence: None, ..chosen }
}

/// Numbers out of a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// At least 0 and less than `end` (SplitMix64).
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn upto(&mut self, last: u32) -> u32 {
        self.below(u64::from(last) + 1) as u32
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// From one nanosecond to ten days.
    fn span(&mut self) -> Span {
        let magnitude = [10, 1000, 1_000_000, 1_000_000_000, 60_000_000_000, 864_000_000_000_000];
        let most = magnitude[self.below(6) as usize];
        Span::from_nanos(1 + self.below(most))
    }

    /// Mostly a few, sometimes many.
    fn size(&mut self) -> u32 {
        if self.one_in(4) { 1 + self.upto(100_000) } else { 1 + self.upto(9) }
    }

    /// How many a new client gets of so many: mostly all.
    fn share(&mut self, size: u32) -> u32 {
        if self.one_in(3) { self.upto(size) } else { size }
    }

    fn debt(&mut self) -> u32 {
        if self.one_in(3) { self.upto(20) } else { 0 }
    }

    fn anchor(&mut self) -> PeriodStart {
        if self.one_in(2) { PeriodStart::First } else { PeriodStart::Clock }
    }

    /// So large that a bucket takes three years to fill at most.
    fn fitting(&mut self, per_token: Span) -> u32 {
        let most = 100_000_000_000_000_000 / per_token.as_nanos();
        u64::from(self.size()).min(most) as u32
    }

    pub(crate) fn continuous(&mut self) -> Continuous {
        let (count, period) = (1 + self.upto(4), self.span());
        let period = period.plus(Span::from_nanos(5));
        let burst = self.fitting(period);
        let spec = Continuous::new(count, period, burst).unwrap();
        let spec = spec.with_initial(self.share(burst)).unwrap().with_debt(self.debt()).unwrap();
        let hold = if self.one_in(4) { self.below(3 * spec.per_token().as_nanos() + 1) } else { 0 };
        spec.with_hold(Span::from_nanos(hold)).unwrap()
    }

    pub(crate) fn interval(&mut self) -> Interval {
        let (quota, period) = (self.size(), self.span());
        let spec = Interval::new(quota, period, self.anchor()).unwrap();
        spec.with_initial(self.share(quota)).unwrap().with_debt(self.debt()).unwrap()
    }

    pub(crate) fn rolling(&mut self) -> Rolling {
        let slots = if self.one_in(8) { 1 + self.below(40) } else { 1 + self.below(6) };
        let (quota, every) = (self.size(), self.span());
        let mut spec = Rolling::new(quota, every.times(slots), every, self.anchor()).unwrap();
        if self.one_in(2) {
            spec = spec.with_rate(1 + self.upto(quota)).unwrap();
        }
        spec.with_initial(self.share(spec.burst())).unwrap().with_debt(self.debt()).unwrap()
    }

    pub(crate) fn floor(&mut self) -> Floor {
        let mut small = || {
            let (count, period, burst) = (1 + self.upto(4), self.span(), 1 + self.upto(9));
            let spec = Continuous::new(count, period.plus(Span::from_nanos(5)), burst).unwrap();
            spec.with_initial(self.share(burst)).unwrap().with_debt(self.debt()).unwrap()
        };
        Floor::new(small(), small()).unwrap()
    }

    pub(crate) fn distinct(&mut self) -> Distinct {
        let bucket = self.continuous();
        let repeats = if self.one_in(2) { Some(self.upto(6)) } else { None };
        Distinct::new(bucket, repeats).unwrap()
    }

    pub(crate) fn escalation(&mut self) -> Escalation {
        let (wait, times) = (self.span(), 1 + self.below(50));
        Escalation::new(1 + self.upto(5), wait, 1 + self.upto(4), wait.times(times)).unwrap()
    }

    /// Any shape, with nothing that makes a new bucket differ from a full one.
    pub(crate) fn full_when_new(&mut self) -> Spec {
        match self.spec() {
            Spec::Continuous(spec) => Spec::Continuous(spec.with_initial(spec.burst()).unwrap()),
            Spec::Interval(spec) => Spec::Interval(spec.with_initial(spec.quota()).unwrap()),
            Spec::Rolling(spec) => Spec::Rolling(spec.with_initial(spec.burst()).unwrap()),
            Spec::Floor(spec) => {
                let pool = spec.pool().with_initial(spec.pool().burst()).unwrap();
                Spec::Floor(Floor::new(spec.floor(), pool).unwrap())
            }
            Spec::Distinct(spec) => {
                let bucket = spec.bucket().with_initial(spec.bucket().burst()).unwrap();
                Spec::Distinct(Distinct::new(bucket, spec.repeats()).unwrap())
            }
            spec @ (Spec::Escalation(_) | Spec::Recent(_)) => spec,
        }
    }

    /// Any shape with free refusals and nothing held, its periods on the clock's grid.
    pub(crate) fn plain(&mut self) -> Spec {
        match self.spec() {
            Spec::Continuous(spec) => {
                Spec::Continuous(spec.with_debt(0).unwrap().with_hold(Span::ZERO).unwrap())
            }
            Spec::Interval(spec) => {
                let (quota, initial) = (spec.quota(), spec.initial());
                let spec = Interval::new(quota, spec.period(), PeriodStart::Clock).unwrap();
                Spec::Interval(spec.with_initial(initial).unwrap())
            }
            Spec::Rolling(spec) => {
                let (rate, initial) = (spec.burst(), spec.initial());
                let spec =
                    Rolling::new(spec.quota(), spec.window(), spec.period(), PeriodStart::Clock).unwrap();
                Spec::Rolling(spec.with_rate(rate).unwrap().with_initial(initial).unwrap())
            }
            Spec::Floor(spec) => {
                Spec::Floor(Floor::new(spec.floor(), spec.pool().with_debt(0).unwrap()).unwrap())
            }
            spec @ (Spec::Distinct(_) | Spec::Escalation(_) | Spec::Recent(_)) => spec,
        }
    }

    /// Any shape that has tokens.
    pub(crate) fn spec(&mut self) -> Spec {
        match self.below(5) {
            0 => Spec::Continuous(self.continuous()),
            1 => Spec::Interval(self.interval()),
            2 => Spec::Rolling(self.rolling()),
            3 => Spec::Floor(self.floor()),
            _ => Spec::Distinct(self.distinct()),
        }
    }

    /// Any shape at all.
    pub(crate) fn any(&mut self) -> Spec {
        if self.one_in(6) { Spec::Escalation(self.escalation()) } else { self.spec() }
    }
}

/// Tokens of a bucket that was never seen.
pub(crate) fn initial(spec: &Spec) -> u32 {
    match spec {
        Spec::Continuous(spec) => spec.initial(),
        Spec::Interval(spec) => spec.initial(),
        Spec::Rolling(spec) => spec.initial(),
        Spec::Floor(spec) => spec.floor().burst() + spec.pool().initial(),
        Spec::Distinct(spec) => spec.bucket().initial(),
        Spec::Escalation(spec) => spec.after(),
        Spec::Recent(_) => spec.burst(),
    }
}

/// What is wanted, and all the debt there may be before it.
pub(crate) fn longest_wait(spec: &Spec, cost: u32) -> Span {
    match spec {
        Spec::Continuous(spec) => spec.per_token().times(u64::from(cost) + u64::from(spec.debt())),
        Spec::Interval(spec) => {
            let tokens = u64::from(cost) + u64::from(spec.debt());
            spec.period().times(tokens.div_ceil(spec.quota().into()))
        }
        Spec::Rolling(spec) => spec.window(),
        Spec::Floor(_) => spec.max_ttl(),
        Spec::Distinct(spec) => spec.bucket().per_token().times(cost.into()),
        Spec::Escalation(spec) => spec.max(),
        Spec::Recent(spec) => spec.ttl(),
    }
}

/// Any spec of one shape.
pub(crate) fn of<T: std::fmt::Debug>(draw: impl Fn(&mut Dice) -> T) -> impl Strategy<Value = T> {
    any::<u64>().prop_map(move |seed| draw(&mut Dice(seed)))
}

/// Attempts; what they are depends on what the last one was told.
pub(crate) fn attempts() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 1..50)
}

/// Makes attempts out of numbers.
pub(crate) struct Course {
    pub(crate) now: Time,
    unit: Span,
    burst: u32,
    last: Option<Verdict>,
}

impl Course {
    pub(crate) fn new(spec: &Spec) -> Self {
        let unit = match spec {
            Spec::Continuous(spec) => spec.per_token(),
            Spec::Interval(spec) => spec.period(),
            Spec::Rolling(spec) => spec.period(),
            Spec::Floor(spec) => spec.pool().per_token(),
            Spec::Distinct(spec) => spec.bucket().per_token(),
            Spec::Escalation(spec) => spec.wait(),
            Spec::Recent(spec) => spec.ttl(),
        };
        Self { now: START, unit, burst: spec.burst(), last: None }
    }

    /// What the last attempt was told.
    pub(crate) fn told(&mut self, verdict: Verdict) {
        self.last = Some(verdict);
    }

    /// When the next attempt is made, and what it costs.
    pub(crate) fn next(&mut self, seed: u64) -> (Time, u32) {
        let mut dice = Dice(seed);
        self.now = self.later(&mut dice);
        (self.now, self.cost(&mut dice))
    }

    fn later(&self, dice: &mut Dice) -> Time {
        let (now, unit) = (self.now, self.unit);
        let thousandths = |count: u64| {
            let nanos = u128::from(unit.as_nanos()) * u128::from(count) / 1000;
            now.after(Span::from_nanos(nanos as u64))
        };
        match (dice.below(16), self.last) {
            (0..5, _) => now,
            (5, _) => now.after(Span::from_nanos(1)),
            (6..9, _) => thousandths(dice.below(1500)),
            (9, _) => thousandths(dice.below(30_000)),
            (10, _) => {
                let border = (now.as_nanos() / unit.as_nanos() + 1) * unit.as_nanos();
                about(Time::from_nanos(border), dice).max(now)
            }
            (11..14, Some(Verdict { admission: Admission::Refused { wait }, .. })) => {
                about(now.after(wait), dice).max(now)
            }
            (11..14, Some(said)) => about(now.after(said.next_token), dice).max(now),
            (_, Some(said)) => about(said.full_at, dice).max(now),
            (_, None) => now,
        }
    }

    fn cost(&self, dice: &mut Dice) -> u32 {
        match dice.below(16) {
            0..10 => 1,
            10 => 0,
            11 => self.burst.saturating_add(1),
            12 => self.burst,
            13 => 1 + dice.upto(4),
            _ => dice.upto(self.burst),
        }
    }
}

/// That time, or one nanosecond before or after it.
fn about(time: Time, dice: &mut Dice) -> Time {
    let one = Span::from_nanos(1);
    [time, time.before(one), time.after(one)][dice.below(3) as usize]
}
