//! A decision takes nothing from the heap, and a table no more than it says.
//!
//! The counting allocator counts for each thread by itself, so the tests may run beside each other; it is there in
//! this program only.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::net::IpAddr;

use allocation_counter::measure;
use http::HeaderMap;
use support::policy::{attempt, limit, route};
use tollgate::bucket::{
    Continuous, Distinct, Escalation, Floor, Interval, Key, Op, PeriodStart, Rolling, Spec,
};
use tollgate::engine::{Decision, Engine};
use tollgate::event::{
    AccessLogEntry, AttemptRecord, Event, EventListener, Events, LimitDecision, LimitRecord,
};
use tollgate::observe::heavy_hitters::HeavyHitters;
use tollgate::policy::attempt::Client;
use tollgate::policy::{AttemptFacts, Policy};
use tollgate::store::memory::{BucketKey, Buckets};
use tollgate::time::{Clock, Span, Time};

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
const PERIOD: Span = Span::from_secs(60);
const BURST: u32 = 5;

fn shapes() -> [(&'static str, Spec); 7] {
    let continuous = Continuous::new(1, PERIOD, BURST).unwrap();
    let rolling = |slots| Rolling::new(BURST, PERIOD.times(slots), PERIOD, PeriodStart::First).unwrap();
    [
        ("continuous", Spec::Continuous(continuous)),
        ("interval", Spec::Interval(Interval::new(BURST, PERIOD, PeriodStart::First).unwrap())),
        ("rolling 24", Spec::Rolling(rolling(24))),
        ("rolling 24 with rate", Spec::Rolling(rolling(24).with_rate(3).unwrap())),
        ("rolling 1024", Spec::Rolling(rolling(1024))),
        ("distinct", Spec::Distinct(Distinct::new(continuous, Some(3)).unwrap())),
        ("floor", Spec::Floor(Floor::new(Continuous::new(1, PERIOD, 2).unwrap(), continuous).unwrap())),
    ]
}

#[test]
fn a_heap_that_is_used_is_noticed() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
}

#[test]
fn a_decision_of_any_shape_allocates_nothing() {
    warm_up();
    for (name, spec) in shapes() {
        let buckets = Buckets::new(1000, &[spec]).unwrap();
        let (mut admitted, mut refused) = (0, 0);
        let allocated = measure(|| {
            for number in 0..3000_u128 {
                let place = BucketKey { key: Key(((number / 10) << 70) | (number / 10)), class: 0, spec };
                let now = START.after(Span::from_millis(u64::try_from(number).unwrap()));
                match buckets.apply(&place, now, Op::Take(1)).unwrap().is_admitted() {
                    true => admitted += 1,
                    false => refused += 1,
                }
            }
        });
        assert_eq!(allocated.count_total, 0, "{name}");
        assert!(admitted > 500 && refused > 500, "{name}: {admitted} admitted, {refused} refused");
    }
}

#[test]
fn a_token_given_back_and_a_look_allocate_nothing() {
    warm_up();
    for (name, spec) in shapes() {
        let buckets = Buckets::new(1000, &[spec]).unwrap();
        let place = BucketKey { key: Key(1), class: 0, spec };
        let allocated = measure(|| {
            let taken = buckets.apply(&place, START, Op::Take(1)).unwrap();
            let _ = buckets.peek(&place, START, 1);
            let _ = buckets.apply(&place, START, Op::Refund(taken.receipt)).unwrap();
            let _ = buckets.apply(&place, START, Op::Give(1)).unwrap();
        });
        assert_eq!(allocated.count_total, 0, "{name}");
    }
}

#[test]
fn a_repeat_and_a_strike_allocate_nothing() {
    warm_up();
    let bucket = Continuous::new(1, PERIOD, BURST).unwrap();
    let once = Spec::Distinct(Distinct::new(bucket, Some(200)).unwrap());
    let waits = Spec::Escalation(Escalation::new(3, PERIOD, 2, PERIOD.times(60)).unwrap());
    let rooms = [once, waits].map(|spec| (Buckets::new(1000, &[spec]).unwrap(), spec));
    let mut refused = 0;
    let allocated = measure(|| {
        for (buckets, spec) in &rooms {
            let place = BucketKey { key: Key(1), class: 0, spec: *spec };
            for number in 0..100 {
                let op = Op::TakeOnce { tokens: 1, tag: (1 + number % 8) << 32 };
                refused += u32::from(!buckets.apply(&place, START, op).unwrap().is_admitted());
                let _ = buckets.apply(&place, START, Op::Strike).unwrap();
            }
            let _ = buckets.apply(&place, START, Op::Give(1)).unwrap();
        }
    });
    assert_eq!(allocated.count_total, 0);
    assert!(refused > 100, "{refused} refused");
}

