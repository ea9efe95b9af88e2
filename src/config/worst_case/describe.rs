//! Describes what one bucket admits, in words.

use tollgate_grammar::diagnostic::grouped;

use super::super::values::in_words;
use super::upper_bound::{tokens_in, upper_bound};
use crate::bucket::{Continuous, PeriodStart, Rolling, Spec};
use crate::time::Span;

/// The bound in words, and notes on its exceptions.
pub(super) fn describe(spec: Spec) -> (String, Vec<String>) {
    match spec {
        Spec::Continuous(bucket) => (steady(&spec, &[bucket]), Vec::new()),
        Spec::Distinct(distinct) => (steady(&spec, &[distinct.bucket()]), Vec::new()),
        Spec::Interval(bucket) => {
            let head = every(bucket.quota(), bucket.period(), bucket.period_start());
            (head, vec![around_a_border(&spec, "of a period")])
        }
        Spec::Rolling(window) if window.slots() == 1 => {
            let head = every(window.burst(), window.window(), window.period_start());
            (head, vec![around_a_border(&spec, "of a period")])
        }
        Spec::Rolling(window) => of_window(&window),
        Spec::Floor(both) => {
            let floor = both.floor();
            let guaranteed = format!(
                "{} at once and {} of these are guaranteed",
                number(floor.burst()),
                long_run(&[floor])
            );
            (steady(&spec, &[floor, both.pool()]), vec![guaranteed])
        }
        // The others have no tokens.
        _ => ("nothing is refused".to_owned(), Vec::new()),
    }
}

/// Notes on held attempts, the start balance and debt.
pub(super) fn extras(spec: Spec) -> Vec<String> {
    let mut notes = Vec::new();
    let (initial, debt) = match spec {
        Spec::Continuous(bucket) => {
            if bucket.hold() > Span::ZERO {
                let within = in_words(bucket.hold());
                notes.push(format!("an attempt whose tokens are due within {within} is held until then"));
            }
            (bucket.initial(), bucket.debt())
        }
        Spec::Interval(bucket) => (bucket.initial(), bucket.debt()),
        Spec::Distinct(distinct) => (distinct.bucket().initial(), 0),
        Spec::Rolling(window) => (window.initial(), window.debt()),
        Spec::Floor(both) => (both.pool().initial().saturating_add(both.floor().burst()), both.pool().debt()),
        _ => return notes,
    };
    if initial < spec.burst() {
        notes.push(format!("a new bucket starts with {}", number(initial)));
    }
    if debt > 0 {
        notes.push(format!("refused attempts cost too, {}", depth(spec, debt)));
    }
    notes
}

/// How far the debt goes, as the wait that it causes.
fn depth(spec: Spec, debt: u32) -> String {
    match longest_wait(spec) {
        Some(wait) => format!("for a wait of at most {}", in_words(Span::from_secs(wait.as_secs_ceil()))),
        None => format!("down to {} below zero in the pool", number(debt)),
    }
}

/// The longest wait for a single token if no other client takes one; `None` with a floor, whose token comes sooner.
fn longest_wait(spec: Spec) -> Option<Span> {
    match spec {
        Spec::Continuous(bucket) => {
            let debt = u64::from(bucket.debt());
            let deepest = bucket.per_token().times(debt).max(bucket.hold());
            let wait = deepest.plus(bucket.per_token()).minus(bucket.hold());
            // The time for a token is rounded up by less than a nanosecond; that must not show as a second.
            Some(wait.minus(Span::from_nanos(debt)))
        }
        Spec::Interval(bucket) => {
            let borders = (u64::from(bucket.debt()) + 1).div_ceil(u64::from(bucket.quota()).max(1));
            Some(bucket.period().times(borders))
        }
        Spec::Rolling(window) => Some(window.window()),
        Spec::Distinct(distinct) => Some(distinct.bucket().per_token()),
        _ => None,
    }
}

