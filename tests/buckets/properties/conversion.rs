//! A limit is changed: full stays full, drained stays drained, what lies between is in proportion and rounded against
//! the client; and from then on the new promise holds.

use proptest::prelude::*;
use tollgate::bucket::{Admission, Op, PeriodStart, Rolling, Spec, Time, convert};
use tollgate::time::Span;

use super::promise::Admitted;
use super::samples::{Course, Dice, attempts, cases, longest_wait, of};
use support::bucket::Bucket;

fn converted(mut from: Bucket, to: Spec, now: Time) -> Bucket {
    let mut after = Bucket::new(to);
    let before = &mut from.state[..from.spec.words()];
    convert(&from.spec, before, &to, &mut after.state[..to.words()], now);
    after
}

/// A bucket that has been used for a while, and when.
fn used(spec: Spec, seeds: &[u64]) -> (Bucket, Time) {
    let (mut bucket, mut course) = (Bucket::new(spec), Course::new(&spec));
    for seed in seeds {
        let (now, cost) = course.next(*seed);
        course.told(bucket.run(now, Op::Take(cost)).verdict);
    }
    (bucket, course.now)
}

/// Whether a window also bounds each of its periods: then it has two levels.
fn has_rate(spec: &Spec) -> bool {
    matches!(spec, Spec::Rolling(rolling) if rolling.burst() < rolling.quota())
}

fn keeps_its_level(before: &Bucket, after: &Bucket, now: Time) -> Result<(), TestCaseError> {
    let (was, is) = (before.look(now, Op::Peek(1)).verdict, after.look(now, Op::Peek(1)).verdict);
    let (from, to) = (u128::from(before.spec.burst()), u128::from(after.spec.burst()));
    if was.full_at <= now {
        prop_assert_eq!(is.left, after.spec.burst(), "full stays full");
        prop_assert_eq!(is.full_at, now);
        return Ok(());
    }
    // A level is known to the nanosecond where it is a time, and in whole tokens everywhere else.
    let fraction = u128::from(matches!(before.spec, Spec::Continuous(_) | Spec::Distinct(_)));
    let most = (u128::from(was.left) + fraction) * to / from;
    prop_assert!(u128::from(is.left) <= most, "{} of {to}, from {} of {from}", is.left, was.left);
    if has_rate(&before.spec) {
        return Ok(());
    }
    let rounded = if matches!(after.spec, Spec::Floor(_)) { 2 } else { 1 };
    let least = (u128::from(was.left) * to / from).saturating_sub(rounded);
    prop_assert!(u128::from(is.left) >= least, "{} of {to}, from {} of {from}", is.left, was.left);
    Ok(())
}

/// What was taken before the change is not in the list, so the list alone has to keep the promise.
fn keeps_the_new_promise(mut bucket: Bucket, now: Time, seeds: &[u64]) -> Result<(), TestCaseError> {
    let (spec, mut course) = (bucket.spec, Course::new(&bucket.spec));
    let mut admitted = Admitted { began_before: true, ..Admitted::default() };
    course.now = now;
    for seed in seeds {
        let (now, cost) = course.next(*seed);
        let said = bucket.run(now, Op::Take(cost)).verdict;
        if let Admission::Refused { wait } = said.admission {
            let at = |time| bucket.look(time, Op::Take(cost)).verdict.is_admitted();
            prop_assert!(!at(now.after(wait).before(Span::from_nanos(1))), "one nanosecond early");
            prop_assert!(at(now.after(wait)), "at the time that was named");
            prop_assert!(wait <= longest_wait(&spec, cost), "deeper in debt than there is debt: {wait:?}");
        }
        if said.is_admitted() && cost > 0 {
            admitted.list.push((now, cost));
        }
        course.told(said);
    }
    admitted.keep(&spec)
}

/// Whether more than the level survives: each part of a floor and a pool has its own, each period its count.
fn has_parts_in_common(from: &Spec, to: &Spec) -> bool {
    match (from, to) {
        (Spec::Floor(_), Spec::Floor(_)) => true,
        (Spec::Rolling(from), Spec::Rolling(to)) => {
            from.period() == to.period() && from.period_start() == to.period_start()
        }
        _ => false,
    }
}

/// Two windows over the same periods.
fn windows(dice: &mut Dice) -> (Rolling, Rolling) {
    let one = dice.rolling();
    let slots = u64::from(one.slots()) + dice.below(3);
    let other =
        Rolling::new(1 + dice.upto(50), one.period().times(slots), one.period(), one.period_start()).unwrap();
    (one, other.with_debt(dice.upto(3)).unwrap())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_level_stays_in_proportion(from in of(Dice::spec), to in of(Dice::spec), seeds in attempts()) {
        let (before, now) = used(from, &seeds);
        let after = converted(before, to, now);
        prop_assert_eq!(after.state[0] == 0, before.state[0] == 0, "absent stays absent");
        if before.state[0] != 0 && !has_parts_in_common(&from, &to) {
            keeps_its_level(&before, &after, now)?;
        }
    }

    #[test]
    fn a_full_bucket_stays_full(from in of(Dice::spec), to in of(Dice::spec), seeds in attempts()) {
        let (before, now) = used(from, &seeds);
        let full_at = before.look(now, Op::Peek(1)).verdict.full_at;
        prop_assert_eq!(before.look(full_at, Op::Peek(1)).verdict.left, from.burst());
        let after = converted(before, to, full_at);
        prop_assert!(after.look(full_at, Op::Peek(1)).verdict.left == to.burst() || before.state[0] == 0);
    }

    #[test]
    fn the_same_spec_changes_nothing(spec in of(Dice::spec), seeds in attempts()) {
        let (before, now) = used(spec, &seeds);
        prop_assert_eq!(converted(before, spec, now), before);
    }

    #[test]
    fn what_was_converted_keeps_the_new_promise(
        from in of(Dice::spec), to in of(Dice::spec), seeds in attempts(), rest in attempts(),
    ) {
        let (before, now) = used(from, &seeds);
        keeps_the_new_promise(converted(before, to, now), now, &rest)?;
    }

    #[test]
    fn a_window_over_the_same_periods_keeps_its_history(
        (from, to) in of(windows), seeds in attempts(), rest in attempts(),
    ) {
        let (before, now) = used(Spec::Rolling(from), &seeds);
        let after = converted(before, Spec::Rolling(to), now);
        if before.state[0] != 0 && from.burst() == from.quota() && from.initial() == from.quota() {
            keeps_its_level(&before, &after, now)?;
        }
        if from.period_start() == PeriodStart::Clock {
            let (was, is) = (before.look(now, Op::Peek(1)).verdict, after.look(now, Op::Peek(1)).verdict);
            let grown = to.window().minus(from.window());
            prop_assert!(is.full_at <= was.full_at.after(grown), "nothing is remembered for longer");
        }
        keeps_the_new_promise(after, now, &rest)?;
    }
}
