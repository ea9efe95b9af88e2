use super::*;
use tollgate_bucket::{Continuous, Op, Spec, step};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const TOKEN: Span = Span::from_millis(100);

fn at(millis: u64) -> Time {
    NOW.after(Span::from_millis(millis))
}

/// So many tokens of a bucket that was full, or that lacks more.
fn slice(taken: u32, lacking: u32) -> Slice {
    let full_at = NOW.after(TOKEN.times(u64::from(taken) + u64::from(lacking)));
    Slice::new(TOKEN, Receipt { tokens: taken, full_at: NOW.after(TOKEN.times(taken.into())) }, full_at)
}

fn lease(slices: &[Slice]) -> Lease {
    Lease { slices: slices.iter().copied().collect(), wanted: 0 }
}

fn handed_out(lease: &mut Lease, now: Time) -> usize {
    (0..1_000).take_while(|_| lease.take(1, now).is_some()).count()
}

#[test]
fn a_lease_of_a_bucket_that_is_full_again_is_worth_nothing() {
    for (millis, worth) in [(0, 19), (490, 15), (1_000, 9), (1_890, 1), (1_990, 0), (5_000, 0)] {
        assert_eq!(handed_out(&mut lease(&[slice(20, 0)]), at(millis)), worth, "{millis} ms");
    }
}

/// At first it is worth what its own tokens are, later what is missing in the bucket.
#[test]
fn a_lease_of_a_bucket_that_lacks_more_keeps_its_tokens() {
    for (millis, worth) in [(0, 19), (1_590, 4), (1_600, 20), (9_900, 20), (10_490, 15), (12_000, 0)] {
        assert_eq!(handed_out(&mut lease(&[slice(20, 100)]), at(millis)), worth, "{millis} ms");
    }
}

#[test]
fn an_attempt_gets_all_of_its_tokens_or_none() {
    let mut lease = lease(&[slice(3, 100), slice(4, 110)]);
    let now = at(1_700);
    assert_eq!(lease.take(8, now), None);
    assert_eq!(lease.take(5, now).map(|receipt| receipt.tokens), Some(5));
    assert_eq!((lease.left(now), lease.take_wanted()), (2, 13));
}

#[test]
fn what_an_attempt_gives_back_is_handed_out_again_and_no_more() {
    let mut lease = lease(&[slice(4, 100)]);
    let now = at(10);
    let receipt = lease.take(1, now).unwrap();
    assert!(lease.put_back(receipt, now));
    assert!(!lease.put_back(receipt, now), "it has all of its tokens");
    let receipt = lease.take(1, now).unwrap();
    assert!(!lease.put_back(receipt, receipt.full_at), "time has returned it");
}

/// Two gates hold slices of one bucket until it would be full: with them it never gives more than it holds.
#[test]
fn leases_and_the_bucket_together_hold_no_more_than_the_bucket() {
    let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(1), 40).unwrap());
    let mut word = [0];
    let mut leases = [Lease::default(), Lease::default()];
    for (round, lease) in (0..).zip(&mut leases) {
        let verdict = step(&spec, &mut word, at(round * 300), Op::Take(10)).verdict;
        lease.add(Slice::new(TOKEN, verdict.receipt, verdict.full_at));
    }
    for millis in (300..4_000).step_by(50) {
        let left = step(&spec, &mut word.clone(), at(millis), Op::Peek(1)).verdict.left;
        let held: u32 = leases.iter().map(|lease| lease.left(at(millis))).sum();
        assert!(left + held <= 40, "{left} and {held} at {millis} ms");
    }
}

#[test]
fn an_old_slice_gives_nothing_back() {
    assert_eq!(lease(&[slice(20, 100)]).into_receipts(at(1_700)).count(), 0);
    let young: Vec<_> = lease(&[slice(20, 100)]).into_receipts(at(1_000)).collect();
    assert_eq!(young, [Receipt { tokens: 20, full_at: at(1_600) }]);
}
