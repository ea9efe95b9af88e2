//! Twelve gates over a Redis Cluster (four in the short run), with clients whom every gate sees: all gates are upgraded one
//! after the other and take another policy, one of them is told to ban a client, and a primary of the cluster is killed. No
//! request fails, and no client gets a token too many.
//!
//! `on_error = "deny"` shows each attempt that the store did not decide, as a 503. The time-out is longer than the cluster
//! takes to promote a replica: attempts wait for it, so that the promise of a limit stays exact.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::policy::{Desk, SECRET};
use crate::together::load::{Attempt, Load, LoadPlan, admitted, percentile, worst_excess};
use support::servers::found;
use support::servers::redis::{ClusterPlan, Member, RedisCluster};
use support::{Gate, Launch, Reply, Server, Upstream, binary, eventually, post};

#[test]
fn four_gates_fail_no_request_and_give_no_token_too_many_whatever_is_changed_under_them() {
    run(4);
}

#[test]
#[ignore = "a minute, for scripts/soak"]
fn twelve_gates_fail_no_request_and_give_no_token_too_many_whatever_is_changed_under_them() {
    run(12);
}

fn run(gates: usize) {
    let mut cluster = found(RedisCluster::NAME, RedisCluster::start_with(&PLAN));
    let desk = Desk::at(&cluster);
    let fleet = RollingFleet::start(&desk, &cluster.url(), gates);
    let load = fleet.load();
    std::thread::sleep(Duration::from_secs(1));

    let successors = Successors::upgrade(&fleet.gates);
    assert!(fleet.has_processes(&desk, &successors.0), "{:#?}", listed(&desk));
    eprintln!("| all upgraded after {:.1?} |", load.elapsed());

    desk.file("new.toml", &policy(&fleet.upstream, &export(gates)));
    let (code, out, err) = desk.policy(&["push", "--wait", "30s", "new.toml"]);
    assert!(code == 0 && out.contains(&format!("is in force at {gates} of {gates} gates: ")), "{out}{err}");
    let exports = fleet.gates.iter().flat_map(|gate| [(); 2].map(|()| gate.ask(post("/export", "")).status));
    let exports: Vec<u16> = exports.collect();
    assert_eq!(exports.iter().filter(|status| **status == 200).count(), gates, "{exports:?}");
    eprintln!("| all on the new policy after {:.1?} |", load.elapsed());

    tollgate(&fleet.gates[0], &["buckets", "ban", &BANNED.to_string(), "--for", "1h"]);
    fleet.assert_banned();

    let killed = load.elapsed();
    let first = &cluster.members()[..3];
    assert!(primaries(first) == 3, "no server was failed over before: this machine is too slow");
    cluster.kill_member(0);
    let dead = load.elapsed();
    assert!(eventually(PATIENCE, || primaries(cluster.members()) == 3), "a replica is promoted");
    let promoted = load.elapsed();
    assert!(eventually(PATIENCE, || follow_and_see_the_store(&desk, gates)), "{:#?}", listed(&desk));
    fleet.assert_banned();
    std::thread::sleep(Duration::from_secs(1));
    eprintln!(
        "| killed after {killed:.1?}, promoted after {promoted:.1?}, over after {:.1?} |",
        load.elapsed()
    );

    let attempts = load.stop();
    let excess = assert_kept(&attempts, killed, dead);
    let waited = attempts.iter().filter(|attempt| attempt.answered > killed && attempt.sent < promoted);
    let longest = percentile(waited, 100);
    eprintln!(
        "| {} attempts, {} refused, 0 failed, worst excess {excess:.1}, longest wait for the replica {longest:.1?} |",
        attempts.len(),
        attempts.iter().filter(|attempt| attempt.status == 429).count(),
    );
    assert!(longest > Duration::from_millis(500), "some had to wait for the replica");
    fleet.assert_counted(admitted(&attempts));
}

/// Gates that have their policy from a store, and the application behind them, which counts.
struct RollingFleet {
    gates: Vec<Gate>,
    upstream: Upstream,
    /// Attempts that reached the application.
    arrived: Arc<AtomicUsize>,
}

impl RollingFleet {
    fn start(desk: &Desk, url: &str, gates: usize) -> Self {
        let arrived = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&arrived);
        let upstream = Upstream::answering(move |bytes, _| {
            if bytes.starts_with(b"POST /login") {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Reply::ok()
        });
        desk.push(&policy(&upstream, ""));
        let file = format!(
            "policy = \"store\"\n[proxy]\nthreads = 1\n[store]\nurl = \"{url}\"\nsecret = \"{SECRET}\"\n\
             timeout = \"10s\"\non_error = \"deny\"\n"
        );
        let gates = (0..gates).map(|_| Launch::new(&file).start()).collect();
        Self { gates, upstream, arrived }
    }

    fn load(&self) -> Load {
        let addresses = self.gates.iter().map(|gate| gate.address).collect();
        let pause = PAUSE * u32::try_from(self.gates.len()).unwrap();
        Load::start(addresses, LoadPlan { connections: KEYS, keys: KEYS, pause })
    }

    /// Whether these and no others report to the store, soon.
    fn has_processes(&self, desk: &Desk, expected: &[u32]) -> bool {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        eventually(PATIENCE, || {
            let listed = listed(desk);
            let numbers = listed.iter().filter_map(|gate| u32::try_from(gate["process"].as_u64()?).ok());
            let mut numbers: Vec<u32> = numbers.collect();
            numbers.sort_unstable();
            numbers == expected
        })
    }

