//! A snapshot file with a right checksum and any content: it is read or refused, and an engine that restores it
//! decides.
//!
//! With an even first byte the rest is the content; with an odd one the content is a real one, and each three bytes
//! that follow put a byte somewhere into it.

#![no_main]

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use tollgate::config::{Sources, load};
use tollgate::engine::{Decision, Engine};
use tollgate::event::Events;
use tollgate::policy::Policy;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::outcome::Outcome;
use tollgate::store::snapshot::Snapshot;
use tollgate::time::{Clock, Span, Time};

const NOW: Time = Time::from_nanos(1_763_700_000 * 1_000_000_000);
const MAGIC: &[u8] = b"tollgate buckets 1\n";

/// A limit of each shape; `RATE` differs before and after a reload.
const FILE: &str = "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:8081\"\n\
    [route.login]\nmatch = \"POST /login\"\n\
    [limit.address]\nrate = \"RATE per 1h\"\n\
    [limit.pool]\nrate = \"RATE per 1h\"\nrefill = \"interval\"\n\
    [limit.subnet]\nrate = \"RATE per 1h\"\nfloor = \"1/min\"\nipv4 = 24\n\
    [limit.window]\nrolling = \"RATE per 6h\"\nevery = \"1h\"\n\
    [limit.slow]\nrate = \"RATE per 1h\"\n[limit.slow.escalate]\nafter = 2\nwait = \"30s\"\n";

static POLICIES: LazyLock<[Policy; 2]> = LazyLock::new(|| [policy("10"), policy("20")]);
static REAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let engine = engine();
    attempts(&engine);
    engine.replace(POLICIES[1].clone()).unwrap();
    attempts(&engine);
    engine.replace(POLICIES[0].clone()).unwrap();
    attempts(&engine);
    engine.snapshot().encode().unwrap().split_off(MAGIC.len() + 32)
});

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else { return };
    let mut content = rest.to_vec();
    if kind % 2 == 1 {
        content.clone_from(&REAL);
        for edit in rest.chunks_exact(3) {
            let at = usize::from(u16::from_be_bytes([edit[0], edit[1]])) % content.len();
            content[at] = edit[2];
        }
    }
    let file = [MAGIC, &Sha256::digest(&content)[..], &content].concat();
    let Ok(snapshot) = Snapshot::decode(&file) else { return };
    assert_eq!(Snapshot::decode(&snapshot.encode().unwrap()).unwrap(), snapshot);
    let (engine, _) = engine().with_snapshot(&snapshot);
    attempts(&engine);
    engine.replace(POLICIES[1].clone()).unwrap();
    attempts(&engine);
    let bytes = engine.snapshot().encode().unwrap();
    assert!(Snapshot::decode(&bytes).is_ok(), "what is written can be read");
});

fn policy(rate: &str) -> Policy {
    let loaded = load(&Sources::from_text("fuzz.toml", &FILE.replace("RATE", rate)));
    let messages: Vec<String> =
        loaded.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
    loaded.config.unwrap_or_else(|| panic!("{messages:?}")).policy
}

fn engine() -> Engine {
    Engine::new(POLICIES[0].clone(), 100, Clock::manual(NOW), Events::default()).unwrap()
}

/// Attempts of a few clients, some of them beyond their limits.
fn attempts(engine: &Engine) {
    let (rules, headers) = (engine.rules(), HeaderMap::new());
    for number in 0..24 {
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "example.org",
            client: Client::from_ip(Ipv4Addr::new(192, 0, 2, number % 8).into()),
            headers: &headers,
            body: AttemptBody::Unread,
            descriptor: None,
            tls: None,
        };
        let now = NOW.after(Span::from_secs(u64::from(number) * 60));
        if let Ok(Decision::Admitted(reservation)) = engine.decide_in_memory(&rules, &attempt, now) {
            reservation.settle(engine, &rules, Outcome::Failure);
        }
    }
}
