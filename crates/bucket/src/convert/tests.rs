use super::super::tests::TestBucket;
use super::super::{Admission, Distinct, Escalation, Op, PeriodStart, step};
use super::*;

const S: u64 = 1_000_000_000;
/// A whole hour.
const NOW: u64 = 1_800_000_000 * S;
const HOUR: Span = Span::from_secs(3600);

fn rolling(quota: u32, hours: u64) -> Rolling {
    Rolling::new(quota, HOUR.times(hours), HOUR, PeriodStart::Clock).unwrap()
}

fn converted(mut from: TestBucket, to: Spec, nanos: u64) -> TestBucket {
    let mut after = TestBucket::new(to);
    let (words, before) = (to.words(), &mut from.state[..from.spec.words()]);
    convert(&from.spec, before, &to, &mut after.state[..words], Time::from_nanos(nanos));
    after
}

#[test]
fn many_small_counts_are_not_rounded_up_one_by_one() {
    let mut bucket = TestBucket::new(Spec::Rolling(rolling(1000, 24)));
    for hour in 0..24 {
        assert!(bucket.take(NOW + hour * HOUR.as_nanos(), 1).is_admitted());
    }
    let now = NOW + 23 * HOUR.as_nanos();
    assert_eq!(converted(bucket, Spec::Rolling(rolling(10, 24)), now).peek(now, 1).left, 9);
}

#[test]
fn a_level_is_shared_out_so_that_the_rate_of_a_period_has_its_share() {
    let half = Continuous::new(1, HOUR, 10).unwrap();
    let mut bucket = TestBucket::new(Spec::Continuous(half));
    assert!(bucket.take(NOW, 5).is_admitted());
    let to = Spec::Rolling(rolling(10_000, 24).with_rate(1000).unwrap());
    let bucket = converted(bucket, to, NOW);
    assert_eq!(bucket.peek(NOW, 1).left, 500);
    assert_eq!(bucket.peek(NOW + HOUR.as_nanos(), 1).left, 1000);
}

#[test]
fn a_period_that_follows_the_clock_from_now_on_ends_when_the_clock_says_so() {
    let each = |period_start| Spec::Interval(Interval::new(2, HOUR, period_start).unwrap());
    let (began, now) = (NOW - HOUR.as_nanos() / 2, NOW + 1);
    let mut bucket = TestBucket::new(each(PeriodStart::First));
    assert!(bucket.take(began, 2).is_admitted());
    let bucket = converted(bucket, each(PeriodStart::Clock), now);
    assert_eq!(bucket.peek(NOW + HOUR.as_nanos() - 1, 1).left, 0);
    assert_eq!(bucket.peek(NOW + HOUR.as_nanos(), 1).left, 2);
}

/// Gates that have read different files convert a bucket to and fro: then it is full as soon as under either of them.
#[test]
fn a_bucket_refills_as_under_the_specification_that_it_is_kept_under() {
    let minutes = |count: u64| count * 60 * S;
    let of = |burst| Spec::Continuous(Continuous::new(1, Span::from_secs(60), burst).unwrap());
    let mut bucket = TestBucket::new(of(10));
    assert!(bucket.take(NOW, 10).is_admitted());
    let bucket = converted(bucket, of(8), NOW);
    let bucket = converted(bucket, of(10), NOW + minutes(8));
    assert_eq!(bucket.peek(NOW + minutes(8), 1).left, 10);
}

#[test]
fn debt_is_cut_to_the_debt_that_is_allowed_now() {
    let from = Continuous::new(1, HOUR, 2).unwrap().with_debt(100).unwrap();
    let mut bucket = TestBucket::new(Spec::Continuous(from));
    let _ = (0..200).map(|_| bucket.take(NOW, 1)).last();
    let to = Continuous::new(1, HOUR, 4).unwrap().with_debt(1).unwrap();
    let bucket = converted(bucket, Spec::Continuous(to), NOW);
    assert_eq!(bucket.peek(NOW, 1).admission, Admission::Refused { wait: HOUR.times(2) });
    assert_eq!(bucket.state[0], NOW + HOUR.times(5).as_nanos());
}

#[test]
fn between_two_shapes_only_the_level_survives() {
    let mut bucket = TestBucket::new(Spec::Rolling(rolling(10, 24)));
    assert!(bucket.take(NOW - 22 * HOUR.as_nanos(), 5).is_admitted());
    let to = Spec::Interval(Interval::new(4, HOUR.times(24), PeriodStart::First).unwrap());
    let bucket = converted(bucket, to, NOW);
    assert_eq!(bucket.peek(NOW, 1).left, 2);
    assert_eq!(
        bucket.peek(NOW + HOUR.times(24).as_nanos() - 1, 1).left,
        2,
        "two hours, had nothing been changed"
    );
}

