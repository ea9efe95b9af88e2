//! A gate at rest: connections that wait hold next to nothing, memory comes back, and nothing wakes up.
//!
//! The figures are a release's (benches/DOOR.md); the bounds here leave room for a build with assertions.

use std::fs;
use std::time::Duration;

use crate::idle::{Idle, Kind, Setting, raise_descriptors};
use support::{Client, Gate, eventually, get_with};

/// A kept connection is out of hyper by then.
const RESTS: Duration = Duration::from_millis(1500);

fn rests(gate: &Gate) -> u64 {
    std::thread::sleep(RESTS);
    gate.memory()
}

/// H4: what each of many connections takes.
#[test]
fn a_connection_that_waits_takes_little_memory() {
    assert!(raise_descriptors() > 4_000);
    for (kind, most) in [(Kind::Fresh, 3), (Kind::Plain, 6), (Kind::Refused, 6), (Kind::Tls, 20)] {
        let setting = Setting::new();
        // What a gate needs once.
        drop(setting.open_many(kind, 100));
        let before = rests(&setting.gate);
        let held = setting.open_many(kind, 2_000);
        let each = || setting.gate.memory().saturating_sub(before) as f64 / 2_000.0;
        let is_little = || each() <= f64::from(most);
        assert!(eventually(Duration::from_secs(20), is_little), "{kind:?}: {:.2} KiB", each());
        eprintln!("{kind:?}: {:.2} KiB each", each());
        drop(held);
    }
}

/// H4: what is left of many connections that have gone.
#[test]
fn the_memory_of_connections_comes_back_when_they_have_gone() {
    assert!(raise_descriptors() > 4_000);
    let setting = Setting::new();
    let start = rests(&setting.gate);
    for round in 1..=3 {
        drop(setting.open_many(Kind::Refused, 2_000));
        let more = || setting.gate.memory().saturating_sub(start);
        assert!(eventually(Duration::from_secs(20), || more() <= 8 * 1024), "round {round}: {} KiB", more());
        eprintln!("round {round}: {} KiB more than at the start", more());
    }
}

/// How often any thread of the gate has woken up so far.
fn wakes(gate: &Gate) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", gate.process_id())).unwrap().flatten();
    let wakes = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    });
    wakes.sum()
}

#[test]
fn a_gate_at_rest_wakes_up_twice_a_second_at_most() {
    let setting = Setting::new();
    let _held = [Kind::Fresh, Kind::Plain, Kind::Tls].map(|kind| setting.open(kind));
    let mut last = 0;
    let is_calm = || {
        let before = wakes(&setting.gate);
        std::thread::sleep(Duration::from_secs(5));
        last = wakes(&setting.gate) - before;
        last <= 10
    };
    // The upstream connection has to go first: see `upstream_idle` of the file.
    assert!(eventually(Duration::from_secs(60), is_calm), "{last} times in 5 s");
    eprintln!("{last} times in 5 s");
}

fn over(kind: Kind, setting: &Setting) -> Client {
    match setting.open(kind) {
        Idle::Http1(client) => client,
        Idle::Http2(_) => unreachable!("it is not asked for"),
    }
}

#[test]
fn a_connection_that_rested_goes_on_where_it_was() {
    let setting = Setting::new();
    for kind in [Kind::Fresh, Kind::Plain, Kind::Tls] {
        let mut client = over(kind, &setting);
        for _ in 0..2 {
            std::thread::sleep(RESTS);
            // A head in two pieces, and another request behind it.
            client.send("GET / HTTP/1.1\r\nHo");
            std::thread::sleep(Duration::from_millis(50));
            client.send(format!("st: a\r\n\r\n{}", get_with("/", "")));
            assert_eq!([client.answer().status, client.answer().status], [200, 200], "{kind:?}");
        }
        std::thread::sleep(RESTS);
        client.send("GET / HTTP/1.1\nHost: a\n\n");
        assert_eq!(client.answer().status, 400, "{kind:?}: what two servers read differently stays refused");
    }
}

#[test]
fn the_deadlines_hold_for_a_connection_that_rests() {
    let setting = Setting::with("header_timeout = \"2s\"\nidle_timeout = \"4s\"\n");
    for kind in [Kind::Plain, Kind::Tls] {
        let mut client = over(kind, &setting);
        std::thread::sleep(RESTS);
        client.send("GET / HTTP/1.1\r\nHo");
        assert_eq!(client.answer().status, 408, "{kind:?}");
        assert!(over(kind, &setting).ends_well_within(Duration::from_secs(20)), "{kind:?}");
    }
    let mut silent = over(Kind::Fresh, &setting);
    assert_eq!(silent.answer().status, 408);
}

#[test]
fn a_connection_that_rests_is_closed_when_the_gate_drains() {
    let mut setting = Setting::new();
    let mut held = [Kind::Fresh, Kind::Plain, Kind::Tls].map(|kind| over(kind, &setting));
    std::thread::sleep(RESTS);
    setting.gate.signal("TERM");
    assert!(setting.gate.exit_status(Duration::from_secs(20)).is_some_and(|status| status.success()));
    assert!(held.iter_mut().all(|client| client.ends_well_within(Duration::from_secs(5))));
}
