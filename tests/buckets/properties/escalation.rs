//! Waits grow as the model says; a client that obeys its wait passes; no wait is longer than the maximum, whatever the
//! clock does; and a dropped state was due to be dropped.

use proptest::prelude::*;
use tollgate::bucket::{Admission, Escalation, Op, Spec, Time, Verdict, convert};
use tollgate::time::Span;

use super::model::{Event, Struck};
use super::samples::{Dice, START, attempts, cases, of};
use support::bucket::Bucket;

const ONE: Span = Span::from_nanos(1);
/// A thread may decide with a time that is a little old.
const LATE: Span = Span::from_secs(1);

/// Mostly soon, sometimes at the end of a wait or when all is forgotten.
fn later(now: Time, dice: &mut Dice, spec: &Escalation, said: Verdict) -> Time {
    let about =
        |time: Time, dice: &mut Dice| [time, time.before(ONE), time.after(ONE)][dice.below(3) as usize];
    let later = match (dice.below(12), said.admission) {
        (0..6, _) => now,
        (6, _) => now.after(Span::from_nanos(dice.below(spec.wait().as_nanos() + 1))),
        (7, _) => now.after(Span::from_nanos(dice.below(spec.max().as_nanos() + 1))),
        (8..11, Admission::Refused { wait }) => about(now.after(wait), dice),
        (8..11, _) => now,
        _ => about(said.full_at, dice),
    };
    later.max(now)
}

fn event(dice: &mut Dice) -> Option<Event> {
    match dice.below(8) {
        0 => Some(Event::WentWell),
        1..7 => Some(Event::Strike),
        _ => None,
    }
}

fn happens(bucket: &mut Bucket, now: Time, event: Event) {
    let op = if event == Event::Strike { Op::Strike } else { Op::Give(1) };
    let _ = bucket.run(now, op);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn waits_grow_as_the_model_says(spec in of(Dice::escalation), seeds in attempts()) {
        let (mut bucket, mut model) = (Bucket::new(Spec::Escalation(spec)), Struck::new(spec));
        let mut now = START;
        for seed in seeds {
            let mut dice = Dice(seed);
            now = later(now, &mut dice, &spec, bucket.look(now, Op::Peek(1)).verdict);
            if let Some(event) = event(&mut dice) {
                happens(&mut bucket, now, event);
                model.happens(now, event);
            }
            let taken = bucket.run(now, Op::Take(dice.upto(9)));
            prop_assert!(!taken.changed, "an attempt by itself is nothing to remember");
            let Verdict { admission, left, full_at, .. } = taken.verdict;
            prop_assert_eq!((admission, left, full_at), (model.answer(now), model.left(now), model.full_at(now)));
            if let Admission::Refused { wait } = admission {
                prop_assert!(wait <= spec.max());
                prop_assert!(!bucket.look(now.after(wait).before(ONE), Op::Take(1)).verdict.is_admitted());
                prop_assert!(bucket.look(now.after(wait), Op::Take(1)).verdict.is_admitted());
            }
        }
    }

    #[test]
    fn what_is_forgotten_may_be_forgotten(
        spec in of(Dice::escalation), seeds in attempts(), rest in attempts(),
    ) {
        let (mut kept, mut now) = (Bucket::new(Spec::Escalation(spec)), START);
        for seed in seeds {
            let mut dice = Dice(seed);
            now = later(now, &mut dice, &spec, kept.look(now, Op::Peek(1)).verdict);
            event(&mut dice).into_iter().for_each(|event| happens(&mut kept, now, event));
        }
        let full_at = kept.look(now, Op::Peek(1)).verdict.full_at;
        prop_assert!(full_at <= now.after(kept.spec.max_ttl()));
        now = full_at;
        let mut forgotten = Bucket::new(kept.spec);
        for seed in rest {
            let mut dice = Dice(seed);
            let said = kept.look(now, Op::Peek(1)).verdict;
            prop_assert_eq!(said, forgotten.look(now, Op::Peek(1)).verdict, "at {:?}", now);
            now = later(now, &mut dice, &spec, said);
            if let Some(event) = event(&mut dice) {
                happens(&mut kept, now, event);
                happens(&mut forgotten, now, event);
            }
        }
    }

    #[test]
    fn after_a_step_of_the_clock_no_wait_is_longer_than_the_longest(
        spec in of(Dice::escalation), seeds in attempts(),
    ) {
        let (mut bucket, mut now) = (Bucket::new(Spec::Escalation(spec)), START);
        for seed in seeds {
            let mut dice = Dice(seed);
            let longest = [10, 2_000_000_000, 30_000_000_000_000_000][dice.below(3) as usize];
            let by = Span::from_nanos(dice.below(longest));
            now = match dice.below(4) {
                0 => now.before(by).max(Time::from_nanos(1_000_000_000_000_000)),
                1 => now.after(by),
                _ => later(now, &mut dice, &spec, bucket.look(now, Op::Peek(1)).verdict),
            };
            event(&mut dice).into_iter().for_each(|event| happens(&mut bucket, now, event));
            let said = bucket.run(now, Op::Take(1)).verdict;
            prop_assert!(said.full_at <= now.after(bucket.spec.max_ttl()).after(LATE), "remembered for too long");
            let Admission::Refused { wait } = said.admission else { continue };
            prop_assert!(wait <= spec.max().plus(LATE), "waits for {wait:?}");
            prop_assert!(bucket.look(now.after(wait), Op::Take(1)).verdict.is_admitted(), "it was obeyed");
        }
    }

    #[test]
    fn a_changed_limit_keeps_the_wait_that_is_on_as_far_as_it_may_last(
        from in of(Dice::escalation), to in of(Dice::escalation), seeds in attempts(),
    ) {
        let (mut before, mut now) = (Bucket::new(Spec::Escalation(from)), START);
        for seed in seeds {
            let mut dice = Dice(seed);
            now = later(now, &mut dice, &from, before.look(now, Op::Peek(1)).verdict);
            event(&mut dice).into_iter().for_each(|event| happens(&mut before, now, event));
        }
        let (was, mut after) = (before.look(now, Op::Peek(1)).verdict, Bucket::new(Spec::Escalation(to)));
        convert(&before.spec, &mut before.state[..3], &after.spec, &mut after.state[..3], now);
        let is = after.look(now, Op::Peek(1)).verdict;
        match (was.admission, is.admission) {
            (Admission::Refused { wait: was }, Admission::Refused { wait: is }) => prop_assert_eq!(is, was.min(to.max())),
            (was, is) => prop_assert_eq!(was, is),
        }
        if was.admission == Admission::Admitted && is.left > 0 && is.full_at > now {
            let strikes = from.after() - was.left;
            prop_assert_eq!(to.after() - is.left, strikes.min(to.after() - 1));
        }
        prop_assert!(is.full_at <= now.after(after.spec.max_ttl()));
    }
}
