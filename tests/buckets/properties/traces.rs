//! The ten traces that every build must reproduce, in simulated time, in the order of their numbers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use support::bucket;
mod sessions;
mod words;

use std::collections::BTreeMap;

use tollgate::bucket::{
    Admission, Continuous, Effect, Floor, Interval, Key, Op, PeriodStart, Rolling, Spec, Time, Verdict,
};
use tollgate::store::memory::{BucketKey, Buckets, Withdrawal, take_all};
use tollgate::time::Span;

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;

/// One bucket and its clock.
struct Bucket {
    inner: bucket::Bucket,
    now: Time,
}

impl Bucket {
    fn new(spec: Spec) -> Self {
        Self { inner: bucket::Bucket::new(spec), now: START }
    }

    /// So many tokens in so many seconds.
    fn of(count: u32, secs: u64, burst: u32) -> Self {
        Self::new(continuous(count, secs, burst))
    }

    /// Sets the clock to so many milliseconds after the start.
    fn at(&mut self, millis: u64) -> &mut Self {
        self.now = START.after(Span::from_millis(millis));
        self
    }

    fn op(&mut self, op: Op) -> Verdict {
        self.inner.run(self.now, op).verdict
    }

    fn take(&mut self) -> Verdict {
        self.op(Op::Take(1))
    }

    /// Tokens left after an attempt; `None` if it is refused.
    fn left(&mut self) -> Option<u32> {
        let verdict = self.take();
        verdict.is_admitted().then_some(verdict.left)
    }

    /// How many attempts are admitted at once.
    fn admitted_of(&mut self, attempts: usize) -> usize {
        (0..attempts).filter(|_| self.take().is_admitted()).count()
    }
}

fn continuous(count: u32, secs: u64, burst: u32) -> Spec {
    Spec::Continuous(Continuous::new(count, Span::from_secs(secs), burst).unwrap())
}

