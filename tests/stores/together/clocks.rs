//! Gates whose wall clocks are minutes apart share a bucket as if they were not.
//!
//! Each gate's clock is shifted by libfaketime, and the gate itself has to say so: a shift that did not happen would prove
//! nothing. Where the store tells the time exactly, nothing is admitted too much; where it knows whole seconds only, two seconds
//! of rate at most.

use std::path::Path;
use std::time::Duration;

use crate::together::exact::{LATE, ROOMY, run_at};
use crate::together::fleet::Plan;
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcacheds;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, mount, started};

mount!(redis, super::Redis, together::clocks: five_minutes_apart_admit_not_one_more);
mount!(postgres, super::Postgres, together::clocks: five_minutes_apart_admit_not_one_more);
mount!(mariadb, super::MariaDb, together::clocks: five_minutes_apart_admit_not_one_more);
mount!(memcached, super::Memcacheds, together::clocks: five_minutes_apart_admit_two_seconds_of_rate_more_at_most);
mount!(dynamodb, super::Dynalite, together::clocks: five_minutes_apart_admit_two_seconds_of_rate_more_at_most
    seconds_apart_admit_two_seconds_of_rate_more_at_most);

fn five_minutes_apart_admit_not_one_more<S: Server>(server: S) {
    apart::<S>(&server, ["+5m", "+0", "-5m", "+0"], Duration::from_secs(3), 0.0);
}

fn five_minutes_apart_admit_two_seconds_of_rate_more_at_most<S: Server>(server: S) {
    apart::<S>(&server, ["+5m", "+0", "-5m", "+0"], Duration::from_secs(5), 2.0);
}

/// E14: what whole seconds cannot tell, and is left alone. Each of two gates once took the other's writing for one of before its own
/// clock was set back, and wrote it anew: four times as much was admitted.
#[test]
fn seconds_apart_over_memcached_admit_two_seconds_of_rate_more_at_most() {
    let server = started::<Memcacheds>();
    seconds_apart_admit_two_seconds_of_rate_more_at_most(server);
}

fn seconds_apart_admit_two_seconds_of_rate_more_at_most<S: Server>(server: S) {
    apart::<S>(&server, ["+0.9", "+0", "-0.9", "+0"], Duration::from_secs(5), 2.0);
}

#[test]
#[ignore = "two minutes, for benches/STORES.md"]
fn ten_seconds_five_minutes_apart() {
    ten_seconds::<Redis>(["+5m", "+0", "-5m", "+0"], 0.0);
    ten_seconds::<Postgres>(["+5m", "+0", "-5m", "+0"], 0.0);
    ten_seconds::<MariaDb>(["+5m", "+0", "-5m", "+0"], 0.0);
    for shifts in [["+5m", "+0", "-5m", "+0"], ["+0.9", "+0", "-0.9", "+0"]] {
        ten_seconds::<Memcacheds>(shifts, 2.0);
        ten_seconds::<Dynalite>(shifts, 2.0);
    }
}

fn ten_seconds<S: Server>(shifts: [&str; 4], seconds: f64) {
    let server = started::<S>();
    apart::<S>(&server, shifts, Duration::from_secs(10), seconds);
}

/// Four gates with these shifts; at most so many seconds of rate more, or less.
fn apart<S: Server>(server: &S, shifts: [&str; 4], time: Duration, seconds: f64) {
    assert!(
        Path::new(LIBRARY).exists(),
        "this test needs {LIBRARY}, which the Debian package faketime brings"
    );
    let promise = ROOMY;
    let line = promise.line();
    let environments = shifts.iter().map(|shift| shifted(shift)).collect();
    let fleet = Plan { environments, ..Plan::patient(server.url(), &line) }.start();
    for (gate, shift) in fleet.gates.iter().zip(shifts) {
        let says_so = gate.messages().contains("the store's clock is ");
        // To a clock of whole seconds, and late as well, one may seem to be two away.
        let may_say_so = shift.contains('.');
        assert!(may_say_so || says_so == shift.ends_with('m'), "{shift}: {}", gate.messages());
    }
    // Once a clock that was ahead is corrected, every client waits until it has come to where it was.
    let late = LATE + Duration::from_secs_f64(seconds);
    let figures = run_at(&fleet, promise, time, late);
    figures.print::<S>(&shifts.join(" "));
    figures.assert_within(seconds, late);
}

/// Shifts the wall clock of the gate, and leaves alone what time-outs are measured by.
fn shifted(by: &str) -> Vec<(String, String)> {
    if by == "+0" {
        return Vec::new();
    }
    let all = [("LD_PRELOAD", LIBRARY), ("FAKETIME", by), ("DONT_FAKE_MONOTONIC", "1")];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
