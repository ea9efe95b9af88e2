//! Each word of an operator over each store in each state of its bucket: what passes after it. Run by `scripts/soak`, since it
//! takes minutes; it prints a table.

#![allow(clippy::print_stderr, reason = "the table is what it is run for")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::words::tollgate;
use crate::{migrate, table};
use support::servers::Memory;
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Gate, Launch, Server, Upstream, eventually, new_directory, post};

#[test]
#[ignore = "it takes a quarter of an hour"]
fn every_word_holds_over_every_store_in_every_state() {
    let rows = [
        row::<Memory>(1),
        row::<Redis>(2),
        row::<Memcached>(2),
        row::<Postgres>(2),
        row::<MariaDb>(2),
        row::<Dynalite>(2),
    ];
    let faults: Vec<String> = rows.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

const WORDS: [(&str, &str, Passes); 6] = [
    ("ban", "buckets|ban|USER|--for|1h", Passes::None),
    ("rate", "buckets|rate|USER|account|1 per 1h|--for|1h", Passes::Tokens(1)),
    ("reset", "buckets|reset|USER", Passes::Burst),
    ("credit", "buckets|credit|USER|50", Passes::Tokens(50)),
    ("exempt", "buckets|exempt|USER|--for|1h", Passes::All),
    ("mode", "mode|observe|--for|1h", Passes::All),
];

/// What passes of a flood after a word.
#[derive(Clone, Copy)]
enum Passes {
    None,
    All,
    /// So many, and what comes meanwhile.
    Tokens(usize),
    /// A full bucket.
    Burst,
}

/// What a bucket and its store go through when the word is said.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Busy,
    Leased,
    Idle,
    GateRestarted,
    StoreRestarted,
}

/// Tokens that come while gates and stores start again: one each 3.6 seconds.
const MEANWHILE: usize = 5;

const STATES: [State; 5] =
    [State::Busy, State::Leased, State::Idle, State::GateRestarted, State::StoreRestarted];

/// An installation, which may be started again.
struct Place<S> {
    server: S,
    file: String,
    gates: Vec<Gate>,
    count: usize,
    _upstream: Upstream,
}

/// All words over one store; prints them, and returns what is wrong.
fn row<S: Server>(count: usize) -> Vec<String> {
    let mut faults = Vec::new();
    for state in STATES {
        if count == 1 && state == State::StoreRestarted {
            continue;
        }
        for (name, words, passes) in WORDS {
            let mut place = Place::<S>::start(state, count);
            let burst = place.burst(state);
            let (sent, passed) = place.flooded_after(state, words, passes);
            let (least, most) = match passes {
                Passes::None => (0, 0),
                // A gate that has just started learns of it from the store.
                Passes::All if state == State::GateRestarted => (sent / 2, sent),
                Passes::All => (sent.max(50), sent),
                Passes::Tokens(tokens) => (tokens.saturating_sub(1), tokens + MEANWHILE),
                // A gate whose lease is idle may keep a part of it.
                Passes::Burst => (burst - burst / 16, burst + MEANWHILE),
            };
            // A store that has lost its records has lost what was given with them.
            let is_lost =
                state == State::StoreRestarted && matches!(passes, Passes::Burst | Passes::Tokens(50));
            let is_right = (if is_lost { 0 } else { least }..=most).contains(&passed);
            let line = format!("| {} | {state:?} | {name} | {passed} of {sent} |", S::NAME);
            eprintln!("{line}{}", if is_right { "" } else { " WRONG" });
            faults.extend((!is_right).then_some(line));
        }
    }
    faults
}

impl<S: Server> Place<S> {
    fn start(state: State, count: usize) -> Self {
        let (server, upstream) = (support::started::<S>(), Upstream::start());
        // Limits of a thousand an hour and more have leases.
        let rate = if state == State::Busy { "300 per 1h" } else { "1000 per 1h" };
        let rules = format!(
            "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n[limit.account]\nkey = \"user\"\nrate = \"{rate}\"\n"
        );
        let snapshot = match count {
            1 => format!("[store]\nsnapshot = \"{}/buckets\"\n", new_directory().display()),
            _ => table(&server),
        };
        let file = format!("{}{snapshot}", upstream.file(&rules));
        if count > 1 {
            migrate(&file);
        }
        let mut place = Self { server, file, gates: Vec::new(), count, _upstream: upstream };
        place.start_gates();
        place
    }

