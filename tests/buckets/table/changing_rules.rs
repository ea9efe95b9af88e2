//! The rules change while attempts are decided: no client notices.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::{HeaderMap, Method};
use tollgate::bucket::{Continuous, Spec};
use tollgate::config::{Sources, load};
use tollgate::engine::{Decision, Engine, Undecided, with_newest_rules};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::outcome::Outcome;
use tollgate::policy::{Limit, LimitKind, Policy, Route};
use tollgate::store::memory::Stale;
use tollgate::time::{Clock, Span, Time};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

fn policy(burst: u32, tables: &str) -> Policy {
    let text = format!(
        "upstream = \"http://127.0.0.1:1\"\nlisten = \"http://127.0.0.1:2\"\n[limit.address]\n\
         rate = \"1 per 1h burst {burst}\"\n[route.login]\nmatch = \"POST /login\"\n{tables}"
    );
    load(&Sources::from_text("gate.toml", &text)).config.unwrap().policy
}

fn engine(burst: u32, tables: &str) -> Engine {
    Engine::new(policy(burst, tables), 1000, Clock::manual(NOW), Events::default()).unwrap()
}

/// Runs with an attempt at this path from 192.0.2.N.
fn with_attempt<T>(number: u8, path: &str, run: impl FnOnce(&Attempt<'_>) -> T) -> T {
    let client = Client::from_ip(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)));
    let headers = HeaderMap::new();
    run(&Attempt {
        method: &Method::POST,
        path,
        query: None,
        host: "a",
        client,
        headers: &headers,
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    })
}

#[test]
fn an_attempt_that_meets_a_change_is_decided_by_the_new_rules() {
    let engine = engine(2, "");
    let mut tries = 0;
    let decided = with_newest_rules(
        || engine.rules(),
        |rules| {
            tries += 1;
            if tries == 1 {
                engine.replace(policy(3, "")).unwrap();
            }
            with_attempt(1, "/login", |attempt| engine.decide_in_memory(rules, attempt, NOW))
        },
    );
    let (rules, ruling) = decided.unwrap();
    let Decision::Admitted(reservation) = ruling else { panic!("{ruling:?}") };
    assert_eq!((tries, rules.generation), (2, 1));
    assert_eq!((reservation.statuses[0].charge.spec.burst(), reservation.statuses[0].verdict.left), (3, 2));
}

#[test]
fn nothing_is_tried_for_ever() {
    let engine = engine(2, "");
    let decided = with_newest_rules(|| engine.rules(), |_| Err::<(), _>(Undecided::Stale(Stale)));
    assert!(matches!(decided, Err(Undecided::Stale(_))));
}

