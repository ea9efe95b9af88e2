//! Traces that every build must reproduce, through the running gate: what a client sees of its bucket.
//!
//! The gate's clock stands still but for what a test lets pass, so that each table is exact.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::time::Duration;

use support::{Answer, Clocks, Upstream, post};

/// What an attempt was told: the tokens left after it, or the seconds to wait.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Left(u32),
    Wait(u64),
}

use Said::{Left, Wait};

impl Said {
    fn by(answer: &Answer) -> Self {
        match answer.status {
            200 => {
                let limit = answer.header("ratelimit").expect("an attempt's answer says what is left");
                let left = limit.split(";r=").nth(1).unwrap().split(';').next().unwrap();
                Left(left.parse().unwrap())
            }
            429 => Wait(answer.retry_after()),
            status => panic!("{status}: {}", answer.text()),
        }
    }
}

/// A gate with this limit whose clock is ours, and an upstream behind it.
struct Trace {
    clocks: Clocks,
    upstream: Upstream,
}

impl Trace {
    fn of(limit: &str) -> Self {
        let upstream = Upstream::start();
        let file = format!(
            "[route.login]\nmatch = \"POST /login\"\n[limit.address]\n{limit}\n[refuse]\nheaders = \"always\"\n"
        );
        Self { clocks: Clocks::frozen(&upstream.file(&file)), upstream }
    }

    fn at(&self, millis: u64) -> Said {
        self.clocks.pass(Duration::from_millis(millis));
        Said::by(&self.clocks.gate.ask(post("/login", "")))
    }

    /// How many of so many attempts are admitted at this time.
    fn admitted(&self, millis: u64, attempts: usize) -> usize {
        self.clocks.pass(Duration::from_millis(millis));
        let mut client = self.clocks.gate.connect();
        let ask = |_: &usize| {
            client.send(post("/login", ""));
            client.answer().status == 200
        };
        (0..attempts).filter(ask).count()
    }
}

#[test]
fn trace_1_the_eleventh_attempt_finds_the_token_that_came_due() {
    let trace = Trace::of("rate = \"1/s burst 10\"");
    for tenth in 0..30 {
        let expected = match tenth {
            0..=9 => Left(9 - u32::try_from(tenth).unwrap()),
            10 | 20 => Left(0),
            _ => Wait(1),
        };
        assert_eq!(trace.at(tenth * 100), expected, "after {tenth} tenths of a second");
    }
    let later: Vec<Said> = (60..65).map(|tenth| trace.at(tenth * 100)).collect();
    assert_eq!(later, [Left(3), Left(2), Left(1), Left(0), Wait(1)]);
    assert_eq!(trace.upstream.requests().len(), 10 + 2 + 4, "refused attempts never get there");
}

#[test]
fn trace_4_two_of_five_callers_a_second_and_nothing_carried_over() {
    let trace = Trace::of("rate = \"2 per 1s\"\nrefill = \"interval\"");
    for second in 0..5 {
        assert_eq!(trace.admitted(second * 1000, 5), 2, "second {second}");
    }
    assert_eq!(trace.admitted(10_000, 1), 1, "one of two tokens is used");
    assert_eq!(trace.admitted(11_000, 5), 2, "and the other is not there on top in the next period");
}

#[test]
fn trace_6_the_floor_is_there_when_the_pool_is_empty() {
    let trace = Trace::of("rate = \"1/s burst 100\"\nfloor = \"10/s\"");
    assert_eq!(trace.admitted(0, 130), 110);
    for second in 1..6 {
        // Ten of the floor, and the one that the pool was refilled by.
        assert_eq!(trace.admitted(second * 1000, 30), 11, "second {second}");
    }
}

#[test]
fn trace_8_debt_makes_the_wait_longer_up_to_its_bound() {
    let trace = Trace::of("rate = \"10 per 300s\"\ndebt = 10");
    assert_eq!(trace.admitted(0, 10), 10);
    assert_eq!(trace.at(0), Wait(60), "its own token and the one it owes");
    let waits: Vec<Said> = (0..20).map(|_| trace.at(0)).collect();
    assert_eq!((&waits[0], &waits[8], &waits[19]), (&Wait(90), &Wait(330), &Wait(330)));
    assert!(matches!(trace.at(329_999), Wait(_)), "a nanosecond's worth too early is too early");
}

#[test]
fn trace_8_a_client_that_obeys_the_wait_is_admitted() {
    let trace = Trace::of("rate = \"10 per 300s\"\ndebt = 10");
    assert_eq!(trace.admitted(0, 30), 10);
    assert_eq!(trace.at(330_000), Left(0));
}

#[test]
fn trace_10_a_start_balance_is_all_that_a_new_client_gets_at_once() {
    let trace = Trace::of("rate = \"100 per 100s\"\ninitial = 50");
    assert_eq!(trace.admitted(0, 60), 50);
    assert_eq!(trace.admitted(1000, 5), 1);
    assert_eq!(trace.admitted(1_000_000, 110), 100, "once full it holds a hundred");
}
