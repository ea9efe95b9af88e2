//! `tollgate buckets` where two gates share a store: what is done at one of them holds at the other.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::two_gates;
use support::application::{ROUTE, application, right, sign_in};
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Gate, Server, binary, eventually, mount};

const LIMITS: &str = "[limit.address]\nrate = \"4 per 1h\"\n\
    [limit.account]\nkey = \"user\"\nrate = \"1000/s\"\ncount = \"failures\"\nmax_failures = 3\n";

const ME: &str = "ip:127.0.0.1";

fn run(gate: &Gate, words: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("buckets").args(words).args(["--format", "json", "--socket"]).arg(gate.admin_socket());
    command.env_remove("TOLLGATE_CONFIG").output().unwrap()
}

/// What `tollgate buckets` says, which has to be something good.
fn said(gate: &Gate, words: &[&str]) -> Value {
    let output = run(gate, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Of the first limit that is shown of this key.
fn shown(gate: &Gate, key: &str) -> Value {
    said(gate, &["show", key])["buckets"][0].clone()
}

fn status(gate: &Gate, user: &str) -> u16 {
    gate.ask(sign_in(user, "wrong")).status
}

/// How many attempts are admitted, each on an account of its own.
fn admitted(gate: &Gate, most: usize) -> usize {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let user = || format!("user{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    (0..most).take_while(|_| status(gate, &user()) != 429).count()
}

/// How long it takes until an attempt is admitted there.
fn until_admitted(gate: &Gate, user: &str) -> Duration {
    let begun = Instant::now();
    assert!(eventually(Duration::from_secs(10), || status(gate, user) != 429), "never admitted");
    begun.elapsed()
}

/// A refusal is repeated for a second at most; the rest is this machine's.
const SOON: Duration = Duration::from_millis(1500);

fn what_was_taken_at_one_gate_is_shown_at_the_other(server: impl Server) {
    let application = application();
    let [one, other] = two_gates(&server, &application.file(&format!("{ROUTE}{LIMITS}")));
    assert_eq!(shown(&other, ME)["tokens"], 4);
    for left in [3, 2, 1] {
        assert_eq!(status(&one, "alice"), 200);
        assert_eq!((&shown(&other, ME)["tokens"], &shown(&one, ME)["tokens"]), (&left.into(), &left.into()));
    }
    assert_eq!(shown(&other, "user:alice")["max_failures"]["left"], 0);
    assert_eq!(admitted(&other, 100), 1);
}

fn tokens_that_are_given_at_one_gate_are_taken_at_the_other(server: impl Server) {
    let application = application();
    let [one, other] = two_gates(&server, &application.file(&format!("{ROUTE}{LIMITS}")));
    assert_eq!(admitted(&other, 100), 4);
    assert_eq!(said(&one, &["credit", ME, "2"])["buckets"][0]["tokens"], 2);
    let took = until_admitted(&other, "bob");
    assert!(took < SOON, "{took:?}");
    assert_eq!((admitted(&other, 100), admitted(&one, 100)), (1, 0));
}

fn a_reset_at_one_gate_holds_at_the_other(server: impl Server) {
    let application = application();
    let [one, other] = two_gates(&server, &application.file(&format!("{ROUTE}{LIMITS}")));
    assert_eq!((admitted(&other, 3), admitted(&one, 100)), (3, 1));
    said(&one, &["reset", ME]);
    let took = until_admitted(&other, "bob");
    assert!(took < SOON, "{took:?}");
    assert_eq!((admitted(&one, 2), admitted(&other, 100)), (2, 1), "four in all, and no more");
}

fn a_rate_of_its_own_holds_at_both_gates_and_ends_at_both(server: impl Server) {
    let application = application();
    let [one, other] = two_gates(&server, &application.file(&format!("{ROUTE}{LIMITS}")));
    assert_eq!(admitted(&other, 100), 4);
    said(&one, &["rate", ME, "address", "100/s burst 50", "--for", "1d"]);
    let took = until_admitted(&other, "bob");
    assert!(took < SOON, "{took:?}");
    assert_eq!((&shown(&other, ME)["own"]["burst"], &shown(&other, ME)["burst"]), (&50.into(), &50.into()));
    assert_eq!(admitted(&other, 20), 20);
    said(&other, &["rate", ME, "address", "--end"]);
    assert_eq!((&shown(&one, ME)["own"], &shown(&one, ME)["burst"]), (&Value::Null, &4.into()));
    assert!(admitted(&one, 100) <= 4);
}

fn a_rate_of_its_own_is_over_at_both_gates_when_its_time_is(server: impl Server) {
    let application = application();
    let [one, other] = two_gates(&server, &application.file(&format!("{ROUTE}{LIMITS}")));
    let begun = Instant::now();
    said(&one, &["rate", ME, "address", "8 per 1h", "--for", "6s"]);
    let level = |gate: &Gate| {
        let shown = shown(gate, ME);
        (shown["tokens"].as_u64(), shown["burst"].as_u64())
    };
    assert_eq!((level(&other), admitted(&other, 4)), ((Some(8), Some(8)), 4));
    assert_eq!((level(&one), level(&other)), ((Some(4), Some(8)), (Some(4), Some(8))));
    for gate in [&one, &other] {
        let is_over = || level(gate) == (Some(2), Some(4)) && shown(gate, ME)["own"] == Value::Null;
        assert!(eventually(Duration::from_secs(10), is_over), "{:?}", level(gate));
    }
    let took = begun.elapsed().as_secs_f64();
    assert!((5.9..8.0).contains(&took), "{took} s");
    assert_eq!((admitted(&one, 1), admitted(&other, 100)), (1, 1), "the fill level stays in proportion");
}

fn failures_are_forgiven_at_both_gates(server: impl Server) {
    let application = application();
    let limits = LIMITS.replace("4 per 1h", "1000 per 1h");
    let [one, other] = two_gates(&server, &application.file(&format!("{ROUTE}{limits}")));
    assert_eq!(
        [&one, &other, &one, &other, &one].map(|gate| status(gate, "alice")),
        [200, 200, 200, 429, 429]
    );
    assert_eq!(
        one.ask(sign_in("alice", &right("alice"))).status,
        429,
        "its correctness can no longer be shown"
    );
    said(&other, &["reset", "user:alice"]);
    let took = until_admitted(&one, "alice");
    assert!(took < SOON, "{took:?}");
    assert_eq!([&one, &other, &other].map(|gate| status(gate, "alice")), [200, 200, 429], "three in all");
}

fn while_the_store_is_away_it_is_said_so(mut server: impl Server) {
    let application = application();
    let file = application.file(&format!("{ROUTE}{LIMITS}")).replace("5s", "100ms");
    let [one, _other] = two_gates(&server, &file);
    assert_eq!(status(&one, "alice"), 200);
    server.kill();
    for words in [
        &["show", ME][..],
        &["credit", ME, "2"],
        &["reset", ME],
        &["rate", ME, "address", "1/s", "--for", "1h"],
    ] {
        let output = run(&one, words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "tollgate: the store does not answer: try again; a change may have been made, or not\n"
        );
        assert!(output.stdout.is_empty());
    }
    server.start_again();
    let is_back = || run(&one, &["show", ME]).status.success();
    assert!(eventually(Duration::from_secs(10), is_back), "it is there again");
}

macro_rules! mount_all {
    ($name:ident, $server:ty) => {
        mount!($name, $server, buckets:
            what_was_taken_at_one_gate_is_shown_at_the_other
            tokens_that_are_given_at_one_gate_are_taken_at_the_other
            a_reset_at_one_gate_holds_at_the_other
            a_rate_of_its_own_holds_at_both_gates_and_ends_at_both
            a_rate_of_its_own_is_over_at_both_gates_when_its_time_is
            failures_are_forgiven_at_both_gates
            while_the_store_is_away_it_is_said_so
        );
    };
}

mount_all!(redis, super::Redis);
mount_all!(postgres, super::Postgres);
