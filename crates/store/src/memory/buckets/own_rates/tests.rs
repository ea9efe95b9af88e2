//! Rates of single buckets against a model: the same records, converted one after the other by `RecordHeader`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use proptest::prelude::*;

use super::*;
use tollgate_bucket::Span;
use tollgate_bucket::{Continuous, Distinct, Escalation, Floor, Interval, PeriodStart, Rolling, Verdict};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const HOUR: Span = Span::from_secs(3600);

fn continuous(count: u32, burst: u32) -> Continuous {
    Continuous::new(count, HOUR, burst).unwrap()
}

fn steady(burst: u32) -> Spec {
    Spec::Continuous(continuous(burst, burst))
}

fn shapes() -> Vec<Spec> {
    let bucket = continuous(20, 10);
    vec![
        Spec::Continuous(bucket.with_debt(5).unwrap()),
        Spec::Continuous(bucket.with_initial(3).unwrap()),
        Spec::Interval(Interval::new(10, HOUR, PeriodStart::First).unwrap()),
        Spec::Rolling(Rolling::new(10, HOUR.times(24), HOUR, PeriodStart::First).unwrap()),
        Spec::Floor(Floor::new(continuous(2, 2), bucket).unwrap()),
        Spec::Distinct(Distinct::new(bucket, Some(5)).unwrap()),
    ]
}

fn bucket(key: u128, spec: Spec) -> BucketKey {
    BucketKey { key: Key(key), class: 0, spec }
}

fn new_buckets(spec: Spec) -> Arc<Buckets> {
    Arc::new(Buckets::new(100, &[spec]).unwrap())
}

fn own(count: u32, burst: u32, until: Time) -> Option<Own> {
    Some(Own { rate: continuous(count, burst), until })
}

fn left(buckets: &Buckets, bucket: &BucketKey, now: Time) -> u32 {
    buckets.peek(bucket, now, 1).left
}

fn take(buckets: &Buckets, bucket: &BucketKey, now: Time) -> bool {
    buckets.apply(bucket, now, Op::Take(1)).unwrap().is_admitted()
}

/// How many tokens can be taken one by one.
fn drained(buckets: &Buckets, bucket: &BucketKey, now: Time) -> usize {
    (0..10_000).take_while(|_| take(buckets, bucket, now)).count()
}

/// The reference: one record, converted at each use.
struct Model {
    limit: Spec,
    header: RecordHeader,
    state: [u64; Spec::MAX_WORDS],
}

impl Model {
    fn new(limit: Spec) -> Self {
        Self { limit, header: RecordHeader::of(limit), state: [0; Spec::MAX_WORDS] }
    }

    fn set_own(&mut self, own: Option<Own>, now: Time) {
        self.header.effective_spec(&self.limit, &mut self.state, now);
        self.header.give_rate(&self.limit, own, &mut self.state, now);
    }

    fn apply(&mut self, now: Time, op: Op) -> Verdict {
        let spec = self.header.effective_spec(&self.limit, &mut self.state, now);
        let mut state = self.state;
        let step = step(&spec, &mut state[..spec.words()], now, op);
        if step.changed {
            self.state = state;
        }
        step.verdict
    }
}

#[derive(Debug, Clone)]
enum Act {
    Op(Op),
    Give(u32, u32, u64),
    Take,
    Reset,
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let op = prop_oneof![
        (1..4_u32).prop_map(Op::Take),
        (1..4_u32).prop_map(Op::Peek),
        (1..4_u32).prop_map(Op::Give),
        (0..4_u64).prop_map(|tag| Op::TakeOnce { tokens: 1, tag }),
    ];
    let act = prop_oneof![
        12 => op.prop_map(Act::Op),
        2 => (1..100_u32, 1..30_u32, 1..7200_u64).prop_map(|(count, burst, secs)| Act::Give(count, burst, secs)),
        1 => Just(Act::Take),
        1 => Just(Act::Reset),
    ];
    prop::collection::vec((0..1200_u64, act), 1..60)
}

