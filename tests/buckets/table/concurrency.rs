//! Many threads at one bucket, and at two, while the limit is changed under them.
//!
//! The clock stands still, so what may be admitted is known to the token.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use support::policy;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::HeaderMap;
use policy::{attempt, limit, route};
use tollgate::bucket::{
    Continuous, Distinct, Effect, Escalation, Floor, Interval, Key, Op, PeriodStart, Rolling, Spec,
};
use tollgate::engine::{Decision, Engine, Undecided};
use tollgate::event::Events;
use tollgate::policy::Policy;
use tollgate::store::memory::{BucketKey, Buckets, Stale, Withdrawal, take_all};
use tollgate::time::{Clock, Span, Time};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const HOUR: Span = Span::from_secs(3600);
const THREADS: u32 = 32;

/// One of each shape with so many tokens.
fn shapes(burst: u32) -> [Spec; 6] {
    let continuous = |burst| Continuous::new(1, HOUR, burst).unwrap();
    let rolling = |slots| Rolling::new(burst, HOUR.times(slots), HOUR, PeriodStart::First).unwrap();
    [
        Spec::Continuous(continuous(burst)),
        Spec::Interval(Interval::new(burst, HOUR, PeriodStart::First).unwrap()),
        Spec::Rolling(rolling(24)),
        Spec::Rolling(rolling(1024)),
        Spec::Floor(Floor::new(continuous(10), continuous(burst - 10)).unwrap()),
        Spec::Distinct(Distinct::new(continuous(burst), Some(0)).unwrap()),
    ]
}

fn place(spec: Spec) -> BucketKey {
    BucketKey { key: Key(7), class: 0, spec }
}

/// How many of 32 threads' attempts were admitted.
fn admitted_of(attempts_each: u32, attempt: impl Fn() -> bool + Sync) -> u32 {
    let admitted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mine = (0..attempts_each).filter(|_| attempt()).count();
                admitted.fetch_add(u32::try_from(mine).unwrap(), Ordering::Relaxed);
            });
        }
    });
    admitted.into_inner()
}

#[test]
fn thirty_two_threads_on_one_key_admit_exactly_the_bucket_whatever_its_shape() {
    for spec in shapes(1000) {
        let buckets = Buckets::new(100, &[spec]).unwrap();
        let attempt = || buckets.apply(&place(spec), NOW, Op::Take(1)).unwrap().is_admitted();
        assert_eq!(admitted_of(200, attempt), 1000, "{spec:?}");
        assert_eq!(buckets.peek(&place(spec), NOW, 1).left, 0);
    }
}

#[test]
fn thirty_two_threads_on_two_limits_admit_exactly_the_smaller_one() {
    let shapes = shapes(500);
    for (small, large) in shapes.iter().zip(self::shapes(700).into_iter().cycle().skip(1)) {
        let rooms = [*small, large].map(|spec| (Buckets::new(100, &[spec]).unwrap(), spec));
        let take = |(buckets, spec)| Withdrawal {
            buckets,
            bucket: place(spec),
            cost: 1,
            tag: None,
            effect: Effect::Enforce { owner: 0 },
        };
        let both = rooms.each_ref().map(|(buckets, spec)| take((buckets, *spec)));
        assert_eq!(admitted_of(100, || take_all(&both, NOW).unwrap().admitted), 500, "{small:?}");
        let left = rooms.each_ref().map(|(buckets, spec)| buckets.peek(&place(*spec), NOW, 1).left);
        assert_eq!(left, [0, 200], "{small:?} and {large:?}");
    }
}

#[test]
fn thirty_two_threads_that_try_the_same_things_pay_for_each_once_and_repeat_as_often_as_is_free() {
    let bucket = Continuous::new(1, HOUR, 20).unwrap();
    let spec = Spec::Distinct(Distinct::new(bucket, Some(100)).unwrap());
    let buckets = Buckets::new(100, &[spec]).unwrap();
    let number = AtomicU32::new(0);
    let things = |count: u32| {
        let tag = u64::from(1 + number.fetch_add(1, Ordering::Relaxed) % count) << 32;
        buckets.apply(&place(spec), NOW, Op::TakeOnce { tokens: 1, tag }).unwrap().is_admitted()
    };
    assert_eq!(admitted_of(3, || things(10)), 96, "ten were paid for, and the others were free");
    assert_eq!(buckets.peek(&place(spec), NOW, 1).left, 10);
    assert_eq!(admitted_of(100, || things(10)), 14 + 10, "the last free ones, and then the last tokens");
}

#[test]
fn thirty_two_threads_that_are_struck_begin_every_wait_once() {
    let (after, minute) = (16, Span::from_secs(60));
    let spec = Spec::Escalation(Escalation::new(after, minute, 2, HOUR).unwrap());
    let buckets = Buckets::new(100, &[spec]).unwrap();
    admitted_of(2, || buckets.apply(&place(spec), NOW, Op::Strike).unwrap().is_admitted());
    // Sixty-four strikes are four waits, each twice as long as the one before.
    let wait = buckets.peek(&place(spec), NOW, 1).admission;
    assert_eq!(wait, tollgate::bucket::Admission::Refused { wait: minute.times(8) });
}

