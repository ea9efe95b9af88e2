//! A rolling change of fifty gates in simulated time, over a store that answers late: at every moment the list tells who has
//! taken a policy, who refuses it and who is gone.
//!
//! How gates write and read the list, and when a report is due, is the program's own code; the order of a tick is repeated
//! here from `app/reload/follow.rs`. An observer, who knows what every process truly did, compares. Gates of the earlier
//! version refuse the second policy, and half of them report no details. The same run each time: dice and numbers are fixed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::{START, details};
use crate::fleet::tests::Records;
use crate::fleet::*;
use crate::{Clocked, ServerId, StoreFuture};

/// Late by some milliseconds each way, so that gates come between each other's requests.
#[derive(Default)]
struct LateStore {
    records: Records,
    dice: Mutex<u64>,
    /// For each attempt to write the list of gates when it came, and whether it won.
    swaps: Mutex<Vec<(Time, bool)>>,
}

impl LateStore {
    async fn travel(&self) {
        let millis = {
            let mut dice = self.dice.lock().unwrap();
            *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1 + (*dice >> 33) % 3
        };
        sleep(Duration::from_millis(millis)).await;
    }
}

impl CompareAndSwap for LateStore {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move {
            self.travel().await;
            let loaded = self.records.load(key).await;
            self.travel().await;
            loaded
        })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move {
            self.travel().await;
            let is_list = &*new.limit == "gates";
            let swapped = self.records.swap(key, old, new).await;
            if is_list {
                let won = swapped.as_ref().is_ok_and(|swap| matches!(swap.value, Swap::Done(_)));
                self.swaps.lock().unwrap().push((now(), won));
            }
            self.travel().await;
            swapped
        })
    }

    fn probe(&self, _: ServerId) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(Clocked::without_clock(())) })
    }
}

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GateState {
    policy: Option<u64>,
    refused: Option<u64>,
    is_store_up: bool,
}

