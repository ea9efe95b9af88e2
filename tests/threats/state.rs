//! What a bucket promises when many ask at once, when memory is short, and when clocks jump.
//!
//! Most of it goes through the running gate; where only arithmetic is in question, the library is asked. Long waits
//! are not waited for: a small library that is loaded into the gate moves its clocks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use support::bucket;

use std::net::Ipv4Addr;
use std::sync::Barrier;
use std::time::Duration;

use bucket::Bucket;
use support::{Clocks, Gate, ONE_AN_HOUR, Shift, Upstream, check_file, post_with};
use tollgate::bucket::{Admission, Continuous, Op, Spec, Step};
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::key::KeyHasher;
use tollgate::policy::{Limit, Policy, Route};
use tollgate::time::{Span, Time};

/// A file that believes 127.0.0.1 and has one limit with these fields.
fn limited(upstream: &Upstream, fields: &str) -> String {
    upstream.file(&format!(
        "[client]\ntrust = \"127.0.0.1\"\n[route.login]\nmatch = \"POST /login\"\n[limit.address]\n{fields}\n"
    ))
}

fn attempt_as(client: &str) -> String {
    post_with("/login", &format!("X-Forwarded-For: {client}\r\n"))
}

/// How many of `threads` times `each` attempts at once, all from this address, are admitted.
fn admitted_of_many(gate: &Gate, source: Ipv4Addr, threads: usize, each: usize) -> usize {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = gate.connect_from(source);
                    start.wait();
                    let statuses = (0..each).map(|_| {
                        client.send(post_with("/login", ""));
                        client.answer().status
                    });
                    statuses.filter(|status| *status == 200).count()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

/// E1: many clients race for one bucket.
#[test]
fn a_race_for_one_bucket_admits_exactly_its_tokens() {
    let upstream = Upstream::start();
    let gate = Gate::start(&limited(&upstream, "rate = \"10 per 1h\""));
    assert_eq!(admitted_of_many(&gate, Ipv4Addr::new(127, 0, 0, 9), 48, 6), 10);
    assert_eq!(upstream.requests().len(), 10, "and the upstream heard of no other");
}

/// E2: a decision over several buckets is one step: what one refuses costs nothing at the others.
#[test]
fn a_refused_attempt_takes_no_token_anywhere_even_in_a_race() {
    let upstream = Upstream::start();
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 1h\"\n\
                  [limit.everybody]\nkey = \"all\"\nrate = \"15 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    assert_eq!(admitted_of_many(&gate, Ipv4Addr::new(127, 0, 0, 1), 32, 4), 10);
    assert_eq!(admitted_of_many(&gate, Ipv4Addr::new(127, 0, 0, 2), 32, 4), 5);
}

/// E2: the same where a refusal does leave something behind: its own debt, and nothing else.
#[test]
fn debt_at_one_limit_takes_no_token_from_another() {
    let upstream = Upstream::start();
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"2 per 1h\"\ndebt = 3\n\
                  [limit.everybody]\nkey = \"all\"\nrate = \"5 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    assert_eq!(admitted_of_many(&gate, Ipv4Addr::new(127, 0, 0, 1), 1, 12), 2);
    assert_eq!(admitted_of_many(&gate, Ipv4Addr::new(127, 0, 0, 2), 1, 12), 2);
    assert_eq!(admitted_of_many(&gate, Ipv4Addr::new(127, 0, 0, 3), 1, 12), 1);
}

/// E3: more keys than the table has places.
#[test]
fn a_flood_of_keys_does_not_grow_the_gate() {
    let upstream = Upstream::start();
    let gate =
        Gate::start(&format!("{}[store]\ncapacity = 1000\n", limited(&upstream, "rate = \"1 per 1h\"")));
    let mut client = gate.connect();
    let mut flood = |from: u32, count: u32| {
        for number in from..from + count {
            client.send(attempt_as(&format!("2001:db8:{:x}:{:x}::1", number >> 16, number & 0xFFFF)));
            assert_eq!(client.answer().status, 200);
        }
    };
    flood(0, 3000);
    let before = gate.memory();
    flood(3000, 12_000);
    let grown = gate.memory().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more after 12,000 further keys in a table of 1,000");
}

/// E5: junk that is full again gives its place away.
#[test]
fn full_buckets_are_dropped_before_any_live_one() {
    let upstream = Upstream::start();
    let file =
        limited(&upstream, "rate = \"1 per 1ms\"\n[limit.address.rates]\n\"203.0.113.0/24\" = \"1 per 1h\"");
    let gate = Gate::start(&format!("{file}\n[store]\ncapacity = 1000\n"));
    let mut client = gate.connect();
    let mut ask = |address: &str| {
        client.send(attempt_as(address));
        client.answer().status
    };
    // So few that no line of five slots gets more drained ones than it can hold.
    let drained: Vec<String> = (0..20).map(|host| format!("203.0.113.{host}")).collect();
    assert!(drained.iter().all(|address| ask(address) == 200));
    assert!((0..5000).all(|number: u32| ask(&format!("2001:db8:0:{number:x}::1")) == 200));
    assert!(drained.iter().all(|address| ask(address) == 429), "all drained buckets are still there");
    assert!(
        gate.metric("tollgate_buckets_forgotten_total", "address") < 0.5,
        "and no live one was forgotten"
    );
}

/// E6: newcomers when the table is full of half-used buckets.
#[test]
fn newcomers_are_admitted_while_the_table_is_full() {
    let upstream = Upstream::start();
    let file = limited(&upstream, "rate = \"10 per 1h\"");
    let gate = Gate::start(&format!("{file}[store]\ncapacity = 500\n"));
    let mut client = gate.connect();
    let mut ask = |address: &str| {
        client.send(attempt_as(address));
        client.answer().status
    };
    for number in 0..1000 {
        for _ in 0..3 {
            ask(&format!("2001:db8:0:{number:x}::1"));
        }
    }
    let admitted = (0..300).filter(|number| ask(&format!("2001:db8:1:{number:x}::1")) == 200).count();
    assert_eq!(admitted, 300, "newcomers that were admitted");
}

/// E7: an attacker cannot aim at a slot in the table.
#[test]
fn the_names_of_buckets_differ_from_process_to_process() {
    let (method, headers) = (http::Method::POST, http::HeaderMap::new());
    let client = Client::from_ip("203.0.113.7".parse().unwrap());
    let attempt = Attempt {
        method: &method,
        path: "/login",
        query: None,
        host: "app.test",
        client,
        headers: &headers,
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    };
    let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(1), 1).unwrap());
    let route = Route { limits: vec![0], ..Route::new("login", vec!["POST /login".parse().unwrap()]) };
    let policy = Policy::new(vec![route], vec![Limit::new("address", spec)]);
    let name =
        |hasher: KeyHasher| policy.charges(&attempt, &hasher, Time::from_nanos(1)).unwrap().charges[0].key;
    let first = KeyHasher::default();
    assert_eq!(name(first.clone()), name(first));
    assert_ne!(name(KeyHasher::default()), name(KeyHasher::default()));
}

