//! What an operator says of one bucket holds on all gates within a second, however busy the bucket is: two gates under load,
//! with leases where they take any.

use std::process::Command;
use std::time::Duration;

use crate::together::load::{Attempt, Load, LoadPlan};
use crate::{table, two_gates};
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Gate, Launch, Server, Upstream, binary, eventually, mount, post};

mount!(redis, super::Redis, words:
    a_word_about_a_busy_bucket_holds_on_all_gates_within_a_second
    a_ban_is_as_long_as_was_said_whatever_comes_back
    words_outlive_the_gates_that_heard_them);
mount!(memcached, super::Memcached, words:
    a_ban_or_a_rate_of_a_busy_bucket_holds_on_all_gates_within_a_second
    a_ban_is_as_long_as_was_said_whatever_comes_back
    words_outlive_the_gates_that_heard_them);
mount!(postgres, super::Postgres, words:
    a_ban_or_a_rate_of_a_busy_bucket_holds_on_all_gates_within_a_second
    words_outlive_the_gates_that_heard_them);
mount!(mariadb, super::MariaDb, words:
    a_ban_or_a_rate_of_a_busy_bucket_holds_on_all_gates_within_a_second
    words_outlive_the_gates_that_heard_them);
mount!(dynamodb, super::Dynalite, words:
    a_ban_or_a_rate_of_a_busy_bucket_holds_on_all_gates_within_a_second
    words_outlive_the_gates_that_heard_them);

use self::Passes::{Everybody, Nobody};

/// A second is promised.
const SOON: Duration = Duration::from_secs(1);
/// So many attempts are watched after it.
const WATCHED: usize = 100;
/// Until so many are made, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A limit that is large and slow enough for leases; all clients share its bucket.
const HOURLY: &str = "10000 per 1h";

fn file(upstream: &Upstream, rate: &str) -> String {
    upstream.file(&format!(
        "[route.login]\nmatch = \"POST /login\"\n[limit.crowd]\nkey = \"all\"\nrate = \"{rate}\"\n"
    ))
}