#[test]
fn a_debt_that_was_converted_ends_its_periods_when_the_clock_says_so() {
    let (day, noon) = (Span::from_secs(86_400), Time::from_nanos((20_000 * 86_400 + 43_200) * 1_000_000_000));
    let by_first = Interval::new(5, day, PeriodStart::First).unwrap().with_debt(5).unwrap();
    let by_clock = Interval::new(5, day, PeriodStart::Clock).unwrap().with_debt(5).unwrap();
    let (by_first, by_clock) = (Spec::Interval(by_first), Spec::Interval(by_clock));
    let (mut before, mut after) = ([0; 2], [0; 2]);
    for _ in 0..9 {
        let _ = step(&by_first, &mut before, noon.before(day.minus(Span::from_secs(3600))), Op::Take(1));
    }
    convert(&by_first, &mut before, &by_clock, &mut after, noon);
    // The period that began yesterday would have ended at one o'clock, and each later one as well.
    let verdict = step(&by_clock, &mut after, noon.after(Span::from_secs(7200)), Op::Peek(1)).verdict;
    assert_eq!((verdict.left, verdict.full_at), (0, noon.after(Span::from_secs(43_200)).after(day)));
}

#[test]
fn who_was_paid_for_is_known_after_the_change_and_what_was_free_still_counts() {
    let distinct = |burst, repeats| {
        Spec::Distinct(Distinct::new(Continuous::new(1, HOUR, burst).unwrap(), Some(repeats)).unwrap())
    };
    let once = |bucket: &mut TestBucket, tag| bucket.run(NOW, Op::TakeOnce { tokens: 1, tag }).verdict;
    let mut bucket = TestBucket::new(distinct(10, 3));
    let left = [7, 7, 8].map(|tag| once(&mut bucket, tag).left);
    assert_eq!(left, [9, 9, 8]);
    let mut bucket = converted(bucket, distinct(5, 2), NOW);
    let left = [7, 8, 9].map(|tag| once(&mut bucket, tag).left);
    assert_eq!(left, [4, 3, 2], "one repeat was free before, one is now, and then none");
}

#[test]
fn a_bucket_that_counts_things_from_now_on_keeps_its_level_and_knows_nothing() {
    let plain = Continuous::new(1, HOUR, 10).unwrap();
    let distinct = Spec::Distinct(Distinct::new(plain, None).unwrap());
    let mut bucket = TestBucket::new(distinct);
    assert!(bucket.run(NOW, Op::TakeOnce { tokens: 4, tag: 7 }).verdict.is_admitted());
    let mut bucket = converted(converted(bucket, Spec::Continuous(plain), NOW), distinct, NOW);
    assert_eq!(bucket.run(NOW, Op::TakeOnce { tokens: 1, tag: 7 }).verdict.left, 5);
}

#[test]
fn waits_of_another_length_keep_the_strikes_and_the_wait_that_is_on() {
    let waits = |after, secs, max: u64| {
        Spec::Escalation(Escalation::new(after, Span::from_secs(secs), 2, Span::from_secs(max)).unwrap())
    };
    let mut bucket = TestBucket::new(waits(3, 100, 1000));
    for _ in 0..5 {
        let _ = bucket.run(NOW, Op::Strike);
    }
    let refused = |secs| Admission::Refused { wait: Span::from_secs(secs) };
    let mut longer = converted(bucket, waits(3, 10, 2000), NOW + S);
    assert_eq!(longer.peek(NOW + S, 1).admission, refused(99));
    assert_eq!(longer.peek(NOW + S, 1).full_at, Time::from_nanos(NOW + 2100 * S));
    let _ = longer.run(NOW + 100 * S, Op::Strike);
    assert_eq!(longer.peek(NOW + 100 * S, 1).admission, refused(20), "the third strike, and the second wait");
    let shorter = converted(bucket, waits(2, 10, 30), NOW + S);
    assert_eq!((shorter.peek(NOW + S, 1).admission, shorter.peek(NOW + 31 * S, 1).left), (refused(30), 1));
}

#[test]
fn between_tokens_and_waits_nothing_carries_over() {
    let waits = Spec::Escalation(Escalation::new(1, HOUR, 2, HOUR).unwrap());
    let tokens = Spec::Continuous(Continuous::new(1, HOUR, 2).unwrap());
    let (mut struck, mut drained) = (TestBucket::new(waits), TestBucket::new(tokens));
    let _ = struck.run(NOW, Op::Strike);
    assert!(drained.take(NOW, 2).is_admitted());
    assert_eq!(converted(struck, tokens, NOW), TestBucket::new(tokens));
    assert_eq!(converted(drained, waits, NOW), TestBucket::new(waits));
}
