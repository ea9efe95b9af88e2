//! What was paid for lately is free, as the model says; and whatever is tried how often, no more different things are
//! let through than the bucket has tokens for.

use std::collections::HashSet;

use proptest::prelude::*;
use tollgate::bucket::{Admission, Distinct, Op, Receipt, Spec};
use tollgate::time::Span;

use super::model::{Once, Said};
use super::promise::Admitted;
use super::samples::{Course, Dice, START, attempts, cases, of};
use support::bucket::Bucket;

/// One of a few things, or of so many that they are forgotten; or none.
fn thing(dice: &mut Dice) -> Option<u64> {
    let number = match dice.below(4) {
        0 => return None,
        1 => dice.below(40),
        _ => dice.below(4),
    };
    // As far apart as hashes are.
    Some(Dice(number).below(u64::MAX))
}

fn op(cost: u32, thing: Option<u64>) -> [Op; 2] {
    let tokens = cost;
    match thing {
        None => [Op::Take(tokens), Op::Peek(tokens)],
        Some(tag) => [Op::TakeOnce { tokens, tag }, Op::PeekOnce { tokens, tag }],
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_thing_costs_once_as_the_model_says(spec in of(Dice::distinct), seeds in attempts()) {
        let (mut bucket, mut model) = (Bucket::new(Spec::Distinct(spec)), Once::new(spec));
        let mut course = Course::new(&bucket.spec);
        for seed in seeds {
            let (now, cost) = course.next(seed);
            let [take, peek] = op(cost, thing(&mut Dice(seed.rotate_left(32))));
            let peeked = bucket.look(now, peek);
            let said = bucket.run(now, take).verdict;
            let thing = match take { Op::TakeOnce { tag, .. } => Some(tag), _ => None };
            prop_assert_eq!(Said::from(said), model.take(now, cost, thing), "{:?} at {:?}", take, now);
            prop_assert_eq!((peeked.changed, peeked.verdict.admission), (false, said.admission), "a peek");
            if let Admission::Refused { wait } = said.admission {
                prop_assert!(!bucket.look(now.after(wait).before(Span::from_nanos(1)), take).verdict.is_admitted());
                prop_assert!(bucket.look(now.after(wait), take).verdict.is_admitted());
            }
            course.told(said);
        }
    }

    #[test]
    fn no_more_is_paid_for_than_there_are_tokens_whatever_is_tried_again(
        spec in of(Dice::distinct), seeds in attempts(),
    ) {
        let mut bucket = Bucket::new(Spec::Distinct(spec));
        let (mut course, mut paid, mut open) = (Course::new(&bucket.spec), Admitted::default(), Vec::new());
        for seed in seeds {
            let (now, cost) = course.next(seed);
            let mut dice = Dice(seed.rotate_left(32));
            if !open.is_empty() && dice.below(3) == 0 {
                let (place, receipt): (usize, Receipt) = open.swap_remove(dice.below(open.len() as u64) as usize);
                let _ = bucket.run(now, Op::Refund(receipt));
                paid.list[place].1 = 0;
            }
            let said = bucket.run(now, op(cost, thing(&mut dice))[0]).verdict;
            paid.first_visit.get_or_insert(now);
            if said.is_admitted() {
                prop_assert!(said.receipt.tokens == cost || said.receipt == Receipt::default());
                open.push((paid.list.len(), said.receipt));
                paid.list.push((now, said.receipt.tokens));
            }
            course.told(said);
        }
        paid.keep(&bucket.spec)?;
    }

    /// Nothing is refilled meanwhile: different things are as many as tokens, and repeats as many as are free.
    #[test]
    fn a_client_that_tries_everything_gets_through_as_often_as_tokens_and_free_repeats_say(
        burst in 1_u32..40, repeats in 0_u32..40, seeds in prop::collection::vec(any::<u64>(), 1..200),
    ) {
        let bucket = tollgate::bucket::Continuous::new(1, Span::from_secs(3600), burst).unwrap();
        let mut bucket = Bucket::new(Spec::Distinct(Distinct::new(bucket, Some(repeats)).unwrap()));
        let (mut different, mut admitted) = (HashSet::new(), 0);
        for seed in seeds {
            let tag = Dice(seed % 60).below(u64::MAX);
            if bucket.run(START, Op::TakeOnce { tokens: 1, tag }).verdict.is_admitted() {
                admitted += 1;
                different.insert(tag);
            }
        }
        prop_assert!(different.len() <= burst as usize && admitted <= burst + repeats);
    }
}