/// What the command says, which has to work.
pub(crate) fn tollgate(gate: &Gate, words: &[&str]) -> String {
    let output =
        Command::new(binary()).args(words).arg("--socket").arg(gate.admin_socket()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn login(gate: &Gate) -> u16 {
    gate.ask(post("/login", "")).status
}

/// Clients at both gates, all the time.
struct Busy {
    load: Load,
    /// What was said, and when it has to hold and for how long it is watched.
    said: Vec<(String, Duration, Duration)>,
}

impl Busy {
    fn at(gates: &[Gate]) -> Self {
        let addresses = gates.iter().map(|gate| gate.address).collect();
        let plan = LoadPlan { connections: 4, keys: 4, pause: Duration::from_millis(10) };
        Self { load: Load::start(addresses, plan), said: Vec::new() }
    }

    /// Has an operator say this at a gate, and goes on until it was seen to hold. A gate looks at a leased bucket by its clock and by
    /// a request to the store. Where the machine is late with answers and commands, it is late with that as well.
    fn say(&mut self, gate: &Gate, words: &str) {
        self.load.forget_slowest();
        let begun = self.load.elapsed();
        tollgate(gate, &words.split('|').collect::<Vec<_>>());
        let said = self.load.elapsed();
        let holds_from = || said + SOON + (said - begun) + 2 * self.load.slowest();
        while self.load.elapsed() < holds_from() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let (from, before) = (self.load.elapsed(), self.load.answered());
        let is_watched = || self.load.answered() >= before + WATCHED;
        assert!(eventually(PATIENCE, is_watched), "{words}: {}", self.load.answered() - before);
        self.said.push((words.to_owned(), from, self.load.elapsed()));
    }

    /// For each word: how many attempts were made when it had to hold, and how many of them were admitted, at each gate.
    fn stop(self) -> Vec<(String, usize, [usize; 2])> {
        let attempts = self.load.stop();
        let during = |(words, from, to): (String, Duration, Duration)| {
            let is_in = |attempt: &&Attempt| attempt.sent >= from && attempt.answered < to;
            let all: Vec<_> = attempts.iter().filter(is_in).collect();
            let admitted = |gate| all.iter().filter(|it| it.gate == gate && it.status == 200).count();
            (words, all.len(), [admitted(0), admitted(1)])
        };
        self.said.into_iter().map(during).collect()
    }
}

fn a_word_about_a_busy_bucket_holds_on_all_gates_within_a_second(server: impl Server) {
    // The bucket is full when its ban or exemption ends.
    holds_on_all_gates(
        &server,
        &[
            (0, "buckets|ban|all:crowd|--for|1h", Nobody),
            (1, "buckets|ban|all:crowd|--end", Everybody),
            (1, "buckets|rate|all:crowd|crowd|1 per 1h|--for|1h", Nobody),
            (0, "buckets|credit|all:crowd|1", Nobody),
            (0, "mode|observe|--for|1h", Everybody),
            (1, "mode|enforce|--for|1h", Nobody),
            (0, "buckets|exempt|all:crowd|--for|1h", Everybody),
            (0, "buckets|exempt|all:crowd|--end", Everybody),
            (1, "buckets|ban|all:crowd|--for|1h", Nobody),
        ],
    );
}

fn a_ban_or_a_rate_of_a_busy_bucket_holds_on_all_gates_within_a_second(server: impl Server) {
    holds_on_all_gates(
        &server,
        &[
            (1, "buckets|rate|all:crowd|crowd|1 per 1h|--for|1h", Nobody),
            (1, "buckets|exempt|all:crowd|--for|1h", Everybody),
            (0, "buckets|ban|all:crowd|--for|1h", Nobody),
        ],
    );
}

/// Who passes when a word has to hold: of a rate of one an hour the only one has passed by then.
#[derive(Clone, Copy, PartialEq)]
enum Passes {
    Everybody,
    Nobody,
}

/// Says the last of these at the end; it has to be a ban of an hour.
fn holds_on_all_gates(server: &impl Server, said: &[(usize, &str, Passes)]) {
    let upstream = Upstream::start();
    let gates = two_gates(server, &file(&upstream, HOURLY));
    let mut busy = Busy::at(&gates);
    std::thread::sleep(Duration::from_millis(800));
    said.iter().for_each(|(gate, words, _)| busy.say(&gates[*gate], words));
    let seen = busy.stop();
    for ((_, words, passes), (_, attempts, admitted)) in said.iter().zip(&seen) {
        assert!(*attempts > 50, "{words}: {attempts}");
        let expected = if *passes == Everybody { *attempts } else { 0 };
        assert_eq!(admitted.iter().sum::<usize>(), expected, "{words}: {admitted:?}; all: {seen:?}");
    }
    let refused = gates[1].ask(post("/login", ""));
    assert!((3_500..=3_600).contains(&refused.retry_after()), "{}", refused.retry_after());
}

/// Leases that end idle, and attempts that end with a success after the ban, once made an hour fifty minutes.
fn a_ban_is_as_long_as_was_said_whatever_comes_back(server: impl Server) {
    let upstream = Upstream::answering(|_, _| {
        std::thread::sleep(Duration::from_millis(700));
        support::Reply::ok()
    });
    let file = file(&upstream, HOURLY).replace("key = \"all\"", "key = \"all\"\ncount = \"failures\"");
    let gates = two_gates(&server, &file);
    let busy = Busy::at(&gates);
    std::thread::sleep(Duration::from_millis(1_500));
    tollgate(&gates[0], &["buckets", "ban", "all:crowd", "--for", "1h"]);
    drop(busy.load.stop());
    // Longer than a lease outlives the last attempt.
    std::thread::sleep(Duration::from_millis(1_600));
    for gate in &gates {
        let refused = gate.ask(post("/login", ""));
        assert!((3_590..=3_600).contains(&refused.retry_after()), "{}", refused.retry_after());
    }
}

fn words_outlive_the_gates_that_heard_them(server: impl Server) {
    let upstream = Upstream::start();
    let [one, other] = two_gates(&server, &file(&upstream, "2 per 1h"));
    tollgate(&one, &["buckets", "ban", "all:crowd", "--for", "1h"]);
    drop((one, other));
    let again = || Launch::new(&format!("{}{}", file(&upstream, "2 per 1h"), table(&server))).start();
    let gate = again();
    assert_eq!(login(&gate), 429);
    tollgate(&gate, &["buckets", "exempt", "all:crowd", "--for", "1h"]);
    drop(gate);
    let gate = again();
    assert_eq!((0..5).map(|_| login(&gate)).collect::<Vec<_>>(), [200; 5]);
}

/// M10: a gate hands out no lease of its own bucket behind an operator.
#[test]
fn a_word_about_a_busy_bucket_of_one_gate_holds_at_once() {
    let upstream = Upstream::start();
    let gates = [Gate::start(&file(&upstream, HOURLY))];
    let mut busy = Busy::at(&gates);
    busy.say(&gates[0], "buckets|ban|all:crowd|--for|1h");
    let seen = busy.stop();
    assert!(seen[0].1 > 50 && seen[0].2 == [0, 0], "{seen:?}");
}