proptest! {
    #[test]
    fn a_bucket_with_a_rate_of_its_own_is_what_its_record_would_be(
        shape in 0..6_usize,
        acts in acts(),
    ) {
        let spec = shapes()[shape];
        let (buckets, bucket, mut model) = (new_buckets(spec), bucket(7, spec), Model::new(spec));
        let mut now = NOW;
        for (passed, act) in acts {
            now = now.after(Span::from_secs(passed));
            match act {
                Act::Op(op) => prop_assert_eq!(buckets.apply(&bucket, now, op).unwrap(), model.apply(now, op)),
                Act::Give(count, burst, secs) => {
                    let own = own(count, burst, now.after(Span::from_secs(secs)));
                    buckets.set_own_rate(&bucket, own, now).unwrap();
                    model.set_own(own, now);
                    prop_assert_eq!(buckets.own_rate(bucket.key, now), own);
                }
                Act::Take => {
                    buckets.set_own_rate(&bucket, None, now).unwrap();
                    model.set_own(None, now);
                }
                Act::Reset => {
                    buckets.reset(&bucket, now).unwrap();
                    model.header.effective_spec(&spec, &mut model.state, now);
                    model.state.fill(0);
                }
            }
            let seen = buckets.peek(&bucket, now, 1);
            prop_assert_eq!(seen, model.apply(now, Op::Peek(1)));
        }
    }
}

#[test]
fn the_level_is_kept_in_proportion_at_the_beginning_and_at_the_end() {
    let (buckets, bucket) = (new_buckets(steady(10)), bucket(1, steady(10)));
    buckets.apply(&bucket, NOW, Op::Take(5)).unwrap();
    buckets.set_own_rate(&bucket, own(100, 100, NOW.after(HOUR)), NOW).unwrap();
    assert_eq!(left(&buckets, &bucket, NOW), 50);
    buckets.set_own_rate(&bucket, None, NOW).unwrap();
    assert_eq!((left(&buckets, &bucket, NOW), buckets.own_rate(bucket.key, NOW)), (5, None));
}

#[test]
fn it_ends_to_the_nanosecond_and_what_it_would_have_brought_since_does_not_count() {
    let (buckets, bucket) = (new_buckets(steady(10)), bucket(1, steady(10)));
    let end = NOW.after(Span::from_secs(60));
    buckets.set_own_rate(&bucket, own(60 * 60, 60, end), NOW).unwrap();
    assert_eq!(drained(&buckets, &bucket, NOW), 60);
    let last = end.before(Span::from_nanos(1));
    assert_eq!(left(&buckets, &bucket, last), 59, "one a second");
    assert_eq!(drained(&buckets, &bucket, last), 59);
    // At its end the bucket holds one token of sixty: what the limit refills in a minute. The own rate would have
    // filled it within that minute.
    let full = end.after(Span::from_secs(3540));
    let before = full.before(Span::from_nanos(1));
    assert_eq!([end, before, full].map(|now| left(&buckets, &bucket, now)), [0, 9, 10]);
    assert_eq!(buckets.own_rate(bucket.key, end), None);
    assert_eq!(drained(&buckets, &bucket, before), 9, "and the limit's rate since");
}

#[test]
fn it_survives_a_change_of_its_limit_and_ends_in_the_new_one() {
    let (old, end) = (new_buckets(steady(10)), NOW.after(HOUR));
    old.apply(&bucket(1, steady(10)), NOW, Op::Take(10)).unwrap();
    old.set_own_rate(&bucket(1, steady(10)), own(100, 100, end), NOW).unwrap();
    let change = NOW.after(HOUR.times(1).minus(Span::from_secs(1800)));
    let new = Arc::new(old.changed(100, &[steady(4)], vec![Some((0, steady(10)))], change).unwrap());
    old.close();
    let bucket = bucket(1, steady(4));
    assert_eq!(left(&new, &bucket, change), 50, "the level and the rate are its own still");
    assert_eq!(drained(&new, &bucket, change), 50);
    assert_eq!(left(&new, &bucket, end), 2, "half of what the limit has now");
    assert_eq!(drained(&new, &bucket, end), 2);
    assert_eq!(old.set_own_rate(&bucket, None, end), Err(OwnRateError::Stale(Stale)));
    assert_eq!(old.reset(&bucket, end), Err(Stale));
}