fn step(bucket: &mut Bucket, nanos: u64, op: Op) -> Step {
    bucket.run(Time::from_nanos(nanos), op)
}

/// E8: the largest numbers that a file can hold.
#[test]
fn the_largest_bucket_neither_overflows_nor_refills_early() {
    let spec = Spec::Continuous(Continuous::new(1_000_000_000, Span::from_secs(1), u32::MAX).unwrap());
    let mut bucket = Bucket::new(spec);
    let now = 1_700_000_000_000_000_000;
    assert_eq!(step(&mut bucket, now, Op::Take(u32::MAX)).verdict.admission, Admission::Admitted);
    let refused = step(&mut bucket, now, Op::Take(1)).verdict.admission;
    assert_eq!(refused, Admission::Refused { wait: Span::from_nanos(1) });
    for end in [u64::MAX, u64::MAX - 1, 0] {
        let _ = step(&mut bucket, end, Op::Take(u32::MAX));
    }
    assert!(Continuous::new(1, Span::from_nanos(u64::MAX), 2).is_err(), "584 years a token");
    assert!(Continuous::new(u32::MAX, Span::from_secs(1), 1).is_err(), "faster than a nanosecond");
}

/// E8: a file with numbers that do not fit is refused, not wrapped.
#[test]
fn rates_that_do_not_fit_are_refused_by_check() {
    let head = "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n";
    let rates = [
        "4294967295/s",
        "4294967296 per 1s",
        "1 per 600y",
        "4000000000 per 7d burst 4294967295",
        "99999999999999999999/s",
        "1 per 99999999999d",
    ];
    for rate in rates {
        let output = check_file(&format!(
            "{head}[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"{rate}\"\n"
        ));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let fits = rate.contains("7d") && output.status.success();
        assert!(fits || output.status.code() == Some(78), "{rate}: {:?} {said}", output.status);
        assert!(!said.contains("panicked"), "{rate}: {said}");
    }
}

