//! Attack mode in an engine with buckets in memory.

use super::*;
use crate::bucket::{Continuous, Spec};
use crate::engine::{Decision, Engine};
use crate::event::Events;
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::outcome::Outcome;
use crate::policy::{Limit, Policy, Route, RouteDefences};
use crate::time::Clock;

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

/// Three failures a minute are an attack.
fn rule() -> AttackRule {
    let (share, calm) = (0.8, Span::from_secs(600));
    AttackRule { failures: 3, share, cost_factor: 4, worst_factor: None, calm, webhook: None }
}

/// Two routes with the same limit: these have attack mode.
fn policy(rules: &[(&str, &AttackRule)]) -> Policy {
    let spec = Spec::Continuous(Continuous::new(12, Span::from_secs(3600), 12).unwrap());
    let networks = Arc::<NetworkOutcomes>::default();
    let route = |name: &str| {
        let mut defences = RouteDefences::default();
        for (_, rule) in rules.iter().filter(|(of, _)| *of == name) {
            let (rule, networks) = (AttackRule::clone(rule), Arc::clone(&networks));
            defences.add(Attack { rule, state: Arc::default(), networks });
        }
        let patterns = vec![format!("POST /{name}").parse().unwrap()];
        Route { limits: vec![0], defences, ..Route::new(name, patterns) }
    };
    Policy::new(vec![route("login"), route("other")], vec![Limit::new("address", spec)])
}

fn engine(policy: Policy) -> Engine {
    Engine::new(policy, 1000, Clock::manual(NOW), Events::default()).unwrap()
}

fn decide(engine: &Engine, path: &str, address: [u8; 4]) -> Decision {
    let headers = http::HeaderMap::new();
    let attempt = Attempt {
        method: &http::Method::POST,
        path,
        query: None,
        host: "a",
        client: Client::from_ip(address.into()),
        headers: &headers,
        body: AttemptBody::Whole(&[]),
        descriptor: None,
        tls: None,
    };
    engine.decide_in_memory(&engine.rules(), &attempt, engine.clock().now()).unwrap()
}

fn admitted(engine: &Engine, path: &str, host: u8, times: usize) -> usize {
    let is_admitted = || matches!(decide(engine, path, [192, 0, 2, host]), Decision::Admitted(_));
    (0..times).filter(|_| is_admitted()).count()
}

/// Attempts from as many addresses of a network, with this outcome.
fn settled(engine: &Engine, path: &str, network: u8, attempts: u8, outcome: Outcome) {
    for host in 0..attempts {
        let Decision::Admitted(reservation) = decide(engine, path, [10, network, 0, host]) else { panic!() };
        reservation.settle(engine, &engine.rules(), outcome);
    }
}

fn watch(engine: &Engine) -> Vec<Option<AlarmFigures>> {
    let now = engine.clock().now();
    engine.rules().policy.alarms().map(|(_, alarm)| alarm.watch(now)).collect()
}

fn attack(engine: &Engine) {
    settled(engine, "/login", 9, 3, Outcome::Failure);
    assert_eq!(watch(engine)[0], Some(AlarmFigures { failures: 3, share: 1.0 }));
}

fn alarmed(engine: &Engine) -> Vec<String> {
    engine.rules().alarmed().map(str::to_owned).collect()
}

#[test]
fn under_attack_a_stranger_gets_a_share_of_the_tokens_that_are_there() {
    let engine = engine(policy(&[("login", &rule())]));
    assert_eq!(admitted(&engine, "/login", 1, 4), 4, "in peace");
    attack(&engine);
    assert_eq!(watch(&engine), [None], "said once");
    assert_eq!((admitted(&engine, "/login", 1, 9), admitted(&engine, "/login", 2, 9)), (2, 3));
    engine.clock().set(NOW.after(Span::from_secs(61)));
    assert_eq!(watch(&engine), [None], "not calm for long enough");
    engine.clock().set(NOW.after(Span::from_secs(700)));
    assert_eq!(watch(&engine), [Some(AlarmFigures::default())]);
    assert_eq!(admitted(&engine, "/login", 3, 20), 12, "in peace again");
}

#[test]
fn another_route_with_the_same_limit_pays_what_it_always_paid() {
    let engine = engine(policy(&[("login", &rule())]));
    attack(&engine);
    assert_eq!(alarmed(&engine), ["login"]);
    assert_eq!(admitted(&engine, "/other", 1, 20), 12);
}

#[test]
fn a_reload_keeps_the_mode_of_a_route_that_keeps_its_rule() {
    let engine = engine(policy(&[("login", &rule())]));
    attack(&engine);
    let changed = AttackRule { cost_factor: 6, ..rule() };
    engine.replace(policy(&[("login", &changed), ("other", &rule())])).unwrap();
    assert_eq!(watch(&engine), [None, None]);
    assert_eq!((admitted(&engine, "/login", 1, 9), alarmed(&engine)), (2, vec!["login".to_owned()]));
    engine.replace(policy(&[])).unwrap();
    assert!(alarmed(&engine).is_empty());
    engine.replace(policy(&[("login", &rule())])).unwrap();
    assert_eq!((watch(&engine), alarmed(&engine)), (vec![None], vec![]), "it starts from zero");
}

/// A route that a reload adds is no excuse for networks that are known.
#[test]
fn all_routes_share_what_is_known_of_networks_over_reloads() {
    let worst = AttackRule { worst_factor: Some(10), ..rule() };
    let engine = engine(policy(&[("login", &worst)]));
    settled(&engine, "/login", 7, 30, Outcome::Failure);
    engine.replace(policy(&[("login", &worst), ("other", &worst)])).unwrap();
    settled(&engine, "/other", 8, 30, Outcome::Failure);
    assert!(watch(&engine).iter().all(Option::is_some));
    for (path, network, is_known) in [("/other", 7, true), ("/login", 8, true), ("/login", 6, false)] {
        let decided = (0..4).map(|_| decide(&engine, path, [10, network, 0, 99]));
        let count = decided.filter(|decision| matches!(decision, Decision::Admitted(_))).count();
        assert_eq!(count, if is_known { 1 } else { 3 }, "{path} {network}");
    }
}

#[test]
fn the_factor_grows_as_fewer_attempts_of_a_network_succeed_and_stays_within_its_bounds() {
    let rule = AttackRule { worst_factor: Some(10), ..rule() };
    let factor = |successes, failures| rule.factor(NetworkRecord { successes, failures });
    assert_eq!(factor(0, 19), 4, "too few to tell");
    assert_eq!(
        [(0, 20), (1, 99), (26, 74), (5, 5), (50, 50), (100, 0)].map(|(s, f)| factor(s, f)),
        [10, 10, 7, 4, 4, 4]
    );
    assert_eq!(factor(u32::MAX, u32::MAX), 4);
    let unaware = AttackRule { worst_factor: None, ..rule };
    assert_eq!(unaware.factor(NetworkRecord { successes: 0, failures: 900 }), 4);
}

#[test]
fn a_scale_becomes_a_factor_that_admits_at_most_that_share() {
    let factors = [1.0, 0.9, 0.5, 0.3, 0.25, 0.2, 0.1, 0.05, 0.001].map(AttackRule::cost_factor_of);
    assert_eq!(factors, [1, 2, 2, 4, 4, 5, 10, 20, 1000]);
}