#[test]
fn a_bucket_is_given_back_to_a_limit_that_was_changed_and_nothing_of_before_comes_over() {
    let old = new_buckets(steady(10));
    old.apply(&bucket(1, steady(10)), NOW, Op::Take(10)).unwrap();
    let new = Arc::new(old.changed(100, &[steady(4)], vec![Some((0, steady(10)))], NOW).unwrap());
    old.close();
    let bucket = bucket(1, steady(4));
    new.set_own_rate(&bucket, own(100, 100, NOW.after(HOUR)), NOW).unwrap();
    assert_eq!(left(&new, &bucket, NOW), 0);
    new.apply(&bucket, NOW, Op::Give(100)).unwrap();
    new.set_own_rate(&bucket, None, NOW).unwrap();
    assert_eq!(left(&new, &bucket, NOW), 4, "full, although it was drained under the former limit");
}

#[test]
fn a_reset_bucket_is_as_if_never_seen_also_where_a_former_limit_had_drained_it() {
    for spec in shapes().into_iter().chain([Spec::Escalation(Escalation::new(1, HOUR, 2, HOUR).unwrap())]) {
        let (buckets, bucket) = (new_buckets(spec), bucket(1, spec));
        let fresh = buckets.peek(&bucket, NOW, 1);
        for op in [Op::Take(2), Op::Strike, Op::Take(9)] {
            buckets.apply(&bucket, NOW, op).unwrap();
        }
        assert_ne!(buckets.peek(&bucket, NOW, 1), fresh, "{spec:?}");
        let new = Arc::new(buckets.changed(100, &[spec], vec![Some((0, spec))], NOW).unwrap());
        buckets.close();
        new.reset(&bucket, NOW).unwrap();
        assert_eq!((new.peek(&bucket, NOW, 1), new.live(NOW)), (fresh, 0), "{spec:?}");
    }
}

#[test]
fn a_reset_keeps_the_rate_of_its_own() {
    let (buckets, bucket) = (new_buckets(steady(10)), bucket(1, steady(10)));
    let own = own(3, 3, NOW.after(HOUR));
    buckets.set_own_rate(&bucket, own, NOW).unwrap();
    assert_eq!(drained(&buckets, &bucket, NOW), 3);
    buckets.reset(&bucket, NOW).unwrap();
    assert_eq!((drained(&buckets, &bucket, NOW), buckets.own_rate(bucket.key, NOW)), (3, own));
    buckets.reset(&bucket, NOW.after(HOUR)).unwrap();
    assert_eq!(left(&buckets, &bucket, NOW.after(HOUR)), 10);
}

#[test]
fn others_are_as_they_were() {
    let buckets = new_buckets(steady(10));
    // The same bit of the filter, and another one.
    let others = [bucket(1 + 64, steady(10)), bucket(2, steady(10))];
    buckets.apply(&others[0], NOW, Op::Take(4)).unwrap();
    buckets.set_own_rate(&bucket(1, steady(10)), own(1, 1, NOW.after(HOUR)), NOW).unwrap();
    assert_eq!(others.map(|other| drained(&buckets, &other, NOW)), [6, 10]);
    assert_eq!(drained(&buckets, &bucket(1, steady(10)), NOW), 1);
}

#[test]
fn there_are_ten_thousand_at_most_and_ended_ones_make_room() {
    let buckets = new_buckets(steady(10));
    let end = NOW.after(HOUR);
    let give = |key: usize, now| {
        buckets.set_own_rate(&bucket(key as u128, steady(10)), own(1, 1, end.after(HOUR.times(9))), now)
    };
    for key in 0..MAX_OWN_RATES {
        buckets.set_own_rate(&bucket(key as u128, steady(10)), own(1, 1, end), NOW).unwrap();
    }
    assert_eq!(give(MAX_OWN_RATES, NOW), Err(OwnRateError::TooMany));
    assert_eq!(left(&buckets, &bucket(MAX_OWN_RATES as u128, steady(10)), NOW), 10, "as it was");
    assert_eq!(give(7, NOW), Ok(()), "a bucket with a rate may get another");
    buckets.release(end.after(HOUR).before(Span::from_nanos(1)));
    assert_eq!(give(MAX_OWN_RATES, NOW), Err(OwnRateError::TooMany), "a bucket may still not be full");
    buckets.release(end.after(HOUR));
    assert_eq!((give(MAX_OWN_RATES, NOW), buckets.own_rates.read().len()), (Ok(()), 2));
}

