//! What is given back: exactly what was taken, never more than if it had never been taken, never above the size.

use proptest::prelude::*;
use tollgate::bucket::{Op, Receipt, Spec, Time};
use tollgate::time::Span;

use super::model;
use super::promise::Admitted;
use super::samples::{Course, Dice, attempts, cases, initial, of};
use support::bucket::Bucket;

/// Tokens, the next one, full again; and the answer to who wants all.
fn look(bucket: &Bucket, now: Time) -> impl PartialEq + std::fmt::Debug {
    let said = bucket.look(now, Op::Peek(bucket.spec.burst())).verdict;
    (said.admission, said.left, said.next_token, said.full_at)
}

/// Takes and gives back at the same instant, in copies of the bucket.
fn restores(before: &Bucket, now: Time, cost: u32, later: Span) -> Result<(), TestCaseError> {
    let mut tried = *before;
    let taken = tried.run(now, Op::Take(cost)).verdict;
    if !taken.is_admitted() {
        prop_assert_eq!(taken.receipt, Receipt::default(), "nothing to give back");
        return Ok(());
    }
    let after = tried.run(now, Op::Refund(taken.receipt)).verdict;
    if matches!(before.spec, Spec::Floor(_)) && taken.receipt.tokens < cost {
        // What the floor gave is not given back, and the pool gets nothing for it.
        prop_assert_eq!(
            after.left + (cost - taken.receipt.tokens),
            before.look(now, Op::Peek(1)).verdict.left
        );
        return Ok(());
    }
    prop_assert_eq!(look(&tried, now), look(before, now));
    let has_begun = before.state[0] != 0 || initial(&before.spec) == before.spec.burst();
    if has_begun {
        let later = now.after(later);
        prop_assert_eq!(look(&tried, later), look(before, later), "later, too");
    }
    Ok(())
}

/// Takes what is there, and demands that no more was there than `left`.
fn holds_no_more_than(mut bucket: Bucket, now: Time, left: u32) -> Result<(), TestCaseError> {
    prop_assert!(left <= bucket.spec.burst());
    prop_assert!(bucket.run(now, Op::Take(left)).verdict.is_admitted());
    prop_assert!(!bucket.run(now, Op::Take(1)).verdict.is_admitted(), "more than {left}");
    Ok(())
}

/// An admitted attempt that may still be given back.
#[derive(Clone, Copy)]
struct Open {
    /// Its place in the list of all.
    attempt: usize,
    receipt: Receipt,
}

/// Attempts of which some are given back, some time, in any order; the model never saw those.
fn never_more_than_if_never_made(spec: Spec, seeds: &[u64]) -> Result<(), TestCaseError> {
    let (mut bucket, mut model, mut course) = (Bucket::new(spec), model::of(&spec), Course::new(&spec));
    let (mut open, mut admitted) = (Vec::<Open>::new(), Admitted::default());
    for (number, seed) in seeds.iter().enumerate() {
        let (now, cost) = course.next(*seed);
        let mut dice = Dice(seed.rotate_left(32));
        if !open.is_empty() && dice.below(3) == 0 {
            let Open { attempt, receipt } = open.swap_remove(dice.below(open.len() as u64) as usize);
            let _ = bucket.run(now, Op::Refund(receipt));
            model.forget(attempt);
            admitted.list[attempt].1 = 0;
        }
        let verdict = bucket.run(now, Op::Take(cost)).verdict;
        model.visit(now);
        if verdict.is_admitted() {
            model.admit(now, cost);
            let attempt = admitted.list.len();
            open.push(Open { attempt, receipt: verdict.receipt });
            admitted.list.push((now, if matches!(spec, Spec::Floor(_)) { 0 } else { cost }));
        }
        let (ours, theirs) = (bucket.look(now, Op::Peek(1)).verdict, model.left(now));
        prop_assert!(ours.left <= theirs, "{} left instead of {theirs} after {number}", ours.left);
        if let Spec::Rolling(_) = spec {
            prop_assert_eq!(ours.left, theirs, "a window remembers each period, and gives back exactly");
        }
        course.told(verdict);
    }
    admitted.keep(&spec)
}

fn give_back(bucket: &mut Bucket, now: Time, receipt: Receipt) {
    let _ = bucket.run(now, Op::Refund(receipt));
}