/// E9: a rate that no float holds exactly.
#[test]
fn ten_thousand_tokens_at_a_third_of_a_nanosecond_do_not_drift() {
    let t = (Span::from_secs(420).as_nanos()).div_ceil(11);
    let spec = Spec::Continuous(Continuous::new(11, Span::from_secs(420), 1).unwrap());
    let (mut bucket, mut now) = (Bucket::new(spec), 1_700_000_000_000_000_000);
    assert_eq!(step(&mut bucket, now, Op::Take(1)).verdict.admission, Admission::Admitted);
    for _ in 0..10_000 {
        let early = step(&mut bucket, now + t - 1, Op::Take(1)).verdict.admission;
        assert_eq!(early, Admission::Refused { wait: Span::from_nanos(1) });
        now += t;
        assert_eq!(step(&mut bucket, now, Op::Take(1)).verdict.admission, Admission::Admitted);
    }
}

/// E10: hammering cannot lock anybody out for good, and waiting fills no bucket above its size.
#[test]
fn debt_has_a_floor_and_tokens_have_a_cap() {
    let upstream = Upstream::start();
    let clocks = Clocks::start(&limited(&upstream, "rate = \"3 per 30s\"\ndebt = 2"));
    let gate = &clocks.gate;
    let ask = || gate.ask(attempt_as("203.0.113.7"));
    let answers: Vec<_> = (0..40).map(|_| ask()).collect();
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 3);
    assert!(answers[4].retry_after() > answers[3].retry_after(), "refusals cost");
    assert!(answers[39].retry_after() <= 30, "two tokens of debt and the one wanted: {:?}", answers[39]);
    clocks.pass(Duration::from_secs(100_000));
    let admitted = (0..10).filter(|_| ask().status == 200).count();
    assert_eq!(admitted, 3, "a day later the bucket is full, not fuller");
}

/// E11: the wall clock is set.
#[test]
fn setting_the_wall_clock_changes_nothing() {
    let upstream = Upstream::start();
    let clocks = Clocks::start(&limited(&upstream, "rate = \"2 per 1h\""));
    let ask = |address: &str| clocks.gate.ask(attempt_as(address)).status;
    assert_eq!([ask("203.0.113.7"), ask("203.0.113.7"), ask("203.0.113.7")], [200, 200, 429]);
    for (number, hours) in [-2, -24 * 365, 24 * 3652, 0].into_iter().enumerate() {
        clocks.shift(Shift { wall: hours * 3600, ..Shift::default() });
        assert_eq!(ask("203.0.113.7"), 429, "{hours} hours off");
        let newcomer = format!("198.51.100.{number}");
        assert_eq!([ask(&newcomer), ask(&newcomer), ask(&newcomer)], [200, 200, 429], "{hours} hours off");
    }
}

/// E12: the machine slept; buckets stand still meanwhile, which errs on the strict side.
#[test]
fn eight_hours_of_sleep_refill_nothing() {
    let upstream = Upstream::start();
    let clocks = Clocks::start(&limited(&upstream, "rate = \"1 per 1h\""));
    let ask = || clocks.gate.ask(attempt_as("203.0.113.7"));
    assert_eq!([ask().status, ask().status], [200, 429]);
    clocks.shift(Shift { wall: 8 * 3600, boot: 8 * 3600, ..Shift::default() });
    let refused = ask();
    assert_eq!(refused.status, 429);
    assert!((3590..=3600).contains(&refused.retry_after()), "{}", refused.retry_after());
}

