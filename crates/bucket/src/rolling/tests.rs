use super::super::Op;
use super::super::tests::TestBucket;
use super::super::{Admission, Spec};
use super::*;

const S: u64 = 1_000_000_000;
/// A whole hour.
const NOW: u64 = 1_800_000_000 * S;
const HOUR: u64 = 3600 * S;

fn hours(quota: u32, hours: u64, period_start: PeriodStart) -> Rolling {
    let hour = Span::from_nanos(HOUR);
    Rolling::new(quota, hour.times(hours), hour, period_start).unwrap()
}

fn test_bucket(spec: Rolling) -> TestBucket {
    TestBucket::new(Spec::Rolling(spec))
}

fn refused(hours: u64) -> Admission {
    Admission::Refused { wait: Span::from_nanos(HOUR).times(hours) }
}

#[test]
fn a_wait_looks_past_borders_that_allow_nothing() {
    let mut bucket = test_bucket(hours(10, 4, PeriodStart::First));
    assert!(bucket.take(NOW, 1).is_admitted());
    assert!(bucket.take(NOW + HOUR, 9).is_admitted());
    assert_eq!(bucket.take(NOW + HOUR, 1).admission, refused(3), "the first hour's token is free then");
    assert_eq!(bucket.take(NOW + HOUR, 2).admission, refused(4));
}

#[test]
fn a_rate_bounds_each_period_within_the_window() {
    let mut bucket = test_bucket(hours(10, 4, PeriodStart::First).with_rate(4).unwrap());
    let each: Vec<_> = (0..6)
        .map(|hour| (0..9).filter(|_| bucket.take(NOW + hour * HOUR, 1).is_admitted()).count())
        .collect();
    assert_eq!(each, [4, 4, 2, 0, 4, 4]);
}

#[test]
fn periods_begin_anew_with_an_attempt_when_nothing_is_counted_any_more() {
    let mut bucket = test_bucket(hours(2, 2, PeriodStart::First));
    let receipt = bucket.take(NOW, 1).receipt;
    let _ = bucket.run(NOW, Op::Refund(receipt));
    assert_eq!(bucket.take(NOW + 5, 1).full_at, Time::from_nanos(NOW + 5 + 2 * HOUR));
}

#[test]
fn a_token_is_given_back_to_the_period_that_it_was_taken_in() {
    let mut bucket = test_bucket(hours(5, 3, PeriodStart::First));
    let first = bucket.take(NOW, 2).receipt;
    assert!(bucket.take(NOW + HOUR, 3).is_admitted());
    let _ = bucket.run(NOW + HOUR, Op::Refund(first));
    assert_eq!(bucket.peek(NOW + HOUR, 1).left, 2);
    assert_eq!(bucket.peek(NOW + 3 * HOUR, 1).left, 2, "the others count as long as before");
    assert!(!bucket.run(NOW + 3 * HOUR, Op::Refund(first)).changed, "forgotten by now");
}

/// A thread may have read the clock before a boundary and decide after it.
#[test]
fn tokens_are_given_to_the_periods_that_count_longest() {
    let mut bucket = test_bucket(hours(5, 3, PeriodStart::First));
    assert!(bucket.take(NOW, 2).is_admitted() && bucket.take(NOW + HOUR, 3).is_admitted());
    assert_eq!(bucket.run(NOW + HOUR, Op::Give(3)).verdict.left, 3);
    assert_eq!(bucket.peek(NOW + 2 * HOUR, 1).left, 3, "the first hour still counts");
    assert_eq!(bucket.peek(NOW + 3 * HOUR, 1).left, 5, "and the second hour's were given");
}

#[test]
fn attempts_that_come_late_from_before_a_border_forget_nothing() {
    let mut bucket = test_bucket(hours(10, 4, PeriodStart::Clock));
    assert!(bucket.take(NOW - 2 * HOUR, 9).is_admitted());
    for _ in 0..20 {
        let _ = (bucket.take(NOW, 1), bucket.take(NOW - 1, 1));
    }
    assert_eq!(bucket.peek(NOW, 1).left, 0);
    assert_eq!(bucket.peek(NOW + 2 * HOUR - 1, 1).left, 0, "until the fourth hour is over");
}

#[test]
fn a_clock_set_back_over_a_border_again_and_again_forgets_nothing() {
    let mut bucket = test_bucket(hours(100, 4, PeriodStart::Clock));
    assert!(bucket.take(NOW - 2 * HOUR, 60).is_admitted());
    for _ in 0..40 {
        let _ = (bucket.take(NOW, 1), bucket.take(NOW - 60 * S, 1));
    }
    assert_eq!(bucket.peek(NOW, 1).left, 0);
}

#[test]
fn a_clock_that_was_set_back_locks_for_a_window_at_most() {
    for period_start in [PeriodStart::First, PeriodStart::Clock] {
        let mut bucket = test_bucket(hours(3, 4, period_start));
        assert!(bucket.take(NOW, 3).is_admitted());
        let back = NOW - 300 * HOUR + 5;
        let Admission::Refused { wait } = bucket.take(back, 1).admission else { panic!("still empty") };
        assert!(wait <= Span::from_nanos(4 * HOUR));
        assert!(bucket.take(back + wait.as_nanos(), 1).is_admitted(), "Retry-After was obeyed");
    }
}

#[test]
fn the_unused_part_of_the_last_word_counts_for_nothing() {
    let mut bucket = test_bucket(hours(3, 2, PeriodStart::First));
    bucket.state[..3].copy_from_slice(&[NOW + 2 * HOUR, NOW, 0x0000_0001_0000_0007]);
    assert_eq!(bucket.peek(NOW, 1).left, 2);
}