impl GateState {
    fn of(report: &GateReport) -> Self {
        Self {
            policy: report.policy.as_ref().map(|policy| policy.version),
            refused: report.refused.as_ref().map(|refusal| refusal.policy.version),
            is_store_up: report.details.is_none_or(|details| details.store.is_up),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateEnd {
    SignedOff,
    Killed,
}

/// What is true of one process.
#[derive(Debug)]
struct ProcessTruth {
    id: GateId,
    is_new: bool,
    /// What it would have said since when.
    states: Vec<(Time, GateState)>,
    is_ending: bool,
    ended: Option<(Time, GateEnd)>,
}

impl ProcessTruth {
    fn state_at(&self, time: Time) -> Option<&GateState> {
        Some(&self.states.iter().rfind(|(since, _)| *since <= time)?.1)
    }

    fn is_running(&self) -> bool {
        !self.is_ending && self.ended.is_none()
    }
}

/// The store, and what is true.
struct Installation {
    store: Arc<LateStore>,
    fleet: Fleet,
    truth: Mutex<Vec<ProcessTruth>>,
    /// When the store last lost the list.
    lost: Mutex<Option<Time>>,
}

impl Installation {
    fn new() -> Arc<Self> {
        let store = Arc::<LateStore>::default();
        let backend: Arc<dyn CompareAndSwap> = Arc::<LateStore>::clone(&store);
        let fleet = Fleet::new(backend, FleetKeys::new(&Namespace::default(), &[b"secret"]));
        Arc::new(Self { store, fleet, truth: Mutex::default(), lost: Mutex::default() })
    }

    async fn push(&self, version: u64) {
        let newest = Some(version - 1).filter(|before| *before > 0);
        let text = format!("# {version}");
        self.fleet.push(&text, newest, PolicyNote::default()).await.unwrap();
    }

    fn lose_list(&self) {
        self.store.records.lose(self.fleet.keys.gates());
        *self.lost.lock().unwrap() = Some(now());
    }

    fn swaps_between(&self, from: u64, to: u64) -> (usize, usize) {
        let swaps = self.store.swaps.lock().unwrap();
        let within = swaps.iter().filter(|(at, _)| (second(from)..second(to)).contains(at));
        let (won, lost): (Vec<bool>, Vec<bool>) = within.map(|(_, won)| *won).partition(|won| *won);
        (won.len(), lost.len())
    }

    /// How many gates of the list took the policy, and how many others there are.
    async fn taken(&self, version: u64) -> (usize, usize) {
        let policy = self.fleet.head().await.unwrap().policy(version).unwrap().id();
        let gates = self.fleet.gates(now()).await.unwrap();
        let is_taken = |gate: &&ReportedGate| gate.report.answer(&policy) == PolicyAnswer::Taken;
        let taken = gates.iter().filter(is_taken).count();
        (taken, gates.len() - taken)
    }
}

/// A process at work.
struct RunningProcess {
    installation: Arc<Installation>,
    /// Its place in the true list.
    at: usize,
    task: JoinHandle<()>,
    stop: Arc<tokio::sync::Notify>,
}

impl RunningProcess {
    fn start(installation: &Arc<Installation>, host: usize, is_new: bool) -> Self {
        let mut truth = installation.truth.lock().unwrap();
        let at = truth.len();
        let reporter = GateReporter::with_id(GateId::numbered(at as u64), now());
        let (id, states) = (reporter.id(), Vec::new());
        truth.push(ProcessTruth { id, is_new, states, is_ending: false, ended: None });
        let stop = Arc::new(tokio::sync::Notify::new());
        let life = GateLife {
            installation: Arc::clone(installation),
            at,
            host,
            is_new,
            reporter,
            taken: PolicyId { version: 0, hash: PolicyEntry::hash_of("") },
            refused: None,
            stop: Arc::clone(&stop),
        };
        let task = tokio::spawn(life.run());
        Self { installation: Arc::clone(installation), at, task, stop }
    }

    /// Ends it as SIGTERM does.
    async fn end(self) {
        let Self { installation, at, task, stop } = self;
        installation.truth.lock().unwrap()[at].is_ending = true;
        stop.notify_one();
        task.await.unwrap();
        installation.truth.lock().unwrap()[at].ended = Some((now(), GateEnd::SignedOff));
    }

    fn kill(self) {
        self.task.abort();
        self.installation.truth.lock().unwrap()[self.at].ended = Some((now(), GateEnd::Killed));
    }
}

/// What a process does, as the gate's reload does it.
struct GateLife {
    installation: Arc<Installation>,
    at: usize,
    host: usize,
    is_new: bool,
    reporter: GateReporter,
    taken: PolicyId,
    refused: Option<PolicyRefusal>,
    stop: Arc<tokio::sync::Notify>,
}

impl GateLife {
    async fn run(mut self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = Arc::clone(&self.stop);
        loop {
            tokio::select! {
                biased;
                () = stop.notified() => break,
                _ = ticks.tick() => self.follow().await,
            }
        }
        self.installation.fleet.sign_off(self.reporter.id()).await.unwrap();
    }

    async fn follow(&mut self) {
        let fleet = self.installation.fleet.clone();
        let head = fleet.head().await.unwrap();
        if let Some(newest) = head.newest() {
            self.take(newest);
        }
        let report = self.report();
        self.note_truth(GateState::of(&report));
        if self.reporter.is_due(&report, now()) {
            let (id, at) = (self.reporter.id(), now());
            let written = fleet.report(id, &report, at).await;
            self.reporter.note(report, written, at).unwrap();
        }
    }

    fn take(&mut self, newest: &PolicyEntry) {
        if newest.version > 1 && !self.is_new {
            self.refused = Some(PolicyRefusal { policy: newest.id(), why: "1:1: unknown key".to_owned() });
        } else {
            (self.taken, self.refused) = (newest.id(), None);
        }
    }

    fn report(&self) -> GateReport {
        // Every tenth gate is cut off from one of the store's servers for a while.
        let is_up = self.host % 10 != 3 || !(second(60)..second(70)).contains(&now());
        let process = u32::try_from(self.at).unwrap();
        GateReport {
            host: format!("gate-{}.example", self.host),
            process,
            program: if self.is_new { "0.2.0" } else { "0.1.0" }.to_owned(),
            uptime: self.reporter.uptime(now()),
            policy: Some(self.taken.clone()),
            refused: self.refused.clone(),
            // Half of the earlier gates are of a version that knows none.
            details: (self.is_new || self.host % 2 == 1).then(|| details(now().as_nanos() % 1_000, is_up, 0)),
        }
    }

    fn note_truth(&self, state: GateState) {
        let states = &mut self.installation.truth.lock().unwrap()[self.at].states;
        if states.last().is_none_or(|(_, last)| *last != state) {
            states.push((now(), state));
        }
    }
}

/// Compares the list with what is true, until it is stopped. Counts its looks.
async fn observe(installation: Arc<Installation>, looks: Arc<Mutex<usize>>) {
    loop {
        let asked = now();
        let listed = installation.fleet.gates(asked).await.unwrap();
        compare(&installation, &listed, (asked, now()));
        *looks.lock().unwrap() += 1;
        sleep(Duration::from_millis(100)).await;
    }
}

fn compare(installation: &Installation, listed: &[ReportedGate], (asked, heard): (Time, Time)) {
    let truth = installation.truth.lock().unwrap();
    for gate in listed {
        let process = truth.iter().find(|process| process.id == gate.id).unwrap();
        assert_listed_truly(gate, process, (asked, heard));
    }
    let lost = *installation.lost.lock().unwrap();
    for process in truth.iter().filter(|process| process.is_running()) {
        let gate = listed.iter().find(|gate| gate.id == process.id);
        assert_heard(gate, process, asked, lost);
    }
}

fn assert_listed_truly(gate: &ReportedGate, process: &ProcessTruth, (asked, heard): (Time, Time)) {
    let said = GateState::of(&gate.report);
    let reported = asked.before(gate.age);
    // One that reported after the question has no age.
    let latest = if gate.age == Span::default() { heard } else { reported };
    let is_true = [reported, latest].map(|time| process.state_at(time) == Some(&said));
    assert!(is_true.contains(&true), "{gate:?} at {asked:?}: {process:?}");
    assert_eq!(gate.report.program == "0.2.0", process.is_new);
    match process.ended {
        Some((at, GateEnd::SignedOff)) => assert!(at > asked, "{gate:?} has ended: {process:?}"),
        Some((at, GateEnd::Killed)) => {
            assert!(heard.since(at) <= KILLED, "{gate:?} was killed: {process:?}");
            assert!(gate.age >= asked.since(at), "{gate:?} was killed and looks alive: {process:?}");
        }
        None => {}
    }
}

fn assert_heard(gate: Option<&ReportedGate>, process: &ProcessTruth, asked: Time, lost: Option<Time>) {
    let Some((since, present)) = process.states.last() else { return };
    let may_be_missing = lost.is_some_and(|lost| asked.since(lost) <= INTERVAL.plus(NEWS));
    if may_be_missing && gate.is_none() || asked.since(*since) <= NEWS {
        return;
    }
    let gate = gate.unwrap_or_else(|| panic!("it is not listed at {asked:?}: {process:?}"));
    assert_eq!(GateState::of(&gate.report), *present, "at {asked:?}: {process:?}");
    assert!(gate.age <= INTERVAL.plus(NEWS), "{gate:?} is silent");
}

#[tokio::test(start_paused = true)]
async fn in_a_rolling_change_of_fifty_gates_the_list_is_true_at_every_moment() {
    begin();
    let (installation, looks) = (Installation::new(), Arc::default());
    let observer = tokio::spawn(observe(Arc::clone(&installation), Arc::clone(&looks)));
    installation.push(1).await;
    let mut gates = Vec::new();
    for host in 0..GATES {
        gates.push(RunningProcess::start(&installation, host, false));
        sleep(Duration::from_millis(97)).await;
    }
    until(30).await;
    assert_eq!(installation.taken(1).await, (GATES, 0));
    until(90).await;
    // A gate pauses for 8 to 12 seconds. A few have news of their store, twice.
    let (won, lost) = installation.swaps_between(30, 90);
    assert!((200..=400).contains(&won) && lost <= won / 4, "{won} won, {lost} lost: 5 a second");

    let change = tokio::spawn(change(Arc::clone(&installation), gates));
    until(100).await;
    installation.push(2).await;
    until(106).await;
    let (taken, others) = installation.taken(2).await;
    assert!((10..25).contains(&taken) && others >= GATES - taken - 1, "{taken} and {others}");
    let (won, lost) = installation.swaps_between(100, 106);
    assert!(won <= 2 * GATES && lost <= 4 * GATES, "{won} won, {lost} lost: all gates have news at once");
    until(120).await;
    installation.lose_list();
    let gates = change.await.unwrap();
    until(150).await;
    // Some of the killed ones are still listed.
    assert_eq!(installation.taken(2).await.0, GATES);
    until(215).await;
    assert_eq!(installation.taken(2).await, (GATES, 0));
    assert!(!observer.is_finished() && *looks.lock().unwrap() > 1_500);
    observer.abort();
    drop(gates);
}

/// One gate after the other, in fifty seconds: most are ended, every tenth is killed.
async fn change(installation: Arc<Installation>, gates: Vec<RunningProcess>) -> Vec<RunningProcess> {
    let mut new = Vec::new();
    for (host, old) in gates.into_iter().enumerate() {
        if host % 10 == 9 {
            old.kill();
        } else {
            old.end().await;
        }
        // Their ticks meet no more often than those of machines that know nothing of each other.
        sleep(Duration::from_millis(250 + 97 * host as u64 % 500)).await;
        new.push(RunningProcess::start(&installation, host, true));
        until_after(90_000 + 1_000 * (host as u64 + 1)).await;
    }
    new
}

thread_local! {
    static BEGUN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

fn begin() {
    BEGUN.set(Some(Instant::now()));
}

/// The clock of all machines.
fn now() -> Time {
    let passed = BEGUN.get().unwrap().elapsed();
    START.after(Span::from_nanos(u64::try_from(passed.as_nanos()).unwrap()))
}

/// So many seconds after the beginning.
fn second(seconds: u64) -> Time {
    START.after(Span::from_secs(seconds))
}

async fn until(seconds: u64) {
    until_after(seconds * 1_000).await;
}

async fn until_after(millis: u64) {
    sleep_until(BEGUN.get().unwrap() + Duration::from_millis(millis)).await;
}

const GATES: usize = 50;
/// As `app/fleet.rs` has it.
const PERIOD: Duration = Duration::from_millis(500);
/// The longest pause between two reports.
const INTERVAL: Span = Span::from_secs(12);
/// For a gate that has news, while all others have some, too.
const NEWS: Span = Span::from_secs(6);
/// A minute, and a report of another gate that takes it out.
const KILLED: Span = Span::from_secs(65);