    fn start_gates(&mut self) {
        self.gates = (0..self.count).map(|_| Launch::new(&self.file).start()).collect();
    }

    fn burst(&self, state: State) -> usize {
        if state == State::Busy { 300 } else { 1000 }
    }

    /// How many attempts were made when the word had to hold, and how many of them passed.
    fn flooded_after(&mut self, state: State, words: &str, passes: Passes) -> (usize, usize) {
        // What gives tokens is seen at a bucket that has none.
        let is_drained = !matches!(passes, Passes::None | Passes::Tokens(1));
        let words = words.replace("USER", "user:alice");
        let words: Vec<&str> = words.split('|').collect();
        let first = Flood::at(&self.gates);
        match is_drained {
            true => first.until_refused(),
            false => std::thread::sleep(Duration::from_millis(600)),
        }
        if matches!(state, State::Busy | State::Leased) {
            let before = first.counts();
            tollgate(&self.gates[0], &words);
            // What was said counts from then on, but for a second in which gates hear of it.
            let counts = |flood: Flood, since: (usize, usize)| {
                let (sent, passed) = flood.stop();
                (sent - since.0, passed - since.1)
            };
            if matches!(passes, Passes::Burst | Passes::Tokens(50)) {
                std::thread::sleep(Duration::from_millis(500));
                first.until_refused();
                return counts(first, before);
            }
            std::thread::sleep(Duration::from_secs(1));
            let before = first.counts();
            std::thread::sleep(Duration::from_millis(600));
            let (sent, passed) = counts(first, before);
            // Of a rate of one, the one has passed within the second.
            return (sent, if matches!(passes, Passes::Tokens(1)) { passed + 1 } else { passed });
        }
        let _ = first.stop();
        std::thread::sleep(Duration::from_secs(2));
        tollgate(&self.gates[0], &words);
        std::thread::sleep(Duration::from_secs(1));
        self.restart(state);
        let after = Flood::at(&self.gates);
        std::thread::sleep(Duration::from_millis(600));
        if matches!(passes, Passes::Burst) {
            after.until_refused();
        }
        after.stop()
    }

    fn restart(&mut self, state: State) {
        match state {
            State::GateRestarted => {
                // The snapshot is written each three seconds.
                std::thread::sleep(Duration::from_secs(if self.count == 1 { 4 } else { 0 }));
                self.gates.clear();
                self.start_gates();
            }
            State::StoreRestarted => {
                self.server.kill();
                self.server.start_again();
                let told = |gate: &Gate| gate.messages().contains("has lost its records");
                let all = || self.gates.iter().all(told);
                assert!(eventually(Duration::from_secs(15), all), "{}", self.gates[0].messages());
                std::thread::sleep(Duration::from_secs(1));
            }
            State::Busy | State::Leased | State::Idle => {}
        }
    }
}

/// Attempts at one account from four connections, two at each gate.
struct Flood {
    threads: Vec<std::thread::JoinHandle<()>>,
    counts: std::sync::Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    is_over: AtomicBool,
    sent: AtomicUsize,
    passed: AtomicUsize,
}

impl Flood {
    fn at(gates: &[Gate]) -> Self {
        let counts = std::sync::Arc::<Counts>::default();
        let flood = |number: usize| {
            let (mut client, counts) =
                (gates[number % gates.len()].connect(), std::sync::Arc::clone(&counts));
            std::thread::spawn(move || {
                while !counts.is_over.load(Ordering::Relaxed) {
                    client.send(post("/login", "user=alice"));
                    let status = client.answer().status;
                    counts.passed.fetch_add(usize::from(status == 200), Ordering::Relaxed);
                    counts.sent.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        };
        Self { threads: (0..4).map(flood).collect(), counts }
    }

    fn counts(&self) -> (usize, usize) {
        (self.counts.sent.load(Ordering::Relaxed), self.counts.passed.load(Ordering::Relaxed))
    }

    /// Waits until the bucket has been empty for a while.
    fn until_refused(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let (_, before) = self.counts();
            std::thread::sleep(Duration::from_millis(300));
            let (_, passed) = self.counts();
            if passed <= before || Instant::now() > end {
                return;
            }
        }
    }

    /// How many attempts there were, and how many passed.
    fn stop(self) -> (usize, usize) {
        self.counts.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        (self.counts.sent.load(Ordering::Relaxed), self.counts.passed.load(Ordering::Relaxed))
    }
}
