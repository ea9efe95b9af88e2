//! A flood of foreign keys against the bounded table: no client gets a fresh burst out of it, no new client is shut
//! out, memory stays constant and no decision takes long.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "these are tests")]

use std::net::{IpAddr, Ipv6Addr};

use http::{HeaderMap, Method};
use rustix::time::{ClockId, clock_gettime};
use support::in_own_process;
use tollgate::bucket::{Continuous, Spec};
use tollgate::engine::{Decision, Engine};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::{Limit, Policy, Route};
use tollgate::time::{Clock, Span, Time};

const BURST: u32 = 10;
const PER_TOKEN: Span = Span::from_secs(30);
const DRAINED: u32 = 100;

/// A gate's engine whose clock stands until it is moved.
struct Flood {
    engine: Engine,
    clock: Clock,
    slowest: Span,
    slow: u32,
}

impl Flood {
    fn new(capacity: usize) -> Self {
        let clock = Clock::manual(Time::from_nanos(1_800_000_000_000_000_000));
        let engine = Engine::new(policy(), capacity, clock.clone(), Events::default()).unwrap();
        Self { engine, clock, slowest: Span::ZERO, slow: 0 }
    }

    /// Whether this client's attempt is admitted.
    fn attempt(&self, client: Ipv6Addr) -> bool {
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "example.org",
            client: Client::from_ip(IpAddr::V6(client)),
            headers: &HeaderMap::new(),
            body: AttemptBody::Unread,
            descriptor: None,
            tls: None,
        };
        matches!(
            self.engine.decide_in_memory(&self.engine.rules(), &attempt, self.clock.now()),
            Ok(Decision::Admitted(_))
        )
    }

    /// The same; the processor time that it took is remembered if it was the longest. Not the time on the wall: a
    /// thread that lost its core has not been deciding.
    fn timed_attempt(&mut self, client: Ipv6Addr) -> bool {
        let before = processor_time();
        let admitted = self.attempt(client);
        let took = processor_time().minus(before);
        self.slowest = self.slowest.max(took);
        self.slow += u32::from(took >= Span::from_millis(1));
        admitted
    }

    fn drain(&self, client: Ipv6Addr) {
        while self.attempt(client) {}
    }
}

fn policy() -> Policy {
    let limit = Limit::new("address", Spec::Continuous(Continuous::new(1, PER_TOKEN, BURST).unwrap()));
    let route = Route { limits: vec![0], ..Route::new("login", vec!["POST /login".parse().unwrap()]) };
    Policy::new(vec![route], vec![limit])
}

/// The nth /64 of a network; each has a bucket of its own.
fn client(network: u16, number: u32) -> Ipv6Addr {
    let [high, low] = [number >> 16, number & 0xFFFF].map(|half| u16::try_from(half).unwrap());
    Ipv6Addr::new(0x2001, network, high, low, 0, 0, 0, 1)
}

fn processor_time() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_secs(time.tv_sec.unsigned_abs()).plus(Span::from_nanos(time.tv_nsec.unsigned_abs()))
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

/// `others` foreign keys take `each` of their ten tokens.
fn flood(capacity: usize, others: u32, each: u32) {
    let mut flood = Flood::new(capacity);
    let drained: Vec<_> = (0..DRAINED).map(|number| client(0xD, number)).collect();
    drained.iter().for_each(|&one| flood.drain(one));
    for number in 0..others / 10 {
        for _ in 0..each {
            flood.attempt(client(0xF, number));
        }
    }
    let warm = resident_bytes();
    for number in others / 10..others {
        for _ in 0..each {
            flood.timed_attempt(client(0xF, number));
        }
    }
    let grown = resident_bytes().saturating_sub(warm);
    let newcomers = (0..1000).filter(|&number| flood.timed_attempt(client(0xE, number))).count();
    assert_eq!(newcomers, 1000, "newcomers admitted");
    let refused = |flood: &Flood| drained.iter().filter(|&&one| !flood.attempt(one)).count();
    assert_eq!(refused(&flood), drained.len(), "drained clients that are still refused");
    flood.clock.set(flood.clock.now().after(PER_TOKEN).before(Span::from_nanos(1)));
    assert_eq!(refused(&flood), drained.len(), "a nanosecond before their Retry-After");
    flood.clock.set(flood.clock.now().after(Span::from_nanos(1)));
    assert_eq!(refused(&flood), 0, "at their Retry-After");
    assert!(grown < 4 << 20, "memory grew by {grown} bytes while the table was full");
    // A virtual machine that loses its core charges the pause to the running thread, so a few in a million are the
    // machine's; a table that grows or sweeps would show up at every doubling.
    let (slow, slowest) = (flood.slow, flood.slowest);
    println!("{capacity} slots: the slowest decision took {slowest:?}, {slow} took a millisecond");
    assert!(
        slow <= 4 + others * each / 1_000_000,
        "{slow} decisions took a millisecond, the slowest {slowest:?}"
    );
}

/// The same for ten times as many keys: scripts/soak.
fn long_flood(capacity: usize, others: u32, each: u32) {
    flood(capacity, 10 * others, each);
}

#[test]
fn a_million_keys_with_one_attempt_each_flush_no_drained_bucket() {
    in_own_process(|| flood(100_000, 1_000_000, 1));
}

#[test]
fn keys_that_use_three_of_ten_tokens_flush_no_drained_bucket() {
    in_own_process(|| flood(100_000, 300_000, 3));
}

#[test]
fn keys_that_use_nine_of_ten_tokens_flush_no_drained_bucket() {
    in_own_process(|| flood(100_000, 200_000, 9));
}

#[test]
#[ignore = "takes minutes: scripts/soak"]
fn ten_million_keys_with_one_attempt_each_flush_no_drained_bucket() {
    in_own_process(|| {
        long_flood(100_000, 1_000_000, 1);
        long_flood(1_000_000, 1_000_000, 1);
    });
}

#[test]
#[ignore = "takes minutes: scripts/soak"]
fn millions_of_keys_that_use_a_part_of_their_tokens_flush_no_drained_bucket() {
    in_own_process(|| {
        long_flood(100_000, 200_000, 3);
        long_flood(100_000, 100_000, 9);
    });
}