#[test]
fn tokens_given_back_are_taken_again_and_none_is_made_by_it() {
    for spec in shapes(100) {
        let buckets = Buckets::new(100, &[spec]).unwrap();
        let kept = admitted_of(200, || {
            let taken = buckets.apply(&place(spec), NOW, Op::Take(1)).unwrap();
            let gives_back = taken.is_admitted() && taken.left.is_multiple_of(2);
            if gives_back {
                let _ = buckets.apply(&place(spec), NOW, Op::Refund(taken.receipt)).unwrap();
            }
            taken.is_admitted() && !gives_back
        });
        // A floor's token comes back to the pool, which may be full: such a one is lost, and none is ever too many.
        assert!(kept <= 100, "{kept} of 100: {spec:?}");
        let left = buckets.peek(&place(spec), NOW, 1).left;
        match spec {
            Spec::Floor(_) => assert!(kept + left <= 100, "{kept} kept, {left} left"),
            _ => assert_eq!(kept + left, 100, "{spec:?}"),
        }
    }
}

fn engine(specs: [Spec; 2]) -> Engine {
    Engine::new(rules(specs), 100, Clock::manual(NOW), Events::default()).unwrap()
}

fn rules([one, two]: [Spec; 2]) -> Policy {
    Policy::new(vec![route("login", 1, vec![0, 1])], vec![limit("one", one), limit("two", two)])
}

/// Decides by the rules in force, again where they changed meanwhile.
fn is_admitted(engine: &Engine, headers: &HeaderMap, stale: &AtomicU32) -> bool {
    let attempt = attempt("/login", IpAddr::from([192, 0, 2, 1]), headers);
    loop {
        match engine.decide_in_memory(&engine.rules(), &attempt, NOW) {
            Ok(Decision::Admitted(_)) => return true,
            Ok(Decision::Refused(_)) => return false,
            Err(Undecided::Stale(_)) => stale.fetch_add(1, Ordering::Relaxed),
            other => panic!("{other:?}"),
        };
    }
}

/// Runs 32 threads against an engine whose first limit turns from one spec into the other all the time.
fn admitted_while_replaced(turns: &[Spec], attempts_each: u32) -> (u32, u32, u32) {
    let (engine, headers) = (engine([turns[0]; 2]), HeaderMap::new());
    let (stale, done) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut replaced = 0;
    let admitted = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let admitted = admitted_of(attempts_each, || is_admitted(&engine, &headers, &stale));
            done.store(true, Ordering::Release);
            admitted
        });
        for spec in turns.iter().cycle().skip(1) {
            if done.load(Ordering::Acquire) {
                break;
            }
            engine.replace(rules([*spec, turns[0]])).unwrap();
            replaced += 1;
        }
        running.join().unwrap()
    });
    (admitted, replaced, stale.into_inner())
}

#[test]
fn thirty_two_threads_admit_exactly_the_bucket_while_the_limit_turns_round_and_round() {
    // Two continuous limits of the same size: a change keeps every token, so none may be lost or made.
    let slower = Spec::Continuous(Continuous::new(1, HOUR.times(2), 3000).unwrap());
    let spec = Spec::Continuous(Continuous::new(1, HOUR, 3000).unwrap());
    let (admitted, replaced, _) = admitted_while_replaced(&[spec, slower], 2000);
    assert_eq!(admitted, 3000, "after {replaced} changes");
    assert!(replaced > 20, "only {replaced} changes");
}

#[test]
fn thirty_two_threads_never_admit_more_than_the_bucket_while_its_shape_changes_under_them() {
    let shapes = shapes(3000);
    let (admitted, replaced, _) = admitted_while_replaced(&shapes, 1000);
    // Between shapes a level is rounded against the client, by less than a token for each part of a bucket: each change
    // may lose two, and none may give one.
    assert!(admitted <= 3000, "{admitted} of 3000 after {replaced} changes");
    assert!(admitted + 2 * replaced >= 3000, "{admitted} of 3000 after {replaced} changes");
    assert!(replaced > 20, "only {replaced} changes");
}

#[test]
fn a_decision_by_replaced_rules_is_stale_and_takes_nothing() {
    for (before, after) in shapes(100).into_iter().zip(shapes(200)) {
        let (engine, headers) = (engine([before, before]), HeaderMap::new());
        let attempt = attempt("/login", IpAddr::from([192, 0, 2, 1]), &headers);
        let old = Arc::clone(&engine.rules());
        engine.replace(rules([after, before])).unwrap();
        assert!(
            matches!(engine.decide_in_memory(&old, &attempt, NOW), Err(Undecided::Stale(_))),
            "{before:?}"
        );
        // The second limit has not changed, and lost nothing to the attempt that was not decided.
        let left =
            |rules| engine.peek(rules, &attempt).unwrap().1.iter().map(|one| one.verdict.left).collect();
        let found: Vec<u32> = left(&engine.rules());
        assert_eq!(found, [200, 100]);
    }
}

#[test]
fn a_refusal_by_rules_that_were_replaced_stands() {
    // It writes nothing, so it may have been told a moment before the change.
    let spec = Spec::Continuous(Continuous::new(1, HOUR, 1).unwrap());
    let buckets = Buckets::new(100, &[spec]).unwrap();
    assert!(buckets.apply(&place(spec), NOW, Op::Take(1)).unwrap().is_admitted());
    buckets.close();
    assert!(!buckets.apply(&place(spec), NOW, Op::Take(1)).unwrap().is_admitted());
    let token = buckets.apply(&place(spec), NOW, Op::Give(1));
    assert_eq!(token.unwrap_err(), Stale);
}