fn of_window(window: &Rolling) -> (String, Vec<String>) {
    let spec = Spec::Rolling(*window);
    let unit = UNITS.iter().find(|(seconds, _)| window.period() == Span::from_secs(*seconds));
    let of_periods = unit.map_or_else(
        || format!("{} whole periods of {}", window.slots(), in_words(window.period())),
        |(_, unit)| format!("{} whole {unit}", window.slots()),
    );
    let mut head = format!("at most {} in any {of_periods}", number(window.quota()));
    let across =
        format!("{} in any {}", grouped(upper_bound(&spec, window.window())), in_words(window.window()));
    let mut notes = vec![across];
    if window.burst() < window.quota() {
        head.push_str(&format!(" and {} in one", number(window.burst())));
        notes.push(around_a_border(&spec, "of one"));
    }
    if window.period_start() == PeriodStart::Clock {
        head.push_str(CLOCK);
    }
    (head, notes)
}

fn every(quota: u32, period: Span, anchor: PeriodStart) -> String {
    let clock = if anchor == PeriodStart::Clock { CLOCK } else { "" };
    format!("at most {} every {}{clock}", number(quota), in_words(period))
}

fn around_a_border(spec: &Spec, period: &str) -> String {
    format!("{} around the border {period}", grouped(upper_bound(spec, INSTANT)))
}

fn steady(spec: &Spec, buckets: &[Continuous]) -> String {
    format!("at most {} at once, then {}", number(spec.burst()), long_run(buckets))
}

/// In the shortest unit that has a whole token: "then 1 a week" says more than "then 0 a day".
fn long_run(buckets: &[Continuous]) -> String {
    for (period, name) in [(DAY, "day"), (DAY.times(7), "week"), (DAY.times(365), "year")] {
        let tokens = buckets.iter().map(|bucket| tokens_in(period, bucket.per_token()));
        let tokens = tokens.fold(0, u64::saturating_add);
        if tokens > 0 {
            return format!("{} a {name}", grouped(tokens));
        }
    }
    "less than 1 a year".to_owned()
}

fn number(tokens: u32) -> String {
    grouped(tokens.into())
}

/// The shortest span that has a border in it.
pub(super) const INSTANT: Span = Span::from_nanos(1);
pub(super) const DAY: Span = Span::from_secs(86_400);
const CLOCK: &str = " by the clock (UTC)";
const UNITS: [(u64, &str); 4] = [(1, "seconds"), (60, "minutes"), (3600, "hours"), (86_400, "days")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Admission, Interval, Op, step};
    use crate::time::Time;

    /// The longest wait that a client gets that hammers a bucket from a border on and obeys now and then.
    fn hammered(spec: Spec) -> Span {
        let mut now = Time::from_nanos(DAY.times(20_000).as_nanos());
        let (mut state, mut longest) = (vec![0; spec.words()], Span::ZERO);
        for attempt in 0..2000 {
            if let Admission::Refused { wait } = step(&spec, &mut state, now, Op::Take(1)).verdict.admission {
                longest = longest.max(wait);
                now = if attempt % 50 == 0 { now.after(wait) } else { now };
            }
        }
        longest
    }

    #[test]
    fn the_longest_wait_is_what_hammering_leads_to() {
        let bucket = Continuous::new(10, Span::from_secs(300), 10).unwrap();
        let held = bucket.with_hold(Span::from_secs(45)).unwrap();
        let interval = Interval::new(10, Span::from_secs(300), PeriodStart::Clock).unwrap();
        let window = Rolling::new(10, Span::from_secs(300), Span::from_secs(60), PeriodStart::Clock).unwrap();
        for debt in [1, 9, 10, 25] {
            for spec in [
                Spec::Continuous(bucket.with_debt(debt).unwrap()),
                Spec::Continuous(held.with_debt(debt).unwrap()),
                Spec::Interval(interval.with_debt(debt).unwrap()),
                Spec::Rolling(window.with_debt(debt).unwrap()),
            ] {
                let expected = longest_wait(spec).unwrap_or_default();
                assert_eq!(hammered(spec).as_secs_ceil(), expected.as_secs_ceil(), "{spec:?}");
            }
        }
    }
}
