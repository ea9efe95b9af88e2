use super::*;
use tollgate_bucket::{Continuous, Op, Spec, step};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const TOKEN: Span = Span::from_millis(100);

fn at(millis: u64) -> Time {
    NOW.after(Span::from_millis(millis))
}

fn slice(tokens: u32) -> Slice {
    Slice::new(TOKEN, Receipt { tokens, full_at: NOW.after(TOKEN.times(tokens.into())) })
}

fn lease(slices: &[Slice]) -> Lease {
    Lease { slices: slices.iter().copied().collect(), wanted: 0 }
}

#[test]
fn tokens_lapse_as_time_returns_them() {
    for (millis, worth) in [(0, 19), (490, 15), (1_000, 9), (1_890, 1), (1_990, 0), (5_000, 0)] {
        let mut lease = lease(&[slice(20)]);
        let handed_out = (0..1_000).take_while(|_| lease.take(1, at(millis)).is_some()).count();
        assert_eq!(handed_out, worth, "{millis} ms");
    }
}

#[test]
fn an_attempt_gets_all_of_its_tokens_or_none() {
    let mut lease = lease(&[slice(30), slice(40)]);
    let now = at(990);
    assert_eq!(lease.take(51, now), None);
    assert_eq!(lease.take(45, now).map(|receipt| receipt.tokens), Some(45));
    assert_eq!((lease.left(now), lease.take_wanted()), (5, 96));
}

#[test]
fn what_an_attempt_gives_back_is_handed_out_again_and_no_more() {
    let mut lease = lease(&[slice(20)]);
    assert!(!lease.put_back(Receipt { tokens: 2, full_at: at(10_000) }, at(90)), "it has all but one");
    let receipt = lease.take(5, at(90)).unwrap();
    assert!(lease.put_back(receipt, at(90)));
    assert_eq!(lease.left(at(90)), 19);
    let receipt = lease.take(5, at(90)).unwrap();
    assert!(lease.put_back(receipt, at(1_990)));
    assert_eq!(lease.left(at(1_990)), 0, "time has returned it");
}

#[test]
fn nothing_that_was_handed_out_is_worth_more_to_the_bucket_than_its_lease() {
    let mut lease = lease(&[slice(20)]);
    assert_eq!(lease.take(5, at(1_400)).unwrap().full_at, at(1_900));
    assert_eq!(lease.take(1, at(1_880)), None);
    let rest: Vec<_> = lease.into_receipts().collect();
    assert_eq!(rest, []);
}

/// Two gates hold tokens, and a third refunds what it has taken: the bucket and the leases never hold more than the
/// bucket can.
#[test]
fn leases_and_the_bucket_together_hold_no_more_than_the_bucket() {
    let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(1), 40).unwrap());
    let mut word = [0];
    let mut take = |now, tokens| step(&spec, &mut word, now, Op::Take(tokens)).verdict.receipt;
    let refunded = take(at(0), 10);
    let leases =
        [(1, 10), (300, 15)].map(|(millis, tokens)| lease(&[Slice::new(TOKEN, take(at(millis), tokens))]));
    let _ = step(&spec, &mut word, at(310), Op::Refund(refunded));
    for millis in (310..4_000).step_by(10) {
        let left = step(&spec, &mut word.clone(), at(millis), Op::Peek(1)).verdict.left;
        let held: u32 = leases.iter().map(|lease| lease.left(at(millis))).sum();
        assert!(left + held <= 40, "{left} and {held} at {millis} ms");
    }
}

#[test]
fn a_lease_keeps_no_more_than_the_bucket_lacks() {
    let mut lease = lease(&[slice(20), slice(20)]);
    let at_once = at(0);
    lease.trim(NOW.after(TOKEN.times(40)), at_once);
    assert_eq!(lease.left(at_once), 38, "all of it is missing in the bucket");
    lease.trim(NOW.after(TOKEN.times(25)), at_once);
    assert_eq!(lease.left(at_once), 25, "an operator gave fifteen back");
    lease.trim(NOW, at_once);
    assert_eq!((lease.left(at_once), lease.take(1, at_once)), (0, None), "the bucket is full");
}
