//! From one file to the next inside the gate: the rules that requests use change in one swap, and no token is taken
//! twice or from a bucket that no longer exists, however many threads decide meanwhile.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::ArcSwap;
use http::{HeaderMap, Method};
use tollgate::config::{Config, Sources, load};
use tollgate::engine::{Decision, Engine, Overrides, Rules, Undecided};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::proxy::runtime_config::{ConfigHandle, RuntimeConfig};
use tollgate::proxy::upstream::Health;
use tollgate::time::{Clock, Time};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

/// A file with two forms, each under a limit of its own.
fn config(fixed: u32, moving: u32) -> Config {
    let text = format!(
        "listen = \"http://127.0.0.1:0\"\nupstream = \"unix:/site\"\n\
         [route.fixed]\nmatch = \"POST /fixed\"\nlimits = [\"fixed\"]\n\
         [route.moving]\nmatch = \"POST /moving\"\nlimits = [\"moving\"]\nupstream = \"unix:/{moving}\"\n\
         [limit.fixed]\nrate = \"{fixed} per 1h\"\n[limit.moving]\nrate = \"{moving} per 1h\"\n"
    );
    load(&Sources::from_text("swap.toml", &text)).config.unwrap()
}

fn engine(config: &Config) -> Engine {
    Engine::new(config.policy.clone(), 100, Clock::manual(NOW), Events::default()).unwrap()
}

fn attempt(engine: &Engine, rules: &Rules, path: &str) -> Result<bool, Undecided> {
    let attempt = Attempt {
        method: &Method::POST,
        path,
        query: None,
        host: "example.org",
        client: Client::from_ip([192, 0, 2, 1].into()),
        headers: &HeaderMap::new(),
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    };
    engine.decide_in_memory(rules, &attempt, NOW).map(|ruling| matches!(ruling, Decision::Admitted(_)))
}

#[test]
fn a_decision_by_a_changed_limit_is_stale_and_takes_nothing() {
    let engine = engine(&config(2, 2));
    let old = Arc::clone(&engine.rules());
    assert_eq!(attempt(&engine, &old, "/moving"), Ok(true));
    let publish = |new: &Arc<Rules>| {
        assert!(matches!(attempt(&engine, &old, "/moving"), Err(Undecided::Stale(_))));
        assert_eq!(attempt(&engine, &old, "/fixed"), Ok(true), "a limit that stays goes on");
        assert_eq!(attempt(&engine, new, "/fixed"), Ok(true));
        assert_eq!(attempt(&engine, new, "/fixed"), Ok(false), "and has the same buckets");
    };
    engine.replace_and(config(2, 4).policy, Overrides::after_reload, publish).unwrap();
    assert!(matches!(attempt(&engine, &old, "/moving"), Err(Undecided::Stale(_))));
    let admitted = (0..5).filter(|_| attempt(&engine, &engine.rules(), "/moving") == Ok(true)).count();
    assert_eq!(admitted, 2, "half of the larger bucket");
}

#[test]
fn threads_that_decide_while_limits_change_take_every_token_once() {
    for round in 0..40 {
        let engine = engine(&config(TOKENS, TOKENS));
        let published = ArcSwap::from(Arc::clone(&engine.rules()));
        let (over, taken) = (AtomicBool::new(false), [AtomicU32::new(0), AtomicU32::new(0)]);
        let decide = |path| loop {
            match attempt(&engine, &published.load(), path) {
                Err(Undecided::Stale(_)) => std::thread::yield_now(),
                decided => return u32::from(decided.unwrap()),
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        taken[0].fetch_add(decide("/fixed"), Ordering::Relaxed);
                        taken[1].fetch_add(decide("/moving"), Ordering::Relaxed);
                    }
                });
            }
            // Sizes of which each holds the other a whole number of times lose nothing by being turned around.
            for change in 1..=14 {
                let policy = config(TOKENS, TOKENS << (change % 2)).policy;
                engine
                    .replace_and(policy, Overrides::after_reload, |rules| published.store(Arc::clone(rules)))
                    .unwrap();
                std::thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
        });
        let later = |path| (0..=2 * TOKENS).map(|_| decide(path)).sum::<u32>();
        let [fixed, moving] = taken.map(AtomicU32::into_inner);
        assert_eq!(fixed + later("/fixed"), TOKENS, "round {round}");
        // Never more than the larger bucket holds, and less than a token lost at each change.
        let moving = moving + later("/moving");
        assert!((TOKENS - 14..=2 * TOKENS).contains(&moving), "round {round}: {moving}");
    }
}

const TOKENS: u32 = 2000;

#[test]
fn a_worker_sees_rules_and_upstreams_of_one_file_and_keeps_what_stays() {
    let (first, second) = (config(1, 1), config(1, 2));
    let engine = engine(&first);
    let stays = Health::new(first.upstreams[0][0].clone(), 1, engine.clock().clone(), Events::default());
    let site = |config: &Config, rules: &Arc<Rules>| {
        let own = &config.upstreams[1][0];
        let own = Health::new(own.clone(), 1, engine.clock().clone(), Events::default());
        Arc::new(RuntimeConfig {
            rules: Arc::clone(rules),
            client: config.client.clone(),
            refuse: Arc::new(config.refuse.clone()),
            endpoints: Vec::new(),
            settings: Arc::new(config.proxy.clone()),
            tls_acceptor: None,
            redirect: None,
            validation_hosts: None,
            upstreams: vec![vec![Arc::clone(&stays)], vec![own]],
            probes: Arc::default(),
        })
    };
    let published = Arc::new(ArcSwap::from(site(&first, &engine.rules())));
    let follower = ConfigHandle::new(Arc::clone(&published));
    let before = follower.current();
    assert!(Rc::ptr_eq(&before, &follower.current()), "as long as there is no other");
    engine
        .replace_and(second.policy.clone(), Overrides::after_reload, |rules| {
            published.store(site(&second, rules))
        })
        .unwrap();
    let after = follower.current();
    assert_eq!((before.shared.rules.generation, after.shared.rules.generation), (0, 1));
    assert_eq!(
        [&before, &after].map(|local| local.shared.upstreams[1][0].name().to_owned()),
        ["unix:/1", "unix:/2"]
    );
    let servers = [&before, &after]
        .map(|local| [local.group(0), local.group(1)].map(|group| group.backends().to_vec()));
    assert!(Rc::ptr_eq(&servers[0][0][0], &servers[1][0][0]), "with its connections");
    assert!(!Rc::ptr_eq(&servers[0][1][0], &servers[1][1][0]));
    assert!(std::ptr::eq(after.group(7), after.group(0)));
}
