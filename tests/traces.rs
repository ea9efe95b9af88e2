//! The traces that every build must reproduce, in simulated time, and what a bucket says on the way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

#[path = "support/bucket.rs"]
mod bucket;

use tollgate::bucket::{Answer, Continuous, Op, Spec, Time, Verdict};
use tollgate::time::Span;

/// One bucket and its clock.
struct Bucket {
    inner: bucket::Bucket,
    now: Time,
}

impl Bucket {
    fn of(spec: Continuous) -> Self {
        Self {
            inner: bucket::Bucket::new(Spec::Continuous(spec)),
            now: Time::from_nanos(1_800_000_000_000_000_000),
        }
    }

    fn new(count: u32, secs: u64, burst: u32) -> Self {
        Self::of(Continuous::new(count, Span::from_secs(secs), burst).unwrap())
    }

    fn wait(&mut self, span: Span) -> &mut Self {
        self.now = self.now.after(span);
        self
    }

    fn op(&mut self, op: Op) -> Verdict {
        self.inner.run(self.now, op).verdict
    }

    fn take(&mut self) -> Verdict {
        self.op(Op::Take(1))
    }

    /// Tokens left after each of `count` attempts with a pause before each but the first; `None` for a refusal.
    fn series(&mut self, count: usize, pause: Span) -> Vec<Option<u32>> {
        let mut left = Vec::new();
        for attempt in 0..count {
            if attempt > 0 {
                self.wait(pause);
            }
            let verdict = self.take();
            left.push(verdict.is_admitted().then_some(verdict.left));
        }
        left
    }
}

fn wait_of(verdict: Verdict) -> Span {
    match verdict.answer {
        Answer::Refused { wait } => wait,
        other => panic!("not refused: {other:?}"),
    }
}

const TENTH: Span = Span::from_millis(100);

#[test]
fn trace_1_the_eleventh_attempt_finds_the_token_that_came_due() {
    let mut bucket = Bucket::new(1, 1, 10);
    let admitted: Vec<_> = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0].map(Some).into();
    assert_eq!(bucket.series(11, TENTH), admitted);
    let next: Vec<_> = (0..20).map(|_| bucket.wait(TENTH).take().is_admitted()).collect();
    let due: Vec<_> = (1..=20).map(|attempt| attempt % 10 == 0).collect();
    assert_eq!(next, due, "one a second");
    bucket.wait(Span::from_secs(4));
    assert_eq!(bucket.series(5, TENTH), [Some(3), Some(2), Some(1), Some(0), None]);
}

#[test]
fn trace_2_asking_faster_than_the_rate_does_not_pay() {
    let mut bucket = Bucket::new(2, 1, 5);
    let pause = Span::from_millis(300);
    let admitted: Vec<u64> = (0..10_000_u64)
        .filter(|_| bucket.wait(pause).take().is_admitted())
        .map(|attempt| attempt * pause.as_nanos())
        .collect();
    for (first, start) in admitted.iter().enumerate() {
        let within = admitted[first..].iter().take_while(|&&at| at - start <= 60_000_000_000).count();
        assert!(within <= 5 + 120, "{within} in a minute from {start}");
    }
    assert!(admitted.len() < 10_000 * 2 / 3, "{} admitted", admitted.len());
}

#[test]
fn trace_3_a_slow_client_saves_nothing_beyond_the_size() {
    let mut bucket = Bucket::new(10, 300, 10);
    let most = (0..432).map(|_| bucket.wait(Span::from_secs(200)).take().left).max();
    assert_eq!(most, Some(9));
    assert_eq!(bucket.wait(Span::from_secs(86_400)).op(Op::Peek(1)).left, 10);
}

#[test]
fn trace_5_a_refill_is_capped_at_the_size() {
    let mut bucket = Bucket::new(10, 1, 100);
    (0..5).for_each(|_| assert!(bucket.take().is_admitted()));
    assert_eq!(bucket.op(Op::Peek(1)).left, 95);
    assert_eq!(bucket.wait(Span::from_secs(5)).take().left, 99);
}

#[test]
fn trace_8_debt_makes_the_wait_longer_up_to_its_bound() {
    let debt =
        |debt| Bucket::of(Continuous::new(10, Span::from_secs(300), 10).unwrap().with_debt(debt).unwrap());
    let mut bounded = debt(10);
    (0..10).for_each(|_| assert!(bounded.take().is_admitted()));
    let after_one = wait_of(bounded.take());
    let after_twenty = (0..19).map(|_| wait_of(bounded.take())).last().unwrap();
    assert_eq!((after_one, after_twenty), (Span::from_secs(60), Span::from_secs(330)));
    let mut free = debt(0);
    (0..10).for_each(|_| assert!(free.take().is_admitted()));
    assert!((0..20).all(|_| wait_of(free.take()) == Span::from_secs(30)));
}

#[test]
fn trace_10_a_start_balance_is_all_that_a_new_client_gets_at_once() {
    let spec = Continuous::new(100, Span::from_secs(100), 100).unwrap().with_initial(50).unwrap();
    let mut bucket = Bucket::of(spec);
    assert_eq!((0..51).filter(|_| bucket.take().is_admitted()).count(), 50);
    assert!(bucket.wait(Span::from_secs(1)).take().is_admitted());
    assert_eq!(bucket.wait(Span::from_secs(1000)).op(Op::Peek(1)).left, 100);
}

#[test]
fn an_empty_start_balance_begins_to_fill_at_the_first_visit() {
    let mut bucket = Bucket::of(Continuous::new(1, Span::from_secs(10), 5).unwrap().with_initial(0).unwrap());
    assert_eq!(wait_of(bucket.take()), Span::from_secs(10));
    assert_eq!(wait_of(bucket.wait(Span::from_secs(4)).take()), Span::from_secs(6));
    assert!(bucket.wait(Span::from_secs(6)).take().is_admitted());
}

#[test]
fn a_refused_attempt_writes_nothing() {
    let mut bucket = Bucket::new(1, 10, 1);
    assert!(bucket.take().is_admitted());
    assert!(!bucket.inner.look(bucket.now, Op::Take(1)).changed);
    assert!(!bucket.inner.look(bucket.now, Op::Peek(1)).changed);
    let absent = bucket::Bucket::new(bucket.inner.spec);
    assert!(!absent.look(bucket.now, Op::Give(1)).changed, "an absent bucket is full already");
}

#[test]
fn an_attempt_that_can_never_fit_is_told_so_instead_of_to_wait() {
    let mut bucket = Bucket::new(1, 10, 5);
    assert_eq!(bucket.op(Op::Take(6)).answer, Answer::NeverFits);
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
