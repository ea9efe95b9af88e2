//! What becomes of a store of several servers when one of them goes, changes its part or takes no writes any more; two
//! real gates under load, with `on_error = "deny"`, so that 503 shows each attempt that the store did not decide.
//!
//! The figures of a run are printed: over-admission, the time from the moment at which the store could write again to
//! the last 503, and the lines that a gate wrote about the store.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::together::fleet::{Fleet, Plan};
use crate::together::load::{Attempt, Load, LoadPlan, worst_excess};
use support::servers::found;
use support::servers::memcached::Memcacheds;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::{ClusterPlan, Member, Redis, RedisCluster, RedisWithSentinel, clock_ahead};
use support::servers::sql::Tables as _;
use support::{Server, eventually, started};

/// G8: the memory is full.
#[test]
fn a_full_redis_is_down_until_it_takes_writes_and_told_once() {
    let server = started::<Redis>();
    takes_no_writes(&server, ["maxmemory", "1"], ["maxmemory", "0"]);
}

/// G8: `NOREPLICAS`.
#[test]
fn a_redis_without_its_replicas_is_down_until_it_takes_writes_and_told_once() {
    let server = started::<Redis>();
    takes_no_writes(&server, ["min-replicas-to-write", "1"], ["min-replicas-to-write", "0"]);
}

fn takes_no_writes(server: &Redis, bad: [&str; 2], good: [&str; 2]) {
    let run = Run::start(server.url());
    let set = |setting: [&str; 2]| assert_eq!(server.cli(&["CONFIG", "SET", setting[0], setting[1]]), "OK");
    set(bad);
    assert!(eventually(PATIENCE, || run.are_up() == 0), "it is told that nothing can be written");
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(run.are_up(), 0, "it answers and takes no writes");
    }
    set(good);
    run.finish("takes no writes", 0.0).assert_told_once();
}

/// The old primary becomes read-only, and its replica the writer.
#[test]
fn a_switch_over_of_mariadb_is_followed() {
    let pair = found(MariaDb::NAME, MariaDb::pair());
    let run = Run::start(MariaDb::url_of_pair(&pair));
    let [old, new] = &pair;
    old.sql("SET GLOBAL read_only = 1");
    assert!(eventually(PATIENCE, || run.are_up() == 0), "the old primary takes no writes");
    new.sql("SET GLOBAL read_only = 0");
    run.finish("MariaDB switch-over", BURST).assert_told_once();
}

#[test]
fn a_standby_of_postgresql_that_is_promoted_takes_over() {
    let mut primary = started::<Postgres>();
    let standby = primary.standby().unwrap();
    let both = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url = primary.url().replace(&format!("127.0.0.1:{}", primary.port()), &both);
    let run = Run::start_with(url, "250ms");
    primary.kill();
    assert!(eventually(PATIENCE, || run.are_up() == 0), "the primary is gone");
    standby.sql("SELECT pg_promote()");
    run.finish("PostgreSQL failover", BURST).assert_told_once();
}

#[test]
fn a_switch_by_sentinel_is_followed() {
    let mut servers = RedisWithSentinel::start().unwrap();
    let run = Run::start(servers.url());
    servers.primary.kill();
    let is_primary =
        || servers.replica.says("replication").contains("role:master") && servers.names_replica();
    assert!(eventually(PATIENCE, is_primary), "it is promoted");
    run.finish("Sentinel switch", BURST).assert_told_once();
}

/// Keys of the others never notice.
#[test]
fn one_dead_primary_of_three_takes_its_own_keys_and_no_others() {
    let plan = ClusterPlan {
        arguments: &["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000"],
        ..ClusterPlan::default()
    };
    let mut cluster = cluster(&plan);
    let run = Run::start(cluster.url());
    cluster.kill_member(0);
    std::thread::sleep(Duration::from_secs(3));
    let up = run.fleet.total("tollgate_store_server_up", "");
    cluster.start_member(0);
    let figures = run.finish("one dead primary of three", BURST);
    assert_eq!(up, 4, "two of three at each of two gates");
    figures.assert_confined();
    figures.assert_told_once();
}

