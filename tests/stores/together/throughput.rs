//! What an attempt costs: processor time of the store, and of the thread of each gate that asks it.
//!
//! Four gates of this process, each with sixteen callers that attempt again as soon as they have their verdict, at keys
//! at random or at one that is hot. Processor time and not the clock is what is told, since all of it shares this machine.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::bucket::{Continuous, Span, Spec};
use tollgate::store::memory::BucketKey;

use crate::together::several_limits::{Fleet, key};
use support::servers::Tables as _;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, started, time_of_threads};

#[test]
#[ignore = "two minutes, for benches/SCALE.md"]
fn the_table_of_costs() {
    table::<Redis>(|_| {});
    table::<Memcached>(|_| {});
    // The tests count requests in the server's log, which costs the server more than the requests.
    table::<Postgres>(|server| drop(server.sql("ALTER ROLE tollgate SET log_statement = 'none'")));
    table::<MariaDb>(|server| drop(server.sql("SET GLOBAL general_log = 0")));
}

fn table<S: Server>(prepare: fn(&S)) {
    for (what, limits, keys) in [("at random", 1, KEYS), ("at random", 3, KEYS), ("one hot key", 1, 1)] {
        let server = started::<S>();
        prepare(&server);
        Load { limits, keys }.put_on(&server).print::<S>(&format!("{limits}, {what}"));
    }
}

#[derive(Clone, Copy)]
struct Load {
    limits: usize,
    keys: u64,
}

struct Cost {
    attempts: f64,
    questions: f64,
    seconds: f64,
    /// Seconds of the store's processes.
    store: f64,
    /// Seconds of the threads that ask it.
    asking: f64,
}

impl Load {
    fn put_on<S: Server>(self, server: &S) -> Cost {
        let Fleet { gates, runtime, questions } = Fleet::of(GATES, server);
        let gates: Vec<_> = gates.into_iter().map(Arc::new).collect();
        let attempt_all = |time: Duration| {
            let (admitted, end) = (Arc::new(AtomicU64::new(0)), Instant::now() + time);
            let callers = (0..GATES * CALLERS).map(|number| {
                let (gate, admitted) = (Arc::clone(&gates[number % GATES]), Arc::clone(&admitted));
                runtime.spawn(async move {
                    let mut dice = number as u64;
                    while Instant::now() < end {
                        dice = dice
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let client = (dice >> 33) % self.keys;
                        let taken = gate.take(self.limits, |limit| bucket(limit, client)).await;
                        admitted.fetch_add(taken.into(), Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                runtime.block_on(caller).unwrap();
            }
            admitted.load(Ordering::Relaxed)
        };
        let warm = attempt_all(Duration::from_secs(2));
        let asked = questions.0.load(Ordering::Relaxed);
        let (store, asking, begun) = (of_servers(), of_asking(), Instant::now());
        let attempts = attempt_all(Duration::from_secs(4));
        // A dry bucket refuses, which costs the store nothing.
        assert!(attempts >= warm, "{attempts} after {warm}: the buckets ran dry");
        Cost {
            attempts: number(attempts),
            questions: number(questions.0.load(Ordering::Relaxed) - asked),
            seconds: begun.elapsed().as_secs_f64(),
            store: of_servers() - store,
            asking: of_asking() - asking,
        }
    }
}

impl Cost {
    fn print<S: Server>(&self, what: &str) {
        let Self { attempts, questions, seconds, store, asking } = self;
        eprintln!(
            "| {} | {what} | {:.0} | {:.2} | {:.1} | {:.0} | {:.1} |",
            S::NAME,
            attempts / seconds,
            questions / attempts,
            store * 1e6 / attempts,
            attempts / store,
            asking * 1e6 / questions,
        );
    }
}

/// Eight clients to a subnet, and as many to an account.
fn bucket(limit: usize, client: u64) -> BucketKey {
    let name = match limit {
        0 => client,
        1 => client / 8,
        _ => client % (KEYS / 8),
    };
    // More than a fast machine takes in six seconds.
    let plenty = Continuous::new(100, Span::from_secs(1), 100_000_000).unwrap();
    BucketKey { key: key(limit, name), class: 0, spec: Spec::Continuous(plenty) }
}

/// The seconds that all processes below this one have computed.
fn of_servers() -> f64 {
    let mut found = vec![std::process::id()];
    let mut sum = 0.0;
    let all: Vec<(u32, u32, f64)> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|process: u32| {
            let (parent, seconds) = read_stat(&format!("/proc/{process}/stat"))?;
            Some((process, parent, seconds))
        })
        .collect();
    while let Some(parent) = found.pop() {
        for (process, _, seconds) in all.iter().filter(|(_, of, _)| *of == parent) {
            sum += seconds;
            found.push(*process);
        }
    }
    sum
}

/// The seconds of this process's threads that ask stores.
fn of_asking() -> f64 {
    time_of_threads(std::process::id(), |name| name == "store").as_secs_f64()
}

/// The parent, and the seconds computed.
fn read_stat(path: &str) -> Option<(u32, f64)> {
    let stat = fs::read_to_string(path).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
    Some((fields[1].parse().ok()?, number(ticks) / 100.0))
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn number(count: u64) -> f64 {
    count as f64
}

const GATES: usize = 4;
/// At each gate.
const CALLERS: usize = 16;
const KEYS: u64 = 8_192;
