//! Two gates went their own ways with a bucket: what is made of both is as strict as either, at once and from then on.

use proptest::prelude::*;
use tollgate::bucket::{Op, Spec, Time, join};

use super::samples::{Course, Dice, START, attempts, cases, of};
use support::bucket::Bucket;

/// The same bucket after some more attempts, and when the last of them was.
fn further(mut bucket: Bucket, now: Time, seeds: &[u64]) -> (Bucket, Time) {
    let mut course = Course::new(&bucket.spec);
    course.now = now;
    for seed in seeds {
        let (now, cost) = course.next(*seed);
        let is_strike = matches!(bucket.spec, Spec::Escalation(_)) && seed % 2 == 0;
        let op = if is_strike { Op::Strike } else { Op::Take(cost) };
        course.told(bucket.run(now, op).verdict);
    }
    (bucket, course.now)
}

/// Both in one, and whether the second one had something to say.
fn joined(one: &Bucket, mut two: Bucket, now: Time) -> (Bucket, bool) {
    let (mut joined, words) = (*one, one.spec.words());
    let is_more = join(&one.spec, &mut joined.state[..words], &mut two.state[..words], now);
    (joined, is_more)
}

/// Whether it was ever used; one that was not may have less than one that is full again.
fn is_known(bucket: &Bucket) -> bool {
    bucket.state[0] != 0
}

fn as_strict(joined: &Bucket, one: &Bucket, now: Time, cost: u32) -> Result<(), TestCaseError> {
    let (is, was) = (joined.look(now, Op::Peek(cost)).verdict, one.look(now, Op::Peek(cost)).verdict);
    prop_assert!(is.left <= was.left, "{} left of {}, at {now:?}", is.left, was.left);
    prop_assert!(was.is_admitted() || !is.is_admitted(), "{cost} at {now:?}: {:?} of {:?}", is, was);
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn both_in_one_are_as_strict_as_either_from_then_on(
        spec in of(Dice::any), common in attempts(), first in attempts(), second in attempts(), later in attempts(),
    ) {
        let (parted, now) = further(Bucket::new(spec), START, &common);
        let ((one, at_one), (two, at_two)) = (further(parted, now, &first), further(parted, now, &second));
        let now = at_one.max(at_two);
        let (joined, is_more) = joined(&one, two, now);
        let mut course = Course::new(&spec);
        course.now = now;
        for seed in later {
            for bucket in [&one, &two].into_iter().filter(|bucket| is_known(bucket)) {
                as_strict(&joined, bucket, course.now, Dice(seed).upto(spec.burst()))?;
            }
            if !is_more {
                as_strict(&one, &joined, course.now, 1)?;
            }
            course.told(joined.look(course.now, Op::Peek(1)).verdict);
            course.next(seed);
        }
    }

    #[test]
    fn who_knows_no_more_says_nothing(spec in of(Dice::any), common in attempts(), first in attempts(), second in attempts()) {
        let (parted, now) = further(Bucket::new(spec), START, &common);
        let ((one, at_one), (two, at_two)) = (further(parted, now, &first), further(parted, now, &second));
        let now = at_one.max(at_two);
        prop_assert!(!joined(&one, one, now).1);
        let both = joined(&one, two, now).0;
        prop_assert!(!joined(&both, one, now).1, "{both:?}");
        prop_assert!(!joined(&both, two, now).1);
        prop_assert!(!joined(&both, Bucket::new(spec), now).1);
    }
}
