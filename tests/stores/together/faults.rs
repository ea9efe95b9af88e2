//! A store that stops, dies, forgets, lags or lies, while four gates are under load.
//!
//! Beside the gates on the store runs one without a store, under the same load at the same time: a delay on both is the
//! machine's. While the store is unavailable each gate has the limit to itself, so four of them admit four times the
//! limit, as `on_error = "local"` promises; the tests hold this bound in every stretch of time.

use std::time::{Duration, Instant};

use crate::together::fleet::{Fleet, GATES, Plan};
use crate::together::load::{Attempt, Load, LoadPlan, percentile, worst_excess};
use crate::together::relay::{Mode, Relay};
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, eventually, mount, started};

mount!(memcached, super::Memcached, together::faults: stopped_and_killed_once);
mount!(postgres, super::Postgres, together::faults: stopped_and_killed_once);
mount!(mariadb, super::MariaDb, together::faults: stopped_and_killed_once);
mount!(dynamodb, super::Dynalite, together::faults: stopped_and_killed_once_by_patient_gates);

/// What happens to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// SIGSTOP, and SIGCONT a second later.
    Stop,
    /// SIGKILL, and a second later it is there again and empty.
    Kill,
    /// The same at once.
    Empty,
    /// Something else stands under our keys.
    WrongBytes,
    /// The wire does this for a second.
    Wire(Mode),
}

/// How much of it.
#[derive(Clone, Copy)]
struct Course {
    on_error: &'static str,
    /// `store.timeout` in milliseconds.
    timeout: u64,
    rounds: usize,
    /// For what a machine is late with that does other things, too.
    grace: Duration,
}

/// G1, G2, G3: stopped, killed, emptied, silent, late, and full of foreign bytes.
#[test]
fn with_local_no_client_notices() {
    over_redis(ALL, Course::short("local"));
}

/// G6: as configured.
#[test]
fn with_allow_everybody_passes() {
    over_redis(ALL, Course::short("allow"));
}

/// G6: as configured.
#[test]
fn with_deny_everybody_is_told_when_to_come_back() {
    over_redis(ALL, Course::short("deny"));
}

/// G3, G5: reset, garbage, half an answer, one byte at a time, and answers that are lost after the deed.
#[test]
fn broken_wires_are_no_worse() {
    over_redis(WIRES, Course { rounds: 1, ..Course::short("local") });
}

fn over_redis(faults: &[Fault], course: Course) {
    let server = started::<Redis>();
    endure(server, faults, course);
}

/// Eight keys at once take dynalite longer than 50 ms: on that it would always be away.
fn stopped_and_killed_once_by_patient_gates<S: Server>(server: S) {
    endure(server, &[Fault::Stop, Fault::Kill], Course { rounds: 1, timeout: 500, ..Course::short("local") });
}

fn stopped_and_killed_once<S: Server>(server: S) {
    endure(server, &[Fault::Stop, Fault::Kill], Course { rounds: 1, ..Course::short("local") });
}

#[test]
#[ignore = "half an hour, for benches/STORES.md"]
fn twenty_rounds_of_every_fault() {
    for on_error in ["local", "allow", "deny"] {
        twenty_rounds::<Redis>(ALL, on_error);
    }
    twenty_rounds::<Redis>(WIRES, "local");
}

#[test]
#[ignore = "half an hour, for benches/STORES.md"]
fn twenty_rounds_over_other_stores() {
    twenty_rounds::<Memcached>(ALL, "local");
    twenty_rounds::<Postgres>(ALL, "local");
    twenty_rounds::<MariaDb>(ALL, "local");
}