/// A client signs in rightly as often as it can, has some of it given back early and some late, waits for what time
/// brings, and guesses in between for whatever is there: the guesses alone keep the promise, as if nothing had ever been
/// given back.
fn right_attempts_buy_nothing(spec: Spec, seeds: &[u64]) -> Result<(), TestCaseError> {
    let (mut bucket, mut course) = (Bucket::new(spec), Course::new(&spec));
    let (mut open, mut failures) = (Vec::new(), Admitted { began_before: true, ..Admitted::default() });
    for seed in seeds {
        let (now, _) = course.next(*seed);
        let mut dice = Dice(seed.rotate_left(32));
        failures.first_visit.get_or_insert(now);
        let mut take = |bucket: &mut Bucket, cost| {
            let said = bucket.run(now, Op::Take(cost)).verdict;
            course.told(said);
            said
        };
        match dice.below(6) {
            0..2 => {
                let taken = (0..1 + dice.below(8)).map(|_| take(&mut bucket, 1));
                open.extend(taken.filter(tollgate::bucket::Verdict::is_admitted).map(|said| said.receipt));
            }
            2 => {
                let kept = dice.below(open.len() as u64 + 1) as usize;
                open.rotate_left(kept);
                open.drain(1.min(open.len())..).for_each(|receipt| give_back(&mut bucket, now, receipt));
            }
            3 => open.drain(..).for_each(|receipt| give_back(&mut bucket, now, receipt)),
            _ => {
                for _ in 0..3 {
                    let cost = bucket.look(now, Op::Peek(1)).verdict.left.max(1);
                    if take(&mut bucket, cost).is_admitted() {
                        failures.list.push((now, cost));
                    }
                }
            }
        }
    }
    failures.keep(&spec)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn interleaving_right_attempts_never_lets_more_failures_through(
        spec in of(Dice::spec), seeds in attempts(),
    ) {
        right_attempts_buy_nothing(spec, &seeds)?;
    }

    #[test]
    fn what_is_given_back_at_once_was_never_taken(
        spec in of(Dice::spec), seeds in attempts(), later in any::<u64>(),
    ) {
        let (mut bucket, mut course) = (Bucket::new(spec), Course::new(&spec));
        let later = Dice(later).below(2 * spec.max_ttl().as_nanos() + 2);
        for seed in seeds {
            let (now, cost) = course.next(seed);
            restores(&bucket, now, cost, Span::from_nanos(later))?;
            course.told(bucket.run(now, Op::Take(cost)).verdict);
        }
    }

    #[test]
    fn what_is_given_back_later_gives_no_more_than_if_it_had_never_been_taken(
        spec in of(Dice::plain), seeds in attempts(),
    ) {
        never_more_than_if_never_made(spec, &seeds)?;
    }

    #[test]
    fn attempts_that_are_held_open_until_the_bucket_is_full_again_bring_nothing(
        spec in of(Dice::plain), count in 1_usize..20,
    ) {
        let (mut bucket, mut now) = (Bucket::new(spec), super::samples::START);
        let first: Vec<_> = (0..count).map(|_| bucket.run(now, Op::Take(1)).verdict).collect();
        now = bucket.look(now, Op::Peek(1)).verdict.full_at;
        let admitted = (0..spec.burst().min(20)).filter(|_| bucket.run(now, Op::Take(1)).verdict.is_admitted());
        let left = spec.burst() - admitted.count() as u32;
        for verdict in first {
            let _ = bucket.run(now, Op::Refund(verdict.receipt));
        }
        prop_assert_eq!(bucket.look(now, Op::Peek(1)).verdict.left, left);
    }

    #[test]
    fn nothing_lifts_a_bucket_above_its_size(spec in of(Dice::plain), seeds in attempts()) {
        let (mut bucket, mut course, mut receipts) = (Bucket::new(spec), Course::new(&spec), Vec::new());
        for seed in seeds {
            let (now, cost) = course.next(seed);
            let said = bucket.run(now, Op::Take(cost)).verdict;
            receipts.push(said.receipt);
            course.told(said);
            let mut dice = Dice(seed.rotate_left(32));
            let op = match dice.below(6) {
                0..3 => Op::Refund(receipts[dice.below(receipts.len() as u64) as usize]),
                3 => Op::Give(dice.upto(spec.burst())),
                4 => Op::Give(u32::MAX),
                _ => continue,
            };
            let before = bucket.look(now, Op::Peek(1)).verdict.left;
            let after = bucket.run(now, op).verdict;
            prop_assert!(after.left >= before && after.full_at >= now);
            holds_no_more_than(bucket, now, bucket.look(now, Op::Peek(1)).verdict.left)?;
        }
    }
}
