use super::super::Op;
use super::super::tests::TestBucket;
use super::super::{Admission, Spec};
use super::*;

const S: u64 = 1_000_000_000;
/// A whole hour.
const NOW: u64 = 1_800_000_000 * S;
const HOUR: u64 = 3600 * S;

fn hourly(quota: u32, period_start: PeriodStart) -> Interval {
    Interval::new(quota, Span::from_nanos(HOUR), period_start).unwrap()
}

fn test_bucket(spec: Interval) -> TestBucket {
    TestBucket::new(Spec::Interval(spec))
}

#[test]
fn around_a_border_a_client_may_use_a_bucket_before_it_and_one_after_it() {
    let mut bucket = test_bucket(hourly(3, PeriodStart::Clock));
    let admitted = |bucket: &mut TestBucket, at| (0..5).filter(|_| bucket.take(at, 1).is_admitted()).count();
    assert_eq!((admitted(&mut bucket, NOW - 1), admitted(&mut bucket, NOW)), (3, 3));
}

#[test]
fn a_period_begins_with_the_first_attempt_or_by_the_clock() {
    for (period_start, full_at) in [(PeriodStart::First, NOW + 5 + HOUR), (PeriodStart::Clock, NOW + HOUR)] {
        assert_eq!(test_bucket(hourly(3, period_start)).take(NOW + 5, 1).full_at, Time::from_nanos(full_at));
    }
}

#[test]
fn each_border_pays_for_one_bucket_of_debt() {
    let mut bucket = test_bucket(hourly(2, PeriodStart::First).with_debt(3).unwrap());
    let _ = (0..9).map(|_| bucket.take(NOW, 1)).last();
    assert_eq!(bucket.take(NOW, 1).admission, Admission::Refused { wait: Span::from_nanos(2 * HOUR) });
    assert_eq!(bucket.peek(NOW + 2 * HOUR - 1, 1).left, 0);
    assert_eq!(bucket.peek(NOW + 2 * HOUR, 1).left, 1, "five taken, four paid for");
    assert_eq!(bucket.peek(NOW + 3 * HOUR, 1).left, 2);
}

#[test]
fn what_was_given_back_completely_is_forgotten_with_its_period() {
    let mut bucket = test_bucket(hourly(2, PeriodStart::First));
    let receipt = bucket.take(NOW, 2).receipt;
    let given = bucket.run(NOW, Op::Refund(receipt));
    assert_eq!(given.verdict.full_at, Time::from_nanos(NOW));
    assert_eq!(bucket.state[0], NOW, "so that its slot in a table is free");
    assert_eq!(bucket.take(NOW + 5, 2).full_at, Time::from_nanos(NOW + 5 + HOUR));
}

#[test]
fn a_token_of_a_period_that_has_ended_is_not_given_back() {
    let mut bucket = test_bucket(hourly(2, PeriodStart::First));
    let receipt = bucket.take(NOW, 2).receipt;
    assert!(bucket.take(NOW + HOUR, 2).is_admitted());
    assert!(!bucket.run(NOW + HOUR, Op::Refund(receipt)).changed);
}

/// A thread may have read the clock before a boundary and decide after it.
#[test]
fn attempts_that_come_late_from_before_a_border_win_nothing() {
    let mut bucket = test_bucket(hourly(3, PeriodStart::Clock));
    let late = (0..20).map(|attempt| NOW - (attempt % 2)).filter(|at| bucket.take(*at, 1).is_admitted());
    assert_eq!(late.count(), 3);
    assert_eq!((NOW..NOW + 20).filter(|at| bucket.take(*at, 1).is_admitted()).count(), 0);
}

#[test]
fn a_clock_set_back_over_a_border_again_and_again_gives_nothing() {
    let mut bucket = test_bucket(hourly(3, PeriodStart::Clock));
    let times = (0..20).map(|step| if step % 2 == 0 { NOW } else { NOW - 60 * S });
    assert_eq!(times.flat_map(|at| [at; 3]).filter(|at| bucket.take(*at, 1).is_admitted()).count(), 3);
}

#[test]
fn a_clock_that_was_set_back_locks_for_a_period_at_most() {
    for period_start in [PeriodStart::First, PeriodStart::Clock] {
        let mut bucket = test_bucket(hourly(3, period_start));
        assert!(bucket.take(NOW, 3).is_admitted());
        let back = NOW - 30 * HOUR + 5;
        let Admission::Refused { wait } = bucket.take(back, 1).admission else { panic!("still empty") };
        assert!(wait <= Span::from_nanos(HOUR));
        assert!(bucket.take(back + wait.as_nanos(), 1).is_admitted(), "Retry-After was obeyed");
    }
}

#[test]
fn a_foreign_state_locks_for_no_longer_than_the_deepest() {
    let mut bucket = test_bucket(hourly(3, PeriodStart::First).with_debt(3).unwrap());
    bucket.state[..2].copy_from_slice(&[NOW + 200 * HOUR, 600]);
    let Admission::Refused { wait } = bucket.take(NOW, 1).admission else { panic!("in debt") };
    assert!(wait <= Span::from_nanos(3 * HOUR), "{wait:?}");
}

#[test]
fn a_debt_does_not_keep_a_period_beside_the_clock_once_it_was_set_back() {
    let hour = 3600 * S;
    let spec = Interval::new(2, Span::from_secs(3600), PeriodStart::Clock).unwrap().with_debt(2).unwrap();
    let mut bucket = TestBucket::new(Spec::Interval(spec));
    let _ = (0..9).map(|_| bucket.take(NOW + 60 * S, 1)).last();
    // Back over the boundary: the period ends a whole hour from here, the next one by the clock.
    let back = NOW - 1800 * S;
    assert!(!bucket.take(back, 1).is_admitted());
    assert_eq!(bucket.peek(back + hour, 1).left, 0, "the debt of two was paid");
    assert_eq!(bucket.peek(NOW + hour - 1, 1).left, 0);
    assert_eq!(bucket.peek(NOW + hour, 1).left, 2);
}