/// E13: the monotonic clock goes back, as it did on some machines.
#[test]
fn a_monotonic_clock_that_goes_back_neither_panics_nor_refills_nor_locks() {
    let upstream = Upstream::start();
    let mut clocks = Clocks::start(&limited(&upstream, "rate = \"2 per 60s\""));
    clocks.pass(Duration::from_secs(1000));
    let ask = |clocks: &Clocks, address: &str| clocks.gate.ask(attempt_as(address)).status;
    let drained = [0; 3].map(|_| ask(&clocks, "203.0.113.7"));
    assert_eq!(drained, [200, 200, 429]);
    clocks.pass(Duration::from_millis(999_500));
    assert_eq!(ask(&clocks, "203.0.113.7"), 429, "it does not refill");
    assert_eq!(ask(&clocks, "203.0.113.8"), 200, "others are served");
    clocks.pass(Duration::from_secs(1000 + 61));
    assert_eq!(ask(&clocks, "203.0.113.7"), 200, "and is not locked once the time has come");
    assert!(clocks.gate.is_running());
    assert!(!clocks.gate.messages().contains("panicked"), "{}", clocks.gate.messages());
}

/// E13: however far back, a bucket stays what it is.
#[test]
fn a_bucket_asked_in_the_past_is_neither_fuller_nor_locked_for_longer() {
    let spec = Spec::Continuous(Continuous::new(2, Span::from_secs(60), 2).unwrap());
    let (mut bucket, now) = (Bucket::new(spec), 1_700_000_000_000_000_000);
    let admitted = |bucket: &mut Bucket, at| step(bucket, at, Op::Take(1)).verdict.is_admitted();
    assert_eq!([0; 3].map(|_| admitted(&mut bucket, now)), [true, true, false]);
    for back in [1, 1_000_000_000, 3_600_000_000_000, now] {
        assert!(!admitted(&mut bucket, now - back), "{back} ns back");
    }
    assert!(admitted(&mut bucket, now + 30_000_000_000), "its next token is due when it always was");
}

/// E16: `Retry-After` is whole seconds, rounded up, and true.
#[test]
fn waiting_exactly_as_long_as_told_is_enough_and_a_second_less_is_not() {
    for (rate, longest) in
        [("1 per 1h", 3600), ("7 per 60s burst 1", 9), ("3/s burst 1", 1), ("1 per 1500ms", 2)]
    {
        let upstream = Upstream::start();
        let clocks = Clocks::start(&limited(&upstream, &format!("rate = \"{rate}\"")));
        let ask = || clocks.gate.ask(attempt_as("203.0.113.7"));
        assert_eq!(ask().status, 200);
        let refused = ask();
        assert_eq!(refused.status, 429);
        let seconds = refused.retry_after();
        assert!((1..=longest).contains(&seconds), "{rate}: {seconds}");
        if seconds > 1 {
            clocks.pass(Duration::from_secs(seconds) - Duration::from_millis(1500));
            assert_eq!(ask().status, 429, "{rate}: a second and a half too early");
        }
        clocks.pass(Duration::from_secs(seconds));
        assert_eq!(ask().status, 200, "{rate}: after {seconds} s as told");
    }
}

/// E17: all refused clients come back at once.
#[test]
fn jitter_lengthens_the_wait_and_never_shortens_it() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}[refuse]\njitter = 0.5\n")));
    gate.drain("/login", "");
    let waits: Vec<u64> = (0..60).map(|_| gate.ask(post_with("/login", "")).retry_after()).collect();
    assert!(waits.iter().all(|wait| (3590..=5400).contains(wait)), "{waits:?}");
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(most - least > 300, "they are spread: {waits:?}");
}

/// E24: metrics do not grow with clients, paths or hosts.
#[test]
fn no_client_and_no_path_ever_becomes_a_label() {
    let upstream = Upstream::start();
    let gate = Gate::start(&limited(&upstream, "rate = \"1 per 1h\""));
    let lines = || {
        let page = gate.metrics();
        (page.lines().count(), page)
    };
    let visit = |number: u32| {
        gate.ask(attempt_as(&format!("203.0.113.{number}")));
        gate.ask(attempt_as(&format!("203.0.113.{number}")));
        gate.ask(format!("GET /page{number} HTTP/1.1\r\nHost: host{number}.test\r\n\r\n"));
        gate.try_ask(format!("BREW{number} /pot HTTP/1.1\r\nHost: a\r\n\r\n"));
    };
    visit(1);
    let (before, _) = lines();
    (2..60).for_each(visit);
    let (after, page) = lines();
    assert_eq!(before, after, "{page}");
    for trace in ["203.0.113", "127.0.0.1:", "page", "host1", "BREW", "/login"] {
        let upstreams = page.lines().filter(|line| !line.contains("upstream=") && !line.starts_with('#'));
        assert!(!upstreams.into_iter().any(|line| line.contains(trace)), "{trace} in {page}");
    }
}