#[test]
fn waits_that_grow_have_no_rate() {
    let spec = Spec::Escalation(Escalation::new(3, HOUR, 2, HOUR).unwrap());
    let buckets = new_buckets(spec);
    assert_eq!(
        buckets.set_own_rate(&bucket(1, spec), own(1, 1, NOW.after(HOUR)), NOW),
        Err(OwnRateError::NoRate)
    );
    assert_eq!(buckets.set_own_rate(&bucket(1, spec), None, NOW), Ok(()));
}

/// Takes from one bucket with eight threads while `act` runs. Returns the number of admissions.
fn admitted_while(buckets: &Buckets, bucket: &BucketKey, act: impl FnOnce()) -> u32 {
    let admitted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    admitted.fetch_add(take(buckets, bucket, NOW).into(), Ordering::Relaxed);
                }
            });
        }
        act();
    });
    admitted.into_inner()
}

#[test]
fn threads_that_race_lose_and_win_nothing_when_a_rate_comes_and_goes() {
    // The same burst and rate: the number of tokens does not depend on when a bucket is converted.
    let (buckets, bucket) = (new_buckets(steady(9000)), bucket(1, steady(9000)));
    let same = own(9000, 9000, NOW.after(HOUR));
    let admitted = admitted_while(&buckets, &bucket, || {
        for _ in 0..500 {
            buckets.set_own_rate(&bucket, same, NOW).unwrap();
            buckets.set_own_rate(&bucket, None, NOW).unwrap();
        }
        buckets.set_own_rate(&bucket, same, NOW).unwrap();
    });
    assert_eq!((admitted, left(&buckets, &bucket, NOW)), (9000, 0));
}

#[test]
fn nothing_is_lost_or_won_when_the_limit_is_changed_under_a_rate_of_its_own() {
    let spec = steady(9000);
    let (bucket, same) = (bucket(1, spec), own(9000, 9000, NOW.after(HOUR)));
    let newest = ArcSwap::from(new_buckets(spec));
    let admitted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let taken = loop {
                        match newest.load().apply(&bucket, NOW, Op::Take(1)) {
                            Ok(verdict) => break verdict.is_admitted(),
                            Err(Stale) => std::thread::yield_now(),
                        }
                    };
                    admitted.fetch_add(taken.into(), Ordering::Relaxed);
                }
            });
        }
        for change in 0..15 {
            let old = newest.load_full();
            old.set_own_rate(&bucket, same.filter(|_| change % 3 > 0), NOW).unwrap();
            let new = old.changed(100, &[spec], vec![Some((0, spec))], NOW).unwrap();
            old.set_own_rate(&bucket, same.filter(|_| change % 4 > 0), NOW).unwrap();
            old.close();
            newest.store(Arc::new(new));
            newest.load().set_own_rate(&bucket, same.filter(|_| change % 2 > 0), NOW).unwrap();
        }
    });
    assert_eq!(admitted.into_inner() + left(&newest.load(), &bucket, NOW), 9000);
}

#[test]
fn threads_that_race_for_a_rate_of_its_own_get_exactly_that() {
    let (buckets, bucket) = (new_buckets(steady(10)), bucket(1, steady(10)));
    buckets.set_own_rate(&bucket, own(5000, 5000, NOW.after(HOUR)), NOW).unwrap();
    let credited = AtomicU32::new(0);
    let admitted = admitted_while(&buckets, &bucket, || {
        while credited.load(Ordering::Relaxed) < 300 {
            // Stays below the burst, because a full bucket takes no more tokens.
            if left(&buckets, &bucket, NOW) < 4000 {
                buckets.apply(&bucket, NOW, Op::Give(1)).unwrap();
                credited.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(admitted + left(&buckets, &bucket, NOW), 5300);
}