    /// At every gate, within the second that is promised, and more for a busy machine.
    fn assert_banned(&self) {
        let is_refused = |gate: &Gate| {
            let mut client = gate.connect_from(BANNED);
            client.send(post("/login", ""));
            let status = client.answer().status;
            assert!(status == 200 || status == 429, "{status}");
            if status == 200 {
                self.arrived.fetch_sub(1, Ordering::Relaxed);
            }
            status == 429
        };
        for gate in &self.gates {
            assert!(eventually(Duration::from_secs(5), || is_refused(gate)), "{}", gate.messages());
        }
    }

    /// What the clients got is what the application saw, and none were decided without the store.
    fn assert_counted(&self, admitted: usize) {
        assert_eq!(self.arrived.load(Ordering::Relaxed), admitted);
        let undecided = |gate: &Gate| gate.metric("tollgate_store_fallbacks_total", "");
        assert_eq!(self.gates.iter().map(undecided).sum::<f64>(), 0.0);
        for gate in &self.gates {
            assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0, "{}", gate.messages());
        }
    }
}

/// The processes that have taken over, which nobody else ends.
struct Successors(Vec<u32>);

impl Successors {
    /// One gate after the other.
    fn upgrade(gates: &[Gate]) -> Self {
        let mut successors = Self(Vec::new());
        for gate in gates {
            gate.signal("USR2");
            let mut process = None;
            let has_taken_over = || {
                process = successor(&gate.messages());
                process.is_some()
            };
            assert!(eventually(PATIENCE, has_taken_over), "{}", gate.messages());
            successors.0.extend(process);
        }
        successors
    }
}

impl Drop for Successors {
    fn drop(&mut self) {
        for process in &self.0 {
            support::signal(*process, "KILL");
        }
    }
}

/// As in `process 4711 has taken over`.
fn successor(messages: &str) -> Option<u32> {
    let line = messages.lines().find(|line| line.contains("has taken over"))?;
    line.split("process ").nth(1)?.split(' ').next()?.parse().ok()
}

fn policy(upstream: &Upstream, more: &str) -> String {
    let limit = format!("[limit.address]\nrate = \"{RATE}/s burst {BURST}\"\nroutes = \"login\"\n");
    upstream.file(&format!("[route.login]\nmatch = \"POST /login\"\n{limit}{more}"))
}

/// A route that only the second policy counts: of two attempts at each gate, one has a token.
fn export(gates: usize) -> String {
    format!(
        "[route.export]\nmatch = \"POST /export\"\n\
         [limit.export]\nrate = \"{gates} per 1h\"\nkey = \"all\"\nroutes = \"export\"\n"
    )
}

fn tollgate(gate: &Gate, words: &[&str]) {
    let output =
        Command::new(binary()).args(words).arg("--socket").arg(gate.admin_socket()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Nothing while the store does not answer.
fn listed(desk: &Desk) -> Vec<Value> {
    let (_, out, _) = desk.run(&["fleet", "--format", "json"]);
    let fleet: Value = serde_json::from_str(&out).unwrap_or_default();
    fleet["gates"].as_array().cloned().unwrap_or_default()
}

/// All of them took the newest policy, and use all servers of the store.
fn follow_and_see_the_store(desk: &Desk, gates: usize) -> bool {
    let listed = listed(desk);
    let is_well = |gate: &Value| gate["newest"] == "taken" && gate["store"]["up"] == true;
    listed.len() == gates && listed.iter().all(is_well)
}

fn primaries(members: &[Member]) -> usize {
    members.iter().filter(|member| member.cli(&["ROLE"]).starts_with("master")).count()
}

/// Returns by how much the worst of the clients is over the promise.
fn assert_kept(attempts: &[Attempt], killed: Duration, dead: Duration) -> f64 {
    let failed: Vec<&Attempt> =
        attempts.iter().filter(|attempt| !matches!(attempt.status, 200 | 429)).collect();
    assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), &failed[..failed.len().min(5)]);
    let mut worst = f64::MIN;
    for key in 0..KEYS {
        let of_key = attempts.iter().filter(|attempt| attempt.key == key);
        let excess = worst_excess(of_key.clone(), BURST, RATE);
        // What the killed server confirmed last it may not have passed on: the documents promise no more.
        let confirmed_last = |attempt: &&Attempt| {
            attempt.status == 200 && attempt.sent <= dead && attempt.answered + LAG >= killed
        };
        let forgotten = of_key.filter(confirmed_last).count() as f64;
        assert!(excess <= forgotten, "{excess} tokens too many for client {key}, {forgotten} confirmed last");
        worst = worst.max(excess);
    }
    worst
}

/// Clients. Enough that each of three servers has the buckets of some.
const KEYS: usize = 20;
/// For every gate: of each client they see 30 attempts a second.
const PAUSE: Duration = Duration::from_millis(33);
/// A second.
const RATE: f64 = 10.0;
const BURST: f64 = 10.0;
/// Not one of [`KEYS`].
const BANNED: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 200);
/// By default a cluster takes no key at all until the replica is promoted.
const PLAN: ClusterPlan<'static> =
    ClusterPlan { replicas: 1, arguments: &["--cluster-node-timeout", "2000"], is_tls: false, first: &[] };
/// How long a server may take to pass on to its replica what it has confirmed.
const LAG: Duration = Duration::from_millis(20);
/// For what servers and gates have to do first, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