#[test]
fn no_client_ever_hears_of_a_change() {
    let engine = engine(1000, "");
    let (over, decided) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (engine, over, decided) = (&engine, &over, &decided);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let ruling = with_newest_rules(
                        || engine.rules(),
                        |rules| with_attempt(number, "/login", |a| engine.decide_in_memory(rules, a, NOW)),
                    );
                    assert!(ruling.is_ok(), "{ruling:?}");
                    decided.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..1000 {
            engine.replace(policy(if round % 2 == 0 { 2000 } else { 1000 }, "")).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(decided.into_inner() > 1000);
}

#[test]
fn refusing_alone_takes_nothing_and_leaves_the_debt_of_one_attempt() {
    let engine = engine(1, "");
    let rules = engine.rules();
    with_attempt(1, "/login", |attempt| {
        assert!(engine.refuse(&rules, attempt, rules.policy.routes_of(attempt), NOW).unwrap().is_none());
        assert!(matches!(engine.decide_in_memory(&rules, attempt, NOW), Ok(Decision::Admitted(_))));
        let refusal = engine.refuse(&rules, attempt, rules.policy.routes_of(attempt), NOW).unwrap().unwrap();
        assert_eq!((refusal.route, refusal.violated().count()), (0, 1));
    });
    with_attempt(1, "/other", |attempt| {
        assert!(engine.refuse(&rules, attempt, rules.policy.routes_of(attempt), NOW).unwrap().is_none())
    });
}

#[test]
fn tokens_that_were_given_back_can_be_taken_again() {
    let engine = engine(1, "");
    let rules = engine.rules();
    with_attempt(1, "/login", |attempt| {
        for _ in 0..3 {
            let Ok(Decision::Admitted(reservation)) = engine.decide_in_memory(&rules, attempt, NOW) else {
                panic!("refused")
            };
            reservation.refund(&engine, &rules);
        }
    });
}

#[test]
fn other_rules_than_those_that_decided_give_nothing_back() {
    let outcomes = "success = [{ status = 204 }]\nlimits = [\"failures\"]\n[limit.failures]\nrate = \"1 per 1h burst 2\"\ncount = \"failures\"\n";
    let engine = engine(2, outcomes);
    let old = engine.rules().clone();
    let decide = || {
        let decided = with_attempt(1, "/login", |attempt| engine.decide_in_memory(&old, attempt, NOW));
        let Ok(Decision::Admitted(reservation)) = decided else { panic!("refused") };
        reservation
    };
    let (settled, refunded) = (decide(), decide());
    engine.replace(policy(2, outcomes)).unwrap();
    settled.settle(&engine, &engine.rules(), Outcome::Success);
    refunded.refund(&engine, &engine.rules());
    let left =
        with_attempt(1, "/login", |attempt| engine.peek(&engine.rules(), attempt).unwrap().1[0].verdict.left);
    assert_eq!(left, 0);
}

#[test]
fn a_path_with_two_readings_is_bounded_on_both_routes_and_read_as_far_as_the_longer_one_says() {
    let tables = "cost = \"count:[]\"\nbody = \"1KiB\"\n[route.any]\nmatch = \"POST /*\"\nin_flight = 1\n\
        cost = \"count:[]\"\nbody = \"2KiB\"\n[route.plain]\nmatch = \"POST /a/plain\"\n";
    let engine = engine(9, tables);
    let rules = engine.rules();
    let body_of = |path| {
        with_attempt(1, path, |attempt| {
            rules.policy.body_requirement(attempt, &rules.policy.routes_of(attempt)).unwrap()
        })
    };
    let body_of = |path| body_of(path).map(|to_read| to_read.max_bytes);
    // An encoded slash is a letter to some servers: then this is a path of one segment.
    let both = "/x%2f..%2flogin";
    let routes = with_attempt(1, both, |attempt| rules.policy.routes_of(attempt));
    assert_eq!(routes.len(), 2);
    assert_eq!(
        ["/login", "/else", both, "/a/plain", "/a/none"].map(body_of),
        [Some(1024), Some(2048), Some(2048), None, None]
    );
    let admitted = || {
        let decided = with_attempt(1, both, |attempt| engine.decide_in_memory(&rules, attempt, NOW));
        let Ok(Decision::Admitted(reservation)) = decided else { panic!("{decided:?}") };
        rules.acquire_permits(&reservation, || (None, NOW))
    };
    let first = admitted();
    assert!(first.is_ok() && admitted().is_err());
    drop(first);
    assert!(admitted().is_ok());
}

#[test]
fn what_a_limit_keeps_beside_its_rate_is_known_by_its_name_and_what_it_is() {
    let bucket = |burst| Spec::Continuous(Continuous::new(1, Span::from_secs(3600), burst).unwrap());
    let policy = |burst, facets: &[LimitKind]| {
        let rate = Limit::new("account", bucket(burst));
        let facets = facets.iter().map(|&facet| Limit { kind: facet, ..Limit::new("account", bucket(100)) });
        let limits: Vec<Limit> = std::iter::once(rate).chain(facets).collect();
        let route = Route::new("login", vec!["POST /login".parse().unwrap()]);
        Policy::new(vec![Route { limits: (0..limits.len()).collect(), ..route }], limits)
    };
    let engine =
        Engine::new(policy(10, &[LimitKind::Cap]), 1000, Clock::manual(NOW), Events::default()).unwrap();
    let left = || {
        with_attempt(1, "/login", |attempt| {
            let (_, standings) = engine.peek(&engine.rules(), attempt).unwrap();
            standings.iter().map(|one| one.verdict.left).collect::<Vec<_>>()
        })
    };
    with_attempt(1, "/login", |attempt| {
        assert!((0..5).all(|_| matches!(
            engine.decide_in_memory(&engine.rules(), attempt, NOW),
            Ok(Decision::Admitted(_))
        )));
    });
    assert_eq!(left(), [5, 95]);
    engine.replace(policy(20, &[LimitKind::Cap])).unwrap();
    assert_eq!(left(), [10, 95], "the rate in proportion, the cap as it was");
    engine.replace(policy(20, &[LimitKind::Escalation, LimitKind::Cap])).unwrap();
    assert_eq!(left(), [10, 100, 95]);
    engine.replace(policy(20, &[])).unwrap();
    assert_eq!(left(), [10]);
}
