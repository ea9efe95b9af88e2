use super::super::Op;
use super::super::tests::TestBucket;
use super::super::{Admission, Spec};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * S;

fn each(secs: u64, burst: u32) -> Continuous {
    Continuous::new(1, Span::from_secs(secs), burst).unwrap()
}

fn test_bucket(floor: Continuous, pool: Continuous) -> TestBucket {
    TestBucket::new(Spec::Floor(Floor::new(floor, pool).unwrap()))
}

fn refused(secs: u64) -> Admission {
    Admission::Refused { wait: Span::from_secs(secs) }
}

#[test]
fn the_floor_is_spent_first_and_both_together_are_the_size() {
    let mut bucket = test_bucket(each(1, 2), each(100, 3));
    assert!(bucket.take(NOW, 2).is_admitted());
    assert_eq!(bucket.peek(NOW + 2 * S, 5).admission, Admission::Admitted, "the pool was not touched");
    assert!((0..3).all(|_| bucket.take(NOW, 1).is_admitted()));
    assert_eq!(bucket.take(NOW, 1).admission, refused(1));
    assert_eq!(bucket.take(NOW, 6).admission, Admission::NeverFits);
}

#[test]
fn a_refund_goes_to_the_pool_alone() {
    let mut bucket = test_bucket(each(1, 1), each(100, 1));
    let of_floor = bucket.take(NOW, 1).receipt;
    assert!(!bucket.run(NOW, Op::Refund(of_floor)).changed);
    let of_pool = bucket.take(NOW, 1).receipt;
    let _ = bucket.run(NOW, Op::Refund(of_pool));
    assert_eq!(bucket.peek(NOW, 1).left, 1);
}

#[test]
fn a_pool_in_debt_does_not_delay_the_floor() {
    let mut bucket = test_bucket(each(1, 1), each(100, 1).with_debt(10).unwrap());
    let _ = (0..20).map(|_| bucket.take(NOW, 1)).last();
    let verdict = bucket.take(NOW, 1);
    assert_eq!((verdict.admission, verdict.next_token), (refused(1), Span::from_secs(1)));
    assert!(bucket.take(NOW + S, 1).is_admitted());
}

#[test]
fn a_refused_attempt_writes_nothing_while_one_of_both_is_full() {
    let mut bucket = test_bucket(each(1, 1), each(100, 3));
    assert!(bucket.take(NOW, 4).is_admitted());
    let later = NOW + 10 * S;
    let refused = bucket.run(later, Op::Take(2));
    assert!(!refused.verdict.is_admitted() && !refused.changed);
}

#[test]
fn what_pays_a_debt_is_not_given_to_the_floor_as_well() {
    let mut bucket = test_bucket(each(10, 5), each(10, 1).with_debt(2).unwrap());
    let _ = (0..20).map(|_| bucket.take(NOW, 1)).last();
    assert_eq!(bucket.run(NOW, Op::Give(3)).verdict.left, 1, "two for the debt, one for the pool");
}
