//! Gates report to their store which policy they have: a push waits for them and says who took it, and `tollgate fleet`
//! lists them.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::policy::{Desk, follower, policy};
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcacheds;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::{Redis, RedisCluster};
use support::{Gate, Launch, Server, Upstream, eventually, mount, started};

mount!(redis, super::Redis, fleet: a_push_and_the_list_name_the_gates_of_the_store);
mount!(redis_cluster, super::RedisCluster, fleet: a_push_and_the_list_name_the_gates_of_the_store);
mount!(memcached, super::Memcacheds, fleet: a_push_and_the_list_name_the_gates_of_the_store);
mount!(postgres, super::Postgres, fleet: a_push_and_the_list_name_the_gates_of_the_store);
mount!(mariadb, super::MariaDb, fleet: a_push_and_the_list_name_the_gates_of_the_store);
mount!(dynamodb, super::Dynalite, fleet: a_push_and_the_list_name_the_gates_of_the_store);

/// A gate asks its store every half a second, and reports then; a busy machine takes longer.
const SOON: Duration = Duration::from_secs(4);

/// As the list names a gate on a machine with several.
fn name(gate: &Gate) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("{}/{}", host.trim(), gate.process_id())
}

/// The names of gates as a list has them.
fn names(gates: &[&Gate]) -> String {
    let mut names: Vec<String> = gates.iter().map(|gate| name(gate)).collect();
    names.sort();
    names.join(", ")
}

fn listed(desk: &Desk) -> Vec<Value> {
    let (_, out, err) = desk.run(&["fleet", "--format", "json"]);
    let fleet: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    fleet["gates"].as_array().unwrap().clone()
}

fn lists(desk: &Desk, count: usize) -> bool {
    eventually(SOON, || listed(desk).len() == count)
}

/// A policy that needs a file at the gates.
fn with_list(upstream: &Upstream) -> String {
    format!("{}exempt = [\"office\"]\n[networks]\noffice = [\"@list.txt\"]\n", policy(upstream, "2 per 1h"))
}

fn a_push_and_the_list_name_the_gates_of_the_store(server: impl Server) {
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    assert_eq!(desk.run(&["fleet"]), (0, "no gate has reported to the store\n".to_owned(), String::new()));
    desk.file("new.toml", &policy(&upstream, "1 per 1h"));
    let (code, out, err) = desk.policy(&["push", "new.toml"]);
    let none = "no gate that follows the store has reported: gates take policy 1 when they start\n";
    assert!(code == 0 && out.ends_with(none), "{out}{err}");

    let (one, mut two) = (follower(&desk).start(), follower(&desk).start());
    let store = format!("[store]\nurl = \"{}\"\nsecret = \"{}\"\n", server.url(), crate::policy::SECRET);
    let alone = Launch::new(&format!("{}{store}", policy(&upstream, "9 per 1h"))).start();
    assert!(lists(&desk, 3), "{}{}", one.messages(), alone.messages());
    desk.file("new.toml", &policy(&upstream, "2 per 1h"));
    let (code, out, err) = desk.policy(&["push", "new.toml"]);
    let taken = format!("policy 2 is in force at 2 of 2 gates: {}\n", names(&[&one, &two]));
    assert!(code == 0 && out.ends_with(&taken) && err.is_empty(), "{out}{err}");
    let (code, out, err) = desk.policy(&["rollback"]);
    assert!(code == 0 && out.contains("policy 3 is in force at 2 of 2 gates: "), "{out}{err}");

    let (code, out, err) = desk.run(&["fleet"]);
    assert_eq!(code, 0, "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    let expected = ["GATE", "VERSION", "UPTIME", "POLICY", "HASH", "BUCKETS", "STORE", "TRIPS", "HEARD"];
    assert_eq!(words, expected, "{out}");
    let newest = lines[4].strip_prefix("the newest policy is 3 (").unwrap_or_else(|| panic!("{out}"));
    let (hash, rest) = newest.split_once(')').unwrap();
    assert_eq!(rest, ", in force at 2 of 2 gates that follow");
    assert_eq!(lines[1..4].iter().filter(|line| line.contains(&format!("  {hash}  "))).count(), 2, "{out}");
    assert_eq!(lines[5..], [format!("not following: {}", name(&alone))], "{out}");
    let policies = [&one, &two, &alone].map(|gate| {
        let of_gate = |listed: &Value| listed["process"] == gate.process_id();
        listed(&desk).into_iter().find(of_gate).unwrap()["policy"]["version"].clone()
    });
    assert_eq!(policies, [3.into(), 3.into(), Value::Null]);
    for gate in listed(&desk) {
        assert!(gate["buckets"].is_u64() && gate["store"]["up"].is_boolean(), "{gate}");
    }
    two.signal("TERM");
    assert!(two.exit_status(Duration::from_secs(10)).is_some());
    assert_eq!(listed(&desk).len(), 2, "a gate that ends takes itself out");
}

#[test]
fn a_push_fails_where_a_gate_cannot_take_the_policy_and_says_why() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let good = follower(&desk).beside("list.txt", "203.0.113.0/24\n").start();
    let bad = follower(&desk).start();
    assert!(lists(&desk, 2));
    desk.file("list.txt", "203.0.113.0/24\n");
    desk.file("new.toml", &with_list(&upstream));
    let (code, out, err) = desk.policy(&["push", "new.toml"]);
    assert!(code == 1 && out.ends_with(&format!("at 1 of 2 gates: {}\n", name(&good))), "{out}{err}");
    let refusal = format!("{} refuses policy 2: policy 2:", name(&bad));
    assert!(err.starts_with(&refusal) && err.contains("list.txt"), "{err}");
    // It is the same to every look: at the list, and at another push of it.
    let (code, out, err) = desk.run(&["fleet"]);
    assert!(code == 1 && out.contains("  1, refuses 2  ") && out.contains(&refusal), "{out}{err}");
    let (code, out, err) = desk.policy(&["push", "new.toml"]);
    assert!(code == 1 && out.contains("nothing to change") && err.starts_with(&refusal), "{out}{err}");

    let mut good = good;
    good.signal("TERM");
    assert!(good.exit_status(Duration::from_secs(10)).is_some());
    let (code, out, err) = desk.policy(&["push", "new.toml"]);
    assert!(code == 1 && err.starts_with("policy 2 is in force at none of 1 gates\n"), "{out}{err}");
    std::fs::write(bad.directory.join("list.txt"), "203.0.113.0/24\n").unwrap();
    bad.signal("HUP");
    assert!(eventually(SOON, || desk.run(&["fleet"]).0 == 0), "{}", bad.messages());
}