#[test]
fn a_replica_of_a_cluster_that_is_promoted_takes_over() {
    let plan = ClusterPlan {
        replicas: 1,
        arguments: &["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "500"],
        ..ClusterPlan::default()
    };
    let mut cluster = cluster(&plan);
    let run = Run::start(cluster.url());
    cluster.kill_member(0);
    let primaries = |members: &[Member]| {
        members.iter().filter(|member| member.cli(&["ROLE"]).starts_with("master")).count()
    };
    assert!(eventually(PATIENCE, || primaries(cluster.members()) == 3), "a replica is promoted");
    let figures = run.finish("cluster failover", BURST);
    figures.assert_confined();
    figures.assert_told_once();
}

/// MOVED and ASK.
#[test]
fn slots_that_move_under_load_fail_no_attempt() {
    let cluster = cluster(&ClusterPlan::default());
    let run = Run::start_with(cluster.url(), "2s");
    let [from, to, _] = cluster.members() else { panic!("three servers") };
    let (giver, taker) = (from.cli(&["CLUSTER", "MYID"]), to.cli(&["CLUSTER", "MYID"]));
    let address = format!("127.0.0.1:{}", from.port());
    let arguments = ["--cluster", "reshard", &address, "--cluster-from", &giver, "--cluster-to", &taker];
    let said = from.cli(&[&arguments[..], &["--cluster-slots", "2000", "--cluster-yes"]].concat());
    assert!(said.contains("Moving slot"), "{said}");
    let figures = run.finish("2000 slots moved", 0.0);
    assert_eq!(figures.denied(), 0, "every attempt was decided by the store");
}

/// One clock offset for all servers admitted 410 of 140 tokens, and warned 65 times a second.
#[test]
fn servers_of_a_cluster_whose_clocks_are_six_seconds_apart_admit_not_one_more() {
    let first = found("a C compiler", clock_ahead(6));
    let plan = ClusterPlan { first: &first, ..ClusterPlan::default() };
    let cluster = cluster(&plan);
    let run = Run::start_with(cluster.url(), "2s");
    std::thread::sleep(Duration::from_secs(3));
    let figures = run.finish("clocks six seconds apart", 0.0);
    assert_eq!(figures.denied(), 0);
    assert!(figures.lines.len() <= 2, "{:#?}", figures.lines);
}

#[test]
fn one_memcached_of_three_takes_its_own_keys_and_no_others() {
    let mut servers = started::<Memcacheds>();
    let run = Run::start(servers.url());
    servers.nodes()[1].kill();
    std::thread::sleep(Duration::from_secs(2));
    servers.nodes()[1].run().unwrap();
    let figures = run.finish("one memcached of three", BURST);
    figures.assert_confined();
    figures.assert_told_once();
}

fn cluster(plan: &ClusterPlan<'_>) -> RedisCluster {
    found(RedisCluster::NAME, RedisCluster::start_with(plan))
}

/// Two gates under load.
struct Run {
    fleet: Fleet,
    load: Load,
}

impl Run {
    fn start(url: String) -> Self {
        Self::start_with(url, "100ms")
    }

    /// Begins with a second in which nothing happens.
    fn start_with(url: String, timeout: &str) -> Self {
        let limit = format!("rate = \"{RATE}/s burst {BURST}\"");
        let environments = vec![Vec::new(); GATES];
        let fleet = Plan { manner: (timeout, "deny"), environments, ..Plan::patient(url, &limit) }.start();
        let plan = LoadPlan { connections: KEYS, keys: KEYS, pause: PAUSE };
        let load = Load::start(fleet.addresses(), plan);
        std::thread::sleep(Duration::from_secs(1));
        Self { fleet, load }
    }

    /// The sum of `tollgate_store_up`.
    fn are_up(&self) -> u64 {
        self.fleet.total("tollgate_store_up", "")
    }

    /// From now on the store can write: waits until all gates use it, and a second longer. `lost` is the number of tokens
    /// that a server may have forgotten.
    fn finish(self, name: &str, lost: f64) -> Figures {
        let Self { fleet, load } = self;
        let ready = load.elapsed();
        let is_up = || fleet.total("tollgate_store_up", "") == GATES as u64;
        assert!(eventually(Duration::from_secs(30), is_up), "the store is used again");
        let back = load.elapsed().saturating_sub(ready);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(fleet.total("tollgate_panics_total", ""), 0);
        let is_about_store = |line: &&str| line.contains("store ") && line.contains("available");
        let lines = fleet.gates.iter().map(|gate| {
            let messages = gate.messages();
            messages.lines().filter(is_about_store).map(str::to_owned).collect::<Vec<_>>()
        });
        let lines = lines.max_by_key(Vec::len).unwrap();
        let figures = Figures { attempts: load.stop(), ready, back, lines };
        figures.print(name);
        assert!(figures.excess() <= lost, "{} tokens too many", figures.excess());
        figures
    }
}

struct Figures {
    attempts: Vec<Attempt>,
    /// When the store could write again, and how long it took until all gates used it.
    ready: Duration,
    back: Duration,
    /// What a gate wrote about the store.
    lines: Vec<String>,
}

impl Figures {
    fn excess(&self) -> f64 {
        let of_key = |key| self.attempts.iter().filter(move |attempt| attempt.key == key);
        (0..KEYS).map(|key| worst_excess(of_key(key), BURST, RATE)).fold(f64::MIN, f64::max)
    }

    fn is_denied(attempt: &&Attempt) -> bool {
        !matches!(attempt.status, 200 | 429)
    }

    fn denied(&self) -> usize {
        self.attempts.iter().filter(Self::is_denied).count()
    }

    fn print(&self, name: &str) {
        let (count, denied, excess) = (self.attempts.len(), self.denied(), self.excess());
        let last = self.attempts.iter().filter(Self::is_denied).map(|attempt| attempt.answered).max();
        let recovery = last.unwrap_or_default().saturating_sub(self.ready);
        eprintln!(
            "| {name} | {count} attempts | {denied} denied | excess {excess:.1} | back after {:.2?}, last 503 after \
             {recovery:.2?} | {} lines |",
            self.back,
            self.lines.len()
        );
    }

    /// Each outage and its end are one line at each gate.
    fn assert_told_once(&self) {
        assert!(self.denied() > 0, "it was an outage");
        assert!(self.lines.len() <= 2, "{:#?}", self.lines);
    }

    /// Some keys were denied again and again, and all others never.
    fn assert_confined(&self) {
        let keys: BTreeSet<usize> =
            self.attempts.iter().filter(Self::is_denied).map(|attempt| attempt.key).collect();
        assert!((1..KEYS).contains(&keys.len()), "{keys:?} of {KEYS} keys were denied");
    }
}

const GATES: usize = 2;
/// Enough that each of three servers has some.
const KEYS: usize = 30;
/// Twice as many attempts as tokens.
const PAUSE: Duration = Duration::from_millis(50);
const RATE: f64 = 20.0;
const BURST: f64 = 10.0;
/// For what a server has to do first.
const PATIENCE: Duration = Duration::from_secs(30);