fn twenty_rounds<S: Server>(faults: &[Fault], on_error: &'static str) {
    let server = started::<S>();
    let rounds = std::env::var("ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    endure(server, faults, Course { on_error, timeout: TIMEOUT, rounds, grace: Duration::ZERO });
}

/// One round of a fault.
struct Round {
    fault: Fault,
    /// From the fault to the recovery, since the load began.
    begun: Duration,
    over: Duration,
    recovery: Duration,
    /// Attempts that were decided without the store.
    fallbacks: u64,
}

fn endure<S: Server>(mut server: S, faults: &[Fault], course: Course) {
    let (relay, url) = Relay::before(&server.url());
    let limit = format!("rate = \"{RATE}/s burst {BURST}\"");
    let timeout = format!("{}ms", course.timeout);
    let plan = Plan { manner: (&timeout, course.on_error), ..Plan::patient(url, &limit) };
    let (fleet, alone) = (plan.start(), Plan::alone(&limit).start());
    let addresses = fleet.addresses().into_iter().chain(alone.addresses()).collect();
    let load =
        Load::start(addresses, LoadPlan { connections: KEYS, keys: KEYS, pause: Duration::from_millis(20) });
    std::thread::sleep(Duration::from_secs(1));
    let mut rounds = Vec::new();
    for &fault in faults {
        for _ in 0..course.rounds {
            rounds.push(round(fault, &mut server, &relay, &fleet, &load));
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    let attempts = load.stop();
    let figures: Vec<Figures> = faults.iter().map(|&fault| Figures::of(fault, &rounds, &attempts)).collect();
    figures.iter().for_each(|figures| figures.print(S::NAME, &course));
    figures.iter().for_each(|figures| figures.assert(&course));
    look_at_all(&course, &fleet, rounds.len(), &attempts);
    assert!(relay.accepted() < most_connections(&attempts), "{} connections", relay.accepted());
}

fn round<S: Server>(fault: Fault, server: &mut S, relay: &Relay, fleet: &Fleet, load: &Load) -> Round {
    let fallbacks = || fleet.total("tollgate_store_fallbacks_total", "");
    let (begun, before) = (load.elapsed(), fallbacks());
    fault.begins(server, relay);
    if fault != Fault::Empty {
        std::thread::sleep(Duration::from_secs(1));
    }
    fault.ends(server, relay);
    let back = Instant::now();
    let answered: Vec<f64> = fleet.gates.iter().map(answers).collect();
    for (gate, before) in fleet.gates.iter().zip(answered) {
        let is_back = || is_up(gate) && answers(gate) > before;
        assert!(eventually(Duration::from_secs(60), is_back), "{fault:?}: it is asked again");
    }
    let recovery = back.elapsed();
    Round { fault, begun, over: load.elapsed(), recovery, fallbacks: fallbacks() - before }
}

fn is_up(gate: &support::Gate) -> bool {
    gate.metric("tollgate_store_up", "") > 0.5
}

/// A lost race is an answer, too: where the store knows whole seconds, a gate that is late may lose all of them.
fn answers(gate: &support::Gate) -> f64 {
    let of = |result| gate.metric("tollgate_store_requests_total", result);
    of("result=\"ok\"") + of("result=\"lost\"")
}

impl Fault {
    fn begins<S: Server>(self, server: &mut S, relay: &Relay) {
        match self {
            Self::Stop => server.pause(),
            Self::Kill | Self::Empty => server.kill(),
            Self::WrongBytes => server.spoil(b"neither ours nor anybody's"),
            Self::Wire(mode) => relay.turn(mode),
        }
    }

    fn ends<S: Server>(self, server: &mut S, relay: &Relay) {
        match self {
            Self::Stop => server.resume(),
            Self::Kill | Self::Empty => server.start_again(),
            Self::WrongBytes => {}
            Self::Wire(_) => relay.turn(Mode::Pass),
        }
    }

    /// Whether attempts have to be decided without the store; a restart may be faster than five failures.
    fn is_outage(self) -> bool {
        !matches!(self, Self::Empty | Self::WrongBytes | Self::Wire(Mode::Slices))
    }
}

impl Course {
    fn short(on_error: &'static str) -> Self {
        Self { on_error, timeout: TIMEOUT, rounds: 1, grace: Duration::from_secs(1) }
    }
}

/// What the rounds of one fault showed.
struct Figures {
    fault: Fault,
    rounds: usize,
    /// How often each answer was given; 0 for none at all.
    attempts: usize,
    admitted: usize,
    denied: usize,
    other: usize,
    fallbacks: u64,
    /// Rounds in which no attempt was decided without the store.
    unnoticed: usize,
    /// The 99th percentile at the gates on the store, and at the one without.
    with: Duration,
    without: Duration,
    recovery: Duration,
}

impl Figures {
    fn of(fault: Fault, rounds: &[Round], attempts: &[Attempt]) -> Self {
        let rounds: Vec<&Round> = rounds.iter().filter(|round| round.fault == fault).collect();
        let within = |attempt: &&Attempt| {
            rounds.iter().any(|round| attempt.answered > round.begun && attempt.sent < round.over)
        };
        let (shared, alone): (Vec<&Attempt>, Vec<&Attempt>) =
            attempts.iter().filter(within).partition(|attempt| attempt.gate < GATES);
        let count =
            |statuses: &[u16]| shared.iter().filter(|attempt| statuses.contains(&attempt.status)).count();
        Self {
            fault,
            rounds: rounds.len(),
            attempts: shared.len(),
            admitted: count(&[200]),
            denied: count(&[503]),
            other: shared.len() - count(&[200, 429, 503]),
            fallbacks: rounds.iter().map(|round| round.fallbacks).sum(),
            unnoticed: rounds.iter().filter(|round| round.fallbacks == 0).count(),
            with: percentile(shared.iter().copied(), 99),
            without: percentile(alone.iter().copied(), 99),
            recovery: rounds.iter().map(|round| round.recovery).max().unwrap(),
        }
    }

    fn print(&self, name: &str, course: &Course) {
        let Self {
            fault, rounds, attempts, admitted, denied, other, fallbacks, with, without, recovery, ..
        } = self;
        eprintln!(
            "| {name} | {} | {fault:?} | {rounds} | {attempts} | {admitted} | {denied} | {other} | {fallbacks} \
             | {with:.1?} - {without:.1?} | {recovery:.2?} |",
            course.on_error
        );
    }

    fn assert(&self, course: &Course) {
        let (fault, added) = (self.fault, self.with.saturating_sub(self.without));
        let longest = Duration::from_millis(course.timeout + 5);
        assert_eq!(self.other, 0, "{fault:?}: every request is answered, and none with another fault");
        assert!(course.on_error == "deny" || self.denied == 0, "{fault:?}: no client is told of it");
        assert!(!fault.is_outage() || self.unnoticed == 0, "{fault:?} is one");
        assert!(added < longest + course.grace, "{fault:?}: {added:?} at the 99th percentile");
        // How soon is for a machine that does nothing else (scripts/soak, without grace); that they come back is for any.
        assert!(self.recovery < Duration::from_secs(2) + 60 * course.grace, "{fault:?}: {:?}", self.recovery);
    }
}

fn look_at_all(course: &Course, fleet: &Fleet, rounds: usize, attempts: &[Attempt]) {
    assert_eq!(fleet.total("tollgate_panics_total", ""), 0);
    for attempt in attempts.iter().filter(|attempt| attempt.status == 503) {
        assert!(attempt.has_retry_after, "503 says when to come back");
    }
    let denied = attempts.iter().filter(|attempt| attempt.status == 503).count();
    assert_eq!(denied > 0, course.on_error == "deny", "{denied} were denied");
    if course.on_error != "allow" {
        let share = f64::from(u32::try_from(GATES).unwrap());
        for key in 0..KEYS {
            let of_key = attempts.iter().filter(|attempt| attempt.gate < GATES && attempt.key == key);
            let worst = worst_excess(of_key, share * BURST, share * RATE);
            eprintln!("key {key}: {worst:.1} more than {GATES} times the limit in the worst stretch of time");
            assert!(worst <= 0.0, "{worst} more than all gates together in some stretch of time");
        }
    }
    for gate in &fleet.gates {
        let said = |words: &str| gate.messages().lines().filter(|line| line.contains(words)).count();
        let changes = || (said("store unavailable"), said("store available again"));
        let is_settled = || changes().0 == changes().1;
        assert!(
            eventually(Duration::from_secs(10), is_settled),
            "each change of state is told once: {:?}",
            changes()
        );
        let messages = gate.messages();
        // The lines about refused clients are bounded by themselves (tests/logs/decisions/summary.rs).
        let lines = messages.lines().filter(|line| !line.contains("refuse")).count();
        let (away, _) = changes();
        eprintln!("a gate said {lines} lines, and {away} times that the store is away");
        // A store that hesitates while it comes back turns more than once; attempts are hundreds in each round.
        assert!(away <= 6 * rounds + 2, "{away} times away in {rounds} rounds");
        assert!(lines <= 2 * away + 20, "{}", gate.messages());
    }
}

/// A few to begin with; then one in 100 ms from each gate.
fn most_connections(attempts: &[Attempt]) -> usize {
    let time = attempts.iter().map(|attempt| attempt.answered).max().unwrap();
    GATES * (8 + usize::try_from(time.as_millis() / 100).unwrap())
}

const ALL: &[Fault] = &[
    Fault::Stop,
    Fault::Kill,
    Fault::Empty,
    Fault::Wire(Mode::BlackHole),
    Fault::Wire(Mode::Delay(Duration::from_millis(500))),
    Fault::WrongBytes,
];
const WIRES: &[Fault] = &[
    Fault::Wire(Mode::Reset),
    Fault::Wire(Mode::Garbage),
    Fault::Wire(Mode::Truncate),
    Fault::Wire(Mode::Slices),
    Fault::Wire(Mode::LostAnswer),
];
const KEYS: usize = 8;
const RATE: f64 = 20.0;
const BURST: f64 = 10.0;
/// The default, in milliseconds.
const TIMEOUT: u64 = 50;
