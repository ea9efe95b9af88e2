//! The buckets decide as the models do, and say the same: answer, wait, tokens left, the next one, full again.

use proptest::prelude::*;
use tollgate::bucket::{Admission, Op, Spec, Time};
use tollgate::time::Span;

use super::model::{self, Said};
use super::promise::Admitted;
use super::samples::{Course, Dice, attempts, cases, initial, longest_wait, of};
use support::bucket::Bucket;

const ONE: Span = Span::from_nanos(1);

/// One course through bucket and model.
fn decides_as_the_model_does(spec: Spec, seeds: &[u64]) -> Result<(), TestCaseError> {
    let (mut bucket, mut model, mut course) = (Bucket::new(spec), model::of(&spec), Course::new(&spec));
    let mut admitted = Admitted::default();
    for seed in seeds {
        let (now, cost) = course.next(*seed);
        peeks_as_the_model_answers(&bucket, &*model, now, cost)?;
        let is_new = admitted.first_visit.is_none();
        let step = bucket.run(now, Op::Take(cost));
        prop_assert_eq!(Said::from(step.verdict), model.take(now, cost), "at {:?} for {}", now, cost);
        if !step.verdict.is_admitted() && !spec.has_debt() {
            prop_assert_eq!(step.changed, is_new && initial(&spec) < spec.burst(), "a refusal is free");
        }
        if let Admission::Refused { wait } = step.verdict.admission {
            let at = |time| bucket.look(time, Op::Take(cost)).verdict.is_admitted();
            prop_assert!(!at(now.after(wait).before(ONE)), "one nanosecond early");
            prop_assert!(at(now.after(wait)), "at the time that was named");
            prop_assert!(wait <= longest_wait(&spec, cost), "{wait:?}");
        }
        if step.verdict.is_admitted() && cost > 0 {
            admitted.list.push((now, cost));
        }
        admitted.first_visit.get_or_insert(now);
        course.told(step.verdict);
    }
    admitted.keep(&spec)
}

fn peeks_as_the_model_answers(
    bucket: &Bucket,
    model: &dyn model::Model,
    now: Time,
    cost: u32,
) -> Result<(), TestCaseError> {
    let peeked = bucket.look(now, Op::Peek(cost));
    prop_assert!(!peeked.changed);
    prop_assert_eq!(peeked.verdict.admission, model.answer(now, cost), "a peek");
    prop_assert_eq!(peeked.verdict.left, model.left(now), "a peek");
    Ok(())
}

/// A bucket that is full again may be forgotten: an absent one says the same from then on.
fn may_be_forgotten(spec: Spec, seeds: &[u64], rest: &[u64]) -> Result<(), TestCaseError> {
    let (mut kept, mut course) = (Bucket::new(spec), Course::new(&spec));
    for seed in seeds {
        let (now, cost) = course.next(*seed);
        course.told(kept.run(now, Op::Take(cost)).verdict);
    }
    let said = kept.look(course.now, Op::Peek(1)).verdict;
    prop_assert!(said.full_at <= course.now.after(spec.max_ttl()));
    course.now = said.full_at;
    let mut forgotten = Bucket::new(spec);
    for seed in rest {
        let (now, cost) = course.next(*seed);
        let verdict = kept.run(now, Op::Take(cost)).verdict;
        prop_assert_eq!(verdict, forgotten.run(now, Op::Take(cost)).verdict, "at {:?} for {}", now, cost);
        course.told(verdict);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_continuous_bucket_is_a_level_that_rises_with_time(spec in of(Dice::continuous), seeds in attempts()) {
        decides_as_the_model_does(Spec::Continuous(spec), &seeds)?;
    }

    #[test]
    fn an_interval_bucket_is_full_again_at_each_border(spec in of(Dice::interval), seeds in attempts()) {
        decides_as_the_model_does(Spec::Interval(spec), &seeds)?;
    }

    #[test]
    fn a_rolling_window_is_a_count_of_whole_periods(spec in of(Dice::rolling), seeds in attempts()) {
        decides_as_the_model_does(Spec::Rolling(spec), &seeds)?;
    }

    #[test]
    fn a_floor_and_a_pool_are_two_levels_side_by_side(spec in of(Dice::floor), seeds in attempts()) {
        decides_as_the_model_does(Spec::Floor(spec), &seeds)?;
    }

    #[test]
    fn a_bucket_that_is_full_again_may_be_forgotten(
        spec in of(Dice::full_when_new), seeds in attempts(), rest in attempts(),
    ) {
        may_be_forgotten(spec, &seeds, &rest)?;
    }
}
