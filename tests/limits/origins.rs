//! The files under `examples/origins`, each run: what the limiter it replaces promised, seen by a client.
//!
//! The gate's clock stands still but for what a test lets pass.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Clocks, Upstream, get_with, post, post_with};

/// A gate on one of the files, in front of an upstream of the test's.
struct Origin {
    clocks: Clocks,
    _upstream: Upstream,
}

impl Origin {
    fn of(name: &str) -> Self {
        let file = std::fs::read_to_string(format!("examples/origins/{name}.toml")).unwrap();
        // Where it listens and what is behind it is the test's business; over its store it runs in tests/configuration/examples.rs.
        let (file, _store) = file.split_once("\n[store]").unwrap();
        let tables = file.find("\n[").map(|at| &file[at..]).unwrap();
        let upstream = Upstream::start();
        Self { clocks: Clocks::frozen(&upstream.file(tables)), _upstream: upstream }
    }

    /// How many of so many such requests are forwarded at this time.
    fn admitted(&self, millis: u64, attempts: usize, request: &str) -> usize {
        self.admitted_from(Ipv4Addr::LOCALHOST, millis, attempts, request)
    }

    fn admitted_from(&self, source: Ipv4Addr, millis: u64, attempts: usize, request: &str) -> usize {
        self.clocks.pass(Duration::from_millis(millis));
        let mut client = self.clocks.gate.connect_from(source);
        let ask = |_: &usize| {
            client.send(request);
            client.answer().status == 200
        };
        (0..attempts).filter(ask).count()
    }

    /// The same, but the first that is refused is the last: the clock stands still.
    fn admitted_in_a_row(&self, millis: u64, attempts: usize, request: &str) -> usize {
        self.clocks.pass(Duration::from_millis(millis));
        let mut client = self.clocks.gate.connect();
        let is_admitted = |_: &usize| {
            client.send(request);
            client.answer().status == 200
        };
        (0..attempts).take_while(is_admitted).count()
    }

    /// The wait that a refused request is told.
    fn wait(&self, millis: u64, request: &str) -> u64 {
        self.clocks.pass(Duration::from_millis(millis));
        let answer = self.clocks.gate.ask(request);
        assert_eq!(answer.status, 429);
        answer.retry_after()
    }
}

#[test]
fn refused_attempts_cost_and_applications_have_buckets_of_their_own() {
    let origin = Origin::of("php-memcached");
    let form = |host: &str| post("/login", "").replace("app.test", host);
    let (intranet, crm) = (form("intranet.example.org"), form("crm.example.org"));
    assert_eq!(origin.admitted(0, 40, &intranet), 10, "exactly the limit out of a full bucket");
    assert_eq!(origin.wait(0, &intranet), 330, "hammering made it longer, and debt has an end");
    assert_eq!(origin.admitted(0, 40, &crm), 10, "the other application's bucket is another one");
    assert_eq!(origin.admitted(329_999, 1, &intranet), 0);
    assert_eq!(origin.admitted(3_000_000, 40, &intranet), 10, "no more than the limit is ever saved up");
}

#[test]
fn the_function_s_trace_with_the_token_that_it_lost() {
    let origin = Origin::of("postgresql-function");
    let call = get_with("/api/x", "X-Api-Key: a\r\n");
    let admitted: Vec<usize> = (0..21).map(|tenth| origin.admitted(tenth * 100, 1, &call)).collect();
    let expected: Vec<usize> = (0..21).map(|tenth| usize::from(tenth <= 10 || tenth == 20)).collect();
    assert_eq!(admitted, expected);
    assert_eq!(origin.admitted(2000, 10, &get_with("/api/x", "X-Api-Key: b\r\n")), 10, "another caller");
    // Every 0.6 s at one a second: the function rounded up and never refused.
    let often = get_with("/api/x", "X-Api-Key: c\r\n");
    let admitted: usize = (0..200).map(|call| origin.admitted(10_000 + call * 600, 1, &often)).sum();
    assert_eq!(admitted, 10 + 119, "the burst, and one for each whole second of 119.4");
}

#[test]
fn two_of_five_callers_in_every_period() {
    let origin = Origin::of("mysql-procedure");
    for second in 0..5 {
        assert_eq!(origin.admitted(second * 1000, 5, &get_with("/x", "")), 2, "second {second}");
    }
    // The period begins with the first call after the last one ended, not on a whole second.
    assert_eq!(origin.admitted(7_500, 2, &get_with("/x", "")), 2);
    assert_eq!(origin.admitted(8_400, 2, &get_with("/x", "")), 0);
    assert_eq!(origin.admitted(8_500, 2, &get_with("/x", "")), 2);
}

#[test]
fn the_floor_the_pool_the_start_balance_and_the_cost() {
    let origin = Origin::of("dynamodb-floor");
    let cheap = get_with("/api/x", "");
    assert_eq!(origin.admitted(0, 80, &cheap), 60, "fifty to begin with, and the floor");
    assert_eq!(origin.admitted(1000, 80, &cheap), 11, "the floor again, and one of the pool");
    let (costly, other) = (post_with("/api/reports", ""), Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(origin.admitted_from(other, 1000, 20, &costly), 12, "five tokens each out of sixty");
    assert_eq!(origin.admitted(1_000_000, 200, &cheap), 110, "capped, whatever the pause");
}

#[test]
fn never_more_than_the_quota_in_a_day_nor_than_the_rate_in_an_hour() {
    let origin = Origin::of("rolling-window");
    let query = get_with("/whois/example.org", "");
    let mut hours = Vec::new();
    for hour in 0..26_u64 {
        let minutes = (0..60).map(|minute| hour * 3_600_000 + minute * 60_000);
        // As many a minute as it takes to use up the hour, and then once more to see that it is used up.
        let admitted: usize = minutes.step_by(3).map(|at| origin.admitted_in_a_row(at, 61, &query)).sum();
        hours.push(admitted);
    }
    assert!(hours.iter().all(|&hour| hour <= 1000), "{hours:?}");
    let days = hours.windows(24).map(|day| day.iter().sum::<usize>());
    assert!(days.clone().all(|day| day <= 10_000), "{hours:?}");
    assert_eq!(days.max(), Some(10_000), "and the quota can be used");
    assert_eq!(hours[..10], [1000; 10]);
    assert_eq!(hours[10..24], [0; 14]);
    assert_eq!(hours[24..], [1000; 2], "as the first hours fall out of the window");
}
