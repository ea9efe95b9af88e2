use super::super::tests::TestBucket;
use super::super::{Op, Spec, step};
use super::*;

const S: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * S;
const MINUTE: u64 = 60;

/// After three strikes 10 s, 20 s, 40 s, at most a minute.
fn test_bucket() -> TestBucket {
    let escalation = Escalation::new(3, Span::from_secs(10), 2, Span::from_secs(MINUTE));
    TestBucket::new(Spec::Escalation(escalation.unwrap()))
}

fn at(secs: u64) -> u64 {
    NOW.saturating_add(secs.saturating_mul(S))
}

fn strike(bucket: &mut TestBucket, secs: u64, count: u32) -> Verdict {
    (0..count).map(|_| bucket.run(at(secs), Op::Strike).verdict).last().unwrap()
}

/// The wait in seconds; 0 if an attempt passes.
fn wait(bucket: &TestBucket, secs: u64) -> u64 {
    match bucket.peek(at(secs), 1).admission {
        Admission::Refused { wait } => wait.as_secs_ceil(),
        _ => 0,
    }
}

#[test]
fn so_many_strikes_in_a_row_begin_a_wait_and_each_wait_is_longer_than_the_last() {
    let mut bucket = test_bucket();
    assert_eq!((strike(&mut bucket, 0, 2).left, wait(&bucket, 0)), (1, 0));
    let mut now = 0;
    for expected in [10, 20, 40, 60, 60, 60] {
        strike(&mut bucket, now, if now == 0 { 1 } else { 3 });
        assert_eq!(wait(&bucket, now), expected);
        now += expected;
        assert_eq!(wait(&bucket, now), 0, "the wait was obeyed");
    }
}

#[test]
fn an_attempt_passes_or_waits_and_writes_nothing() {
    let mut bucket = test_bucket();
    assert_eq!(bucket.take(NOW, 1).left, 3);
    strike(&mut bucket, 0, 3);
    let refused = bucket.run(NOW, Op::Take(1));
    assert_eq!(refused.verdict.admission, Admission::Refused { wait: Span::from_secs(10) });
    assert_eq!(
        (refused.changed, refused.verdict.left, refused.verdict.next_token),
        (false, 0, Span::from_secs(10))
    );
    let passes = bucket.run(NOW + 10 * S, Op::TakeOnce { tokens: 1000, tag: 7 });
    assert_eq!((passes.verdict.admission, passes.changed), (Admission::Admitted, false));
    assert_eq!((passes.verdict.left, passes.verdict.receipt), (3, Receipt::default()));
}

#[test]
fn strikes_count_on_while_a_wait_is_on() {
    let mut bucket = test_bucket();
    strike(&mut bucket, 0, 5);
    assert_eq!(wait(&bucket, 0), 10);
    strike(&mut bucket, 1, 1);
    assert_eq!(wait(&bucket, 1), 20);
}

#[test]
fn a_wait_of_the_same_length_never_ends_earlier_than_the_one_that_is_on() {
    let escalation = Escalation::new(1, Span::from_secs(10), 1, Span::from_secs(60)).unwrap();
    let mut bucket = TestBucket::new(Spec::Escalation(escalation));
    for _ in 0..100 {
        let _ = strike(&mut bucket, 0, 1);
    }
    assert_eq!(wait(&bucket, 0), 10);
    strike(&mut bucket, 0, 1);
    let _ = bucket.run(NOW - S / 2, Op::Strike);
    assert_eq!(wait(&bucket, 0), 10, "a strike that comes late takes nothing off");
}

#[test]
fn what_goes_well_breaks_the_row_but_neither_the_wait_nor_the_growth() {
    let mut bucket = test_bucket();
    strike(&mut bucket, 0, 2);
    let broken = bucket.run(NOW, Op::Give(1));
    assert_eq!((broken.changed, broken.verdict.left), (true, 3));
    assert_eq!(broken.verdict.full_at, Time::from_nanos(NOW), "nothing is left to be remembered");
    strike(&mut bucket, 0, 2);
    assert_eq!(wait(&bucket, 0), 0, "two and two are not four in a row");
    strike(&mut bucket, 0, 3);
    assert!(bucket.run(NOW, Op::Give(1)).changed);
    assert_eq!(wait(&bucket, 0), 10, "it stays");
    strike(&mut bucket, 10, 3);
    assert_eq!(wait(&bucket, 10), 20, "and the next one is longer");
    assert!(!bucket.run(NOW + 10 * S, Op::Give(1)).changed, "there is no row to break");
}

#[test]
fn all_is_forgotten_after_the_longest_wait_in_peace() {
    let mut bucket = test_bucket();
    let verdict = strike(&mut bucket, 0, 3);
    assert_eq!(verdict.full_at, Time::from_nanos(NOW + 70 * S), "a minute after the wait");
    let mut disturbed = bucket;
    strike(&mut disturbed, 69, 3);
    assert_eq!(wait(&disturbed, 69), 20);
    strike(&mut bucket, 70, 3);
    assert_eq!(wait(&bucket, 70), 10);
}

#[test]
fn strikes_that_led_to_nothing_are_forgotten_as_well() {
    let mut bucket = test_bucket();
    strike(&mut bucket, 0, 2);
    assert_eq!(bucket.peek(NOW + 59 * S, 1).left, 1);
    assert_eq!(bucket.peek(NOW + 60 * S, 1).left, 3);
    strike(&mut bucket, 60, 1);
    assert_eq!(wait(&bucket, 60), 0);
}

#[test]
fn a_refund_is_nothing() {
    let mut bucket = test_bucket();
    strike(&mut bucket, 0, 3);
    let receipt = Receipt { tokens: 9, full_at: Time::from_nanos(u64::MAX) };
    assert!(!bucket.run(NOW, Op::Refund(receipt)).changed);
    assert_eq!(wait(&bucket, 0), 10);
}

#[test]
fn after_a_clock_was_set_back_no_wait_is_longer_than_the_longest() {
    let mut bucket = test_bucket();
    strike(&mut bucket, 0, 3);
    let back = NOW - 3600 * S;
    let refused = bucket.run(back, Op::Take(1));
    assert_eq!(refused.verdict.admission, Admission::Refused { wait: Span::from_secs(MINUTE) });
    assert!(refused.changed, "or it would not move until the clock is back");
    assert!(bucket.take(back + MINUTE * S, 1).is_admitted(), "Retry-After was obeyed");
}

#[test]
fn no_number_of_waits_overflows() {
    let month = Span::from_secs(30 * 86_400);
    for factor in [1, 2, 100] {
        let escalation = Escalation::new(1, Span::from_nanos(1), factor, month).unwrap();
        for waits in [0, 1, 31, 63, 64, u32::MAX] {
            let length = escalation.wait_after(waits);
            assert!(length <= month && (factor == 1 || waits < 64 || length == month), "{factor} {waits}");
        }
        let spec = Spec::Escalation(escalation);
        let mut state = [u64::MAX; 3];
        let _ = step(&spec, &mut state, Time::from_nanos(u64::MAX - 1), Op::Strike);
    }
}