#[test]
fn an_attempt_on_two_limits_allocates_its_result_and_nothing_else() {
    warm_up();
    let shapes = shapes();
    for ((name, narrow), (_, wide)) in shapes.iter().zip(shapes.iter().cycle().skip(1)) {
        let limits = vec![limit("narrow", *narrow), limit("wide", *wide)];
        let policy = Policy::new(vec![route("login", 1, vec![0, 1])], limits);
        let engine = Engine::new(policy, 1000, Clock::manual(START), Events::default()).unwrap();
        let headers = HeaderMap::new();
        let (mut admitted, mut refused) = (0, 0);
        let decide = |client: u8| {
            let client = IpAddr::from([192, 0, 2, client]);
            engine.decide_in_memory(&engine.rules(), &attempt("/login", client, &headers), START)
        };
        let allocated = measure(|| {
            for number in 0..2000_u32 {
                match decide(u8::try_from(number % 100).unwrap()).unwrap() {
                    Decision::Admitted(_) => admitted += 1,
                    Decision::Refused(_) => refused += 1,
                    Decision::Uncounted | Decision::Denied | Decision::RefusedByDefence(_) => {}
                }
            }
        });
        assert_eq!(allocated.count_total, 2000, "{name}");
        assert!(admitted >= 300 && refused >= 1000, "{name}: {admitted} admitted, {refused} refused");
    }
}

#[test]
fn a_rolling_window_of_24_periods_reserves_at_most_160_bytes_a_client() {
    let spec = Spec::Rolling(Rolling::new(BURST, PERIOD.times(24), PERIOD, PeriodStart::First).unwrap());
    let mut capacity = 0;
    let reserved = measure(|| {
        let buckets = Buckets::new(1_000_000, &[spec]).unwrap();
        capacity = u64::try_from(buckets.capacity()).unwrap();
    });
    assert!(capacity >= 1_000_000);
    let bytes = reserved.bytes_max;
    assert!(bytes <= 160 * capacity, "{bytes} bytes are reserved for {capacity} clients");
}

/// The first look of a thread at what may be exchanged sets up what the thread needs for all later ones.
/// A refused attempt from 192.0.2.1 under the only limit of a policy.
fn refused_attempt() -> (Policy, AccessLogEntry) {
    let policy = Policy::new(vec![route("login", 1, vec![0])], vec![limit("address", shapes()[0].1)]);
    let record = LimitRecord { limit: 0, decision: LimitDecision::Refuse, left: 0, wait: None };
    let attempt = AttemptRecord {
        policy: policy.clone().into(),
        route: 0,
        limits: std::iter::once(record).collect(),
        facts: AttemptFacts::default(),
        decided: Time::default(),
        settled: None,
    };
    let entry = AccessLogEntry {
        is_request: true,
        signs: Default::default(),
        client: Client::from_ip([192, 0, 2, 1].into()),
        method: http::Method::POST,
        target: "/login".parse().unwrap(),
        version: http::Version::HTTP_11,
        host: None,
        referer: None,
        user_agent: None,
        request_id: None,
        attempt: Some(Box::new(attempt)),
        span: None,
        status: http::StatusCode::TOO_MANY_REQUESTS,
        bytes: 0,
        complete: true,
        at: START,
        duration: Span::ZERO,
        added: Span::ZERO,
    };
    (policy, entry)
}

/// The first refusal of a thread takes the memory, and the first of a minute that of the history.
#[test]
fn a_flood_is_counted_without_allocating() {
    let (hitters, (policy, mut entry)) = (HeavyHitters::default(), refused_attempt());
    hitters.on_event(&Event::Rules { generation: 0, policy: &policy });
    let mut refuse = |client: u32, at: Time| {
        (entry.client, entry.at) = (Client::from_ip(std::net::Ipv4Addr::from_bits(client).into()), at);
        hitters.on_event(&Event::RequestCompleted(&entry));
    };
    refuse(0, START);
    let allocated = measure(|| (1..1_000_000).for_each(|client| refuse(client, START)));
    assert_eq!(allocated.count_total, 0);
    let hours =
        |from: u64, to: u64| (from * 60..to * 60).map(|minute| START.after(Span::from_secs(60 * minute)));
    hours(1, 3).for_each(|at| refuse(1, at));
    let allocated = measure(|| hours(3, 24).for_each(|at| refuse(2, at)));
    assert_eq!(allocated.count_total, 0);
}

fn warm_up() {
    let [(_, spec), ..] = shapes();
    let buckets = Buckets::new(1, &[spec]).unwrap();
    let _ = buckets.peek(&BucketKey { key: Key(1), class: 0, spec }, START, 1);
}