fn wait_of(verdict: Verdict) -> Span {
    match verdict.admission {
        Admission::Refused { wait } => wait,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn trace_1_the_eleventh_attempt_finds_the_token_that_came_due() {
    let mut bucket = Bucket::of(1, 1, 10);
    let expected = [
        (0, Some(9)),
        (100, Some(8)),
        (200, Some(7)),
        (300, Some(6)),
        (400, Some(5)),
        (500, Some(4)),
        (600, Some(3)),
        (700, Some(2)),
        (800, Some(1)),
        (900, Some(0)),
        (1000, Some(0)),
    ];
    for (millis, left) in expected {
        assert_eq!(bucket.at(millis).left(), left, "at {millis}");
    }
    for millis in (1100..=3900).step_by(100) {
        let left = (millis % 1000 == 0).then_some(0);
        assert_eq!(bucket.at(millis).left(), left, "one a second, at {millis}");
    }
    for (millis, left) in [(7000, Some(3)), (7100, Some(2)), (7200, Some(1)), (7300, Some(0)), (7400, None)] {
        assert_eq!(bucket.at(millis).left(), left, "four seconds after the last one: at {millis}");
    }
}

#[test]
fn trace_2_asking_faster_than_the_rate_does_not_pay() {
    let mut bucket = Bucket::of(2, 1, 5);
    let times = (0..10_000).map(|attempt| attempt * 300);
    let admitted: Vec<u64> = times.filter(|millis| bucket.at(*millis).take().is_admitted()).collect();
    for (first, start) in admitted.iter().enumerate() {
        let within = admitted[first..].iter().take_while(|&&at| at - start <= 60 * SECOND).count();
        assert!(within <= 5 + 120, "{within} in a minute from {start}");
    }
    assert_eq!(admitted.len(), 5 + 2 * 9999 * 3 / 10, "the burst and two a second");
}

#[test]
fn trace_3_a_slow_client_saves_nothing_beyond_the_size() {
    let mut bucket = Bucket::of(10, 300, 10);
    for millis in (0..24 * HOUR).step_by(200_000) {
        assert_eq!(bucket.at(millis).op(Op::Peek(1)).left, 10, "before, at {millis}");
        assert_eq!(bucket.left(), Some(9), "after, at {millis}");
    }
}

#[test]
fn trace_4_an_interval_admits_its_quota_in_each_period_and_carries_nothing_over() {
    for anchor in [PeriodStart::First, PeriodStart::Clock] {
        let spec = Interval::new(2, Span::from_secs(1), anchor).unwrap();
        let mut bucket = Bucket::new(Spec::Interval(spec));
        // Second of the trace, callers in it, how many of them are admitted.
        let expected = [(0, 5, 2), (1, 5, 2), (2, 5, 2), (3, 1, 1), (4, 5, 2), (9, 5, 2), (10, 5, 2)];
        for (second, callers, admitted) in expected {
            let at = |caller: u64| second * SECOND + caller * 100;
            let said: Vec<_> =
                (0..callers).map(|caller| bucket.at(at(caller)).take().is_admitted()).collect();
            let first_ones: Vec<_> = (0..callers).map(|caller| caller < admitted).collect();
            assert_eq!(said, first_ones, "{anchor:?}, second {second}");
        }
    }
}

#[test]
fn trace_5_a_refill_is_capped_at_the_size() {
    let mut bucket = Bucket::of(10, 1, 100);
    for (millis, left) in [(0, 99), (0, 98), (0, 97), (0, 96), (0, 95), (5000, 99)] {
        assert_eq!(bucket.at(millis).left(), Some(left), "at {millis}");
    }
}

#[test]
fn trace_6_the_floor_is_guaranteed_when_the_pool_is_drained() {
    let each_second = |count, burst| Continuous::new(count, Span::from_secs(1), burst).unwrap();
    let mut bucket = Bucket::new(Spec::Floor(Floor::new(each_second(10, 10), each_second(1, 100)).unwrap()));
    // Milliseconds, and how many of 200 at once are admitted.
    let expected =
        [(0, 110), (0, 0), (1000, 11), (2000, 11), (2100, 1), (3000, 10), (10_000, 17), (110_000, 110)];
    for (millis, admitted) in expected {
        assert_eq!(bucket.at(millis).admitted_of(200), admitted, "at {millis}");
    }
    // And however the attempts are spread over a second.
    for second in 200..260 {
        let spread = (0..50).filter(|pause| bucket.at(second * SECOND + pause * 20).take().is_admitted());
        assert!(spread.count() >= 10, "second {second}");
    }
}

/// How many attempts are admitted in each hour, of one each 250 ms over two days, by the two limits together.
fn admitted_each_hour(long: Rolling) -> Vec<u32> {
    let short = Spec::Interval(Interval::new(60, Span::from_secs(60), PeriodStart::First).unwrap());
    let limits = [short, Spec::Rolling(long)].map(|spec| (spec, Buckets::new(1, &[spec]).unwrap()));
    let mut admitted = vec![0; 48];
    let mut minutes = BTreeMap::<u64, u32>::new();
    for millis in (0..48 * HOUR).step_by(250) {
        let place = |spec| BucketKey { key: Key(1), class: 0, spec };
        let both = limits.each_ref().map(|(spec, buckets)| Withdrawal {
            buckets,
            bucket: place(*spec),
            cost: 1,
            tag: None,
            effect: Effect::Enforce { owner: 0 },
        });
        if take_all(&both, START.after(Span::from_millis(millis))).unwrap().admitted {
            admitted[usize::try_from(millis / HOUR).unwrap()] += 1;
            *minutes.entry(millis / (60 * SECOND)).or_default() += 1;
        }
    }
    assert!(minutes.values().all(|count| *count <= 60));
    admitted
}

#[test]
fn trace_7_no_day_of_whole_hours_sees_more_than_its_quota_and_no_hour_more_than_its_rate() {
    let (day, hour) = (Span::from_millis(24 * HOUR), Span::from_millis(HOUR));
    let rolling = Rolling::new(10_000, day, hour, PeriodStart::First).unwrap();
    // For each shape of the long limit, the first hour and what each hour from there on admits.
    let alone = [(0, 3600), (2, 2800), (3, 0), (24, 3600), (26, 2800), (27, 0)];
    let with_rate = [(0, 1000), (10, 0), (24, 1000), (34, 0)];
    for (long, expected) in [(rolling, &alone[..]), (rolling.with_rate(1000).unwrap(), &with_rate)] {
        let admitted = admitted_each_hour(long);
        for (hour, count) in admitted.iter().enumerate() {
            let (_, due) = expected.iter().rfind(|(from, _)| *from <= hour).unwrap();
            assert_eq!(count, due, "hour {hour}");
        }
        assert!(admitted.windows(24).all(|day| day.iter().sum::<u32>() <= 10_000));
    }
}

#[test]
fn trace_8_debt_makes_the_wait_longer_up_to_its_bound() {
    let debt =
        |debt| Continuous::new(10, Span::from_secs(300), 10).unwrap().with_debt(debt).map(Spec::Continuous);
    // How many have been refused, and the seconds that the last one has to wait.
    let bounded = [(1, 60), (2, 90), (9, 300), (10, 330), (11, 330), (20, 330)];
    let free = [(1, 30), (2, 30), (20, 30)];
    for (spec, expected) in [(debt(10), &bounded[..]), (debt(0), &free)] {
        let mut bucket = Bucket::new(spec.unwrap());
        assert_eq!(bucket.admitted_of(10), 10);
        let waits: Vec<_> = (0..20).map(|_| wait_of(bucket.take())).collect();
        for (refused, secs) in expected {
            assert_eq!(waits[refused - 1], Span::from_secs(*secs), "after {refused}");
        }
    }
}

#[test]
fn trace_10_a_start_balance_is_all_that_a_new_client_gets_at_once() {
    let spec = Continuous::new(100, Span::from_secs(100), 100).unwrap().with_initial(50).unwrap();
    let mut bucket = Bucket::new(Spec::Continuous(spec));
    // Milliseconds, and how many of 200 at once are admitted.
    for (millis, admitted) in [(0, 50), (0, 0), (999, 0), (1000, 1), (11_000, 10), (500_000, 100)] {
        assert_eq!(bucket.at(millis).admitted_of(200), admitted, "at {millis}");
    }
}