#[test]
fn a_gate_that_was_killed_is_waited_for_no_longer_than_the_limit_and_named() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let (one, killed) = (follower(&desk).start(), follower(&desk).start());
    assert!(lists(&desk, 2));
    killed.signal("KILL");
    desk.file("new.toml", &policy(&upstream, "2 per 1h"));
    let begun = Instant::now();
    let (code, out, err) = desk.policy(&["push", "--wait", "2s", "new.toml"]);
    let took = begun.elapsed();
    assert!(code == 1 && out.ends_with(&format!("at 1 of 2 gates: {}\n", name(&one))), "{out}{err}");
    assert!(err.starts_with(&format!("{} has not answered within 2s; it last", name(&killed))), "{err}");
    assert!((Duration::from_secs(2)..Duration::from_secs(6)).contains(&took), "{took:?}");
    desk.file("new.toml", &policy(&upstream, "3 per 1h"));
    let (code, out, err) = desk.policy(&["push", "--no-wait", "new.toml"]);
    assert!(code == 0 && out.lines().count() == 1, "{out}{err}");
}

#[test]
fn gates_report_again_to_a_store_that_lost_the_list_and_tell_that_it_tripped() {
    let mut server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gates = [(); 2].map(|()| follower(&desk).environment("TOLLGATE_STORE__TIMEOUT", "200ms").start());
    assert!(lists(&desk, 2));
    server.pause();
    let is_down = |gate: &Gate| gate.metric("tollgate_store_up", "") == 0.0;
    assert!(eventually(Duration::from_secs(20), || gates.iter().all(is_down)));
    server.resume();
    server.cli(&["FLUSHALL"]);
    let has_tripped = |gate: &Value| {
        let store = &gate["store"];
        store["up"] == true && store["trips"].as_u64() > Some(0) && store["since_trip"].is_u64()
    };
    let all_tell = || {
        let listed = listed(&desk);
        listed.len() == 2 && listed.iter().all(has_tripped)
    };
    let interval = Duration::from_secs(20);
    assert!(eventually(interval, all_tell), "each with its next report: {:#?}", listed(&desk));
    let (_, out, _) = desk.run(&["fleet"]);
    assert_eq!(out.lines().filter(|line| line.contains(", last ")).count(), 2, "{out}");
}

/// The old process would be waited for, and follows no more.
#[test]
fn after_an_upgrade_only_the_new_process_is_in_the_list() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gate = follower(&desk).start();
    assert!(lists(&desk, 1));
    gate.signal("USR2");
    let processes =
        || -> Vec<u64> { listed(&desk).iter().filter_map(|gate| gate["process"].as_u64()).collect() };
    let mut new = Vec::new();
    let is_over = || {
        new = processes();
        new.len() == 1 && new[0] != u64::from(gate.process_id())
    };
    assert!(eventually(Duration::from_secs(10), is_over), "{}", gate.messages());
    desk.push(&policy(&upstream, "2 per 1h"));
    assert!(support::signal(u32::try_from(new[0]).unwrap(), "KILL"));
}

/// As in a change of a whole installation: all gates swap the same record at the same moment.
#[test]
fn a_push_to_twelve_gates_names_all_of_them() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    desk.push(&policy(&upstream, "1 per 1h"));
    let gates: Vec<Gate> = (0..12).map(|_| follower(&desk).start()).collect();
    assert!(lists(&desk, 12));
    desk.file("new.toml", &policy(&upstream, "2 per 1h"));
    let begun = Instant::now();
    let (code, out, err) = desk.policy(&["push", "new.toml"]);
    let took = begun.elapsed();
    let all = names(&gates.iter().collect::<Vec<_>>());
    assert!(code == 0 && out.ends_with(&format!("at 12 of 12 gates: {all}\n")), "{out}{err}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}
