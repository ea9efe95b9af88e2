//! What a bucket says on the way: a start balance, a refusal, an attempt that never fits, numbers that make no bucket.

use tollgate::bucket::{Admission, Continuous, Op, Spec};
use tollgate::time::Span;

use super::{Bucket, SECOND, bucket, wait_of};

#[test]
fn an_empty_start_balance_begins_to_fill_at_the_first_visit() {
    let spec = Continuous::new(1, Span::from_secs(10), 5).unwrap().with_initial(0).unwrap();
    let mut bucket = Bucket::new(Spec::Continuous(spec));
    assert_eq!(wait_of(bucket.take()), Span::from_secs(10));
    assert_eq!(wait_of(bucket.at(4 * SECOND).take()), Span::from_secs(6));
    assert!(bucket.at(10 * SECOND).take().is_admitted());
}

#[test]
fn a_refused_attempt_writes_nothing() {
    let mut bucket = Bucket::of(1, 10, 1);
    assert!(bucket.take().is_admitted());
    assert!(!bucket.inner.look(bucket.now, Op::Take(1)).changed);
    assert!(!bucket.inner.look(bucket.now, Op::Peek(1)).changed);
    let absent = bucket::Bucket::new(bucket.inner.spec);
    assert!(!absent.look(bucket.now, Op::Give(1)).changed, "an absent bucket is full already");
}

#[test]
fn an_attempt_that_can_never_fit_is_told_so_instead_of_to_wait() {
    let mut bucket = Bucket::of(1, 10, 5);
    assert_eq!(bucket.op(Op::Take(6)).admission, Admission::NeverFits);
    assert!(bucket.op(Op::Take(5)).is_admitted());
}

#[test]
fn numbers_that_do_not_make_a_bucket_are_refused() {
    use tollgate::bucket::SpecError::{InitialAboveBurst, TooFast, TooLong, Zero};
    let spec = |count, span, burst| Continuous::new(count, span, burst);
    assert_eq!(spec(0, Span::from_secs(1), 1), Err(Zero));
    assert_eq!(spec(1, Span::ZERO, 1), Err(Zero));
    assert_eq!(spec(1, Span::from_secs(1), 0), Err(Zero));
    assert_eq!(spec(2, Span::from_nanos(1), 1), Err(TooFast));
    assert_eq!(spec(1, Span::from_secs(3600 * 24 * 365), u32::MAX), Err(TooLong));
    assert_eq!(spec(u32::MAX, Span::from_nanos(u64::MAX), u32::MAX), Err(TooLong));
    let fine = spec(1, Span::from_secs(1), 10).unwrap();
    assert_eq!(fine.with_initial(11), Err(InitialAboveBurst));
    assert_eq!(spec(1, Span::from_secs(3600 * 24), 20_000).unwrap().with_debt(u32::MAX), Err(TooLong));
}
