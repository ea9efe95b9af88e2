use super::super::tests::TestBucket;
use super::super::{Admission, Op, Spec};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * S;

/// One token a second.
fn bucket(burst: u32) -> Continuous {
    Continuous::new(1, Span::from_secs(1), burst).unwrap()
}

fn test_bucket(spec: Continuous) -> TestBucket {
    TestBucket::new(Spec::Continuous(spec))
}

#[test]
fn a_token_takes_a_whole_number_of_nanoseconds_rounded_up() {
    let third = Continuous::new(3, Span::from_secs(1), 3).unwrap();
    assert_eq!(third.per_token(), Span::from_nanos(333_333_334));
    let whole = Continuous::new(4, Span::from_secs(1), 3).unwrap();
    assert_eq!(whole.per_token(), Span::from_nanos(250_000_000));
}

#[test]
fn an_attempt_that_costs_more_than_the_bucket_holds_never_fits() {
    let mut full = test_bucket(bucket(5));
    assert_eq!(full.take(NOW, 6).admission, Admission::NeverFits);
    assert!(full.take(NOW, 5).is_admitted(), "and nothing was taken");
}

#[test]
fn an_attempt_whose_token_is_due_soon_is_held_and_the_next_is_refused() {
    let mut held = test_bucket(bucket(1).with_hold(Span::from_secs(2)).unwrap());
    let admissions: Vec<_> = (0..4).map(|_| held.take(NOW, 1).admission).collect();
    let hold = |secs| Admission::Held { hold: Span::from_secs(secs) };
    assert_eq!(
        admissions,
        [Admission::Admitted, hold(1), hold(2), Admission::Refused { wait: Span::from_secs(1) }]
    );
}

#[test]
fn a_client_that_holds_ten_attempts_open_until_the_bucket_is_full_again_finds_ten_tokens() {
    let mut open = test_bucket(bucket(10));
    let receipts: Vec<_> = (0..10).map(|_| open.take(NOW, 1).receipt).collect();
    let later = NOW + 10 * S;
    assert!((0..10).all(|_| open.take(later, 1).is_admitted()));
    for receipt in receipts {
        let _ = open.run(later, Op::Refund(receipt));
    }
    assert_eq!(open.peek(later, 1).left, 0);
}

/// The bug: when the first attempt was refunded first, the second attempt's tokens came back twice.
#[test]
fn an_attempt_that_was_overtaken_by_another_refund_gives_nothing_twice() {
    let mut bucket = test_bucket(bucket(2));
    let (first, second) = (bucket.take(NOW, 1).receipt, bucket.take(NOW, 1).receipt);
    let _ = bucket.run(NOW, Op::Refund(first));
    // Time has filled the bucket by now, while the second attempt is still open.
    let later = NOW + 3 * S / 2;
    assert!((0..2).all(|_| bucket.take(later, 1).is_admitted()));
    let _ = bucket.run(later, Op::Refund(second));
    assert_eq!(bucket.peek(later, 1).left, 0);
    assert_eq!(bucket.take(later, 1).admission, Admission::Refused { wait: Span::from_secs(1) });
}

#[test]
fn an_attempt_that_was_held_gives_back_its_token_until_time_has_brought_one() {
    let mut held = test_bucket(bucket(1).with_hold(Span::from_secs(2)).unwrap());
    let receipts: Vec<_> = (0..3).map(|_| held.take(NOW, 1).receipt).collect();
    let half = NOW + S / 2;
    assert!(held.run(half, Op::Refund(receipts[2])).changed);
    assert_eq!(held.peek(half, 1).full_at, Time::from_nanos(NOW + 5 * S / 2));
    assert!(!held.run(NOW + S, Op::Refund(receipts[1])).changed);
}

#[test]
fn a_clock_that_was_set_back_locks_for_the_depth_of_the_bucket_even_if_all_are_refused() {
    let mut bucket = test_bucket(bucket(3));
    assert!((0..3).all(|_| bucket.take(NOW, 1).is_admitted()));
    let back = NOW - 3600 * S;
    assert_eq!(bucket.take(back, 1).admission, Admission::Refused { wait: Span::from_secs(1) });
    assert!(bucket.take(back + S, 1).is_admitted(), "Retry-After was obeyed");
}

/// A thread may have read the clock a while before it decides.
#[test]
fn attempts_that_come_late_with_an_older_time_win_nothing() {
    let mut bucket = test_bucket(bucket(3));
    assert!((0..3).all(|_| bucket.take(NOW, 1).is_admitted()));
    for late in 1..=900 {
        assert!(!bucket.take(NOW - late * S / 1000, 1).is_admitted());
    }
    assert!(!bucket.take(NOW + S - 1, 1).is_admitted());
    assert!(bucket.take(NOW + S, 1).is_admitted());
}
