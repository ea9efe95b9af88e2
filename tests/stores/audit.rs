//! The audit of gates that share a store: one list of all changes, which outlives gates and shows what their files have lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::policy::{Desk, SECRET, policy};
use support::servers::memcached::Memcacheds;
use support::servers::mysql::MariaDb;
use support::servers::redis::Redis;
use support::{Gate, Launch, Server, Upstream, binary, eventually, mount, started};

mount!(redis, super::Redis, audit: changes_at_two_gates_are_one_list_that_outlives_them);
mount!(memcached, super::Memcacheds, audit: changes_at_two_gates_are_one_list_that_outlives_them);
mount!(mariadb, super::MariaDb, audit: changes_at_two_gates_are_one_list_that_outlives_them);

/// A line is in the store within a second; a busy machine takes longer.
const SOON: Duration = Duration::from_secs(10);

fn launch(server: &impl Server, upstream: &Upstream) -> Launch {
    let store = format!("[store]\nurl = \"{}\"\nsecret = \"{SECRET}\"\ntimeout = \"2s\"\n", server.url());
    Launch::new(&format!("{}{store}", policy(upstream, "9 per 1h"))).with_admin("audit = \"audit.log\"\n")
}

fn tollgate(gate: &Gate, words: &[&str]) -> Option<i32> {
    let mut command = Command::new(binary());
    command.args(words).arg("--socket").arg(gate.admin_socket()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().code()
}

/// Bans a client for this reason.
fn ban(gate: &Gate, address: &str, why: &str) {
    assert_eq!(tollgate(gate, &["buckets", "ban", address, "--for", "1h", "--why", why]), Some(0));
}

fn listed(desk: &Desk) -> Vec<Value> {
    let (code, out, err) = desk.run(&["audit", "list", "--format", "json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// The reasons of all changes that the store has, in its order.
fn reasons(desk: &Desk) -> Vec<String> {
    let lines = listed(desk).into_iter();
    let reasons = lines.filter_map(|line| line["line"]["why"].as_str().map(str::to_owned));
    reasons.filter(|why| !why.is_empty()).collect()
}

fn lists(desk: &Desk, expected: &[&str]) {
    assert!(eventually(SOON, || reasons(desk) == expected), "{:?} and not {expected:?}", reasons(desk));
}

fn file(gate: &Gate) -> PathBuf {
    gate.directory.join("audit.log")
}

/// What the status says of lines that the store has not yet.
fn waiting(gate: &Gate) -> Value {
    let mut command = Command::new(binary());
    command.args(["status", "--format", "json", "--socket"]).arg(gate.admin_socket());
    let status: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    status["audit"]["waiting"].clone()
}

/// Exit code and both outputs of a comparison of this file with the store.
fn verify(desk: &Desk, file: &Path) -> (i32, String) {
    let (code, out, err) = desk.run(&["audit", "verify", "--fleet", file.to_str().unwrap()]);
    (code, out + &err)
}

/// The file of this gate has the hashes that the store has.
fn is_as_stored(desk: &Desk, gate: &Gate) {
    let (code, said) = verify(desk, &file(gate));
    assert_eq!(code, 0, "{said}");
}

/// Removes the last line of a file.
fn cut(file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let left = lines[..lines.len() - 1].iter().map(|line| format!("{line}\n"));
    fs::write(file, left.collect::<String>()).unwrap();
}

/// The process of a gate that was killed, started again with its file and in its directory.
struct Restarted(Child);

impl Restarted {
    fn start(gate: &Gate) -> Self {
        let mut command = Command::new(binary());
        command.args(["run", "-c"]).arg(gate.directory.join("gate.toml")).current_dir(&gate.directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

fn kill(gate: &mut Gate) {
    gate.signal("KILL");
    assert!(gate.exit_status(SOON).is_some());
}

impl Drop for Restarted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn changes_at_two_gates_are_one_list_that_outlives_them(server: impl Server) {
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let (code, out, _) = desk.run(&["audit", "list"]);
    assert!(code == 0 && out.starts_with("no gate has told the store of a change: "), "{out}");
    let (mut one, other) = (launch(&server, &upstream).start(), launch(&server, &upstream).start());
    ban(&one, "203.0.113.1", "first");
    lists(&desk, &["first"]);
    ban(&other, "203.0.113.2", "second");
    lists(&desk, &["first", "second"]);
    ban(&one, "203.0.113.3", "third");
    lists(&desk, &["first", "second", "third"]);
    kill(&mut one);
    lists(&desk, &["first", "second", "third"]);

    let (code, out, err) = desk.run(&["audit", "list"]);
    assert_eq!((code, &*err), (0, ""));
    let line = out.lines().find(|line| line.contains("second")).unwrap();
    assert!(
        line.contains(" bucket.ban ") && line.contains("203.0.113.2") && out.contains("\n  before ["),
        "{out}"
    );
    let (code, out, err) = desk.run(&["audit", "verify", "--fleet"]);
    assert!(code == 0 && out.starts_with("the store has ") && out.contains(" of 2 gates\n"), "{out}{err}");
    for gate in [&one, &other] {
        is_as_stored(&desk, gate);
    }
}

/// The file without its last line is a good chain by itself.
#[test]
fn a_file_whose_end_was_cut_is_found_and_so_is_one_of_another_gate() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let gate = launch(&server, &upstream).start();
    ban(&gate, "203.0.113.1", "first");
    ban(&gate, "203.0.113.2", "second");
    lists(&desk, &["first", "second"]);
    let copy = desk.file("copy.log", &fs::read_to_string(file(&gate)).unwrap());
    assert_eq!(verify(&desk, &copy).0, 0);
    cut(&copy);
    let alone = desk.run(&["audit", "verify", copy.to_str().unwrap()]);
    assert_eq!(alone.0, 0, "without the store it is not found: {}", alone.2);
    let (code, said) = verify(&desk, &copy);
    assert!(code == 1 && said.contains("the end was cut off"), "{said}");
    fs::write(&copy, "").unwrap();
    let (code, said) = verify(&desk, &copy);
    assert!(code == 1 && said.contains("the store knows no line of these files"), "{said}");
}

/// A timer that runs the command has to hear of it.
#[test]
fn a_file_that_was_deleted_is_found_by_the_configuration_that_names_it() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let gate = launch(&server, &upstream).start();
    ban(&gate, "203.0.113.1", "first");
    lists(&desk, &["first"]);
    let config = gate.directory.join("gate.toml");
    let verify = |named: &str| {
        let mut command = Command::new(binary());
        command.args(["audit", "verify", "--fleet", "-c", named]).stdin(fs::File::open(&config).unwrap());
        command.current_dir(&gate.directory).output().unwrap()
    };
    for named in [config.to_str().unwrap(), "-"] {
        assert_eq!(verify(named).status.code(), Some(0), "{:?}", verify(named));
    }
    fs::remove_file(file(&gate)).unwrap();
    for named in [config.to_str().unwrap(), "-"] {
        let output = verify(named);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(0) && said.contains("audit.log"), "{output:?}");
    }
}

/// As a container that is made again, with its files where they were: its machine has another name.
#[test]
fn lines_that_the_store_has_by_another_name_of_the_machine_are_not_added_again() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let mut gate = launch(&server, &upstream).start();
    ban(&gate, "203.0.113.1", "first");
    ban(&gate, "203.0.113.2", "second");
    lists(&desk, &["first", "second"]);
    kill(&mut gate);
    // The path is the other half of what names a log.
    let text = fs::read_to_string(file(&gate)).unwrap();
    let moved = launch(&server, &upstream).beside("audit.log", &text).start();
    ban(&moved, "203.0.113.3", "third");
    lists(&desk, &["first", "second", "third"]);
    assert!(listed(&desk).iter().all(|line| line["after_gap"] == false));
}

/// The copies outlive the file that they are from.
#[test]
fn a_gate_without_an_audit_log_forgets_people_in_the_audit_of_others() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let mut gate = launch(&server, &upstream).start();
    ban(&gate, "203.0.113.86", "theirs");
    lists(&desk, &["theirs"]);
    kill(&mut gate);
    let other = launch(&server, &upstream).with_admin("").start();
    assert_eq!(tollgate(&other, &["forget", "ip:203.0.113.86"]), Some(0));
    let (code, out, err) = desk.run(&["audit", "list", "--format", "json"]);
    assert!(code == 0 && !out.contains("203.0.113.86") && out.contains("forgotten"), "{out}{err}");
}

/// The store remembers that its last line was gone, also when the file has grown again.
#[test]
fn a_gate_whose_file_was_cut_while_it_was_down_tells_the_store() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let mut gate = launch(&server, &upstream).start();
    ban(&gate, "203.0.113.1", "first");
    ban(&gate, "203.0.113.2", "second");
    lists(&desk, &["first", "second"]);
    kill(&mut gate);
    cut(&file(&gate));
    let _again = Restarted::start(&gate);
    let bans = || tollgate(&gate, &["buckets", "ban", "203.0.113.3", "--for", "1h", "--why", "third"]);
    assert!(eventually(SOON, || bans() == Some(0)));
    assert!(eventually(SOON, || listed(&desk).iter().any(|line| line["after_gap"] == true)));
    assert_eq!(reasons(&desk)[..3], ["first", "second", "third"], "no line is there twice");
    let (code, said) = verify(&desk, &file(&gate));
    assert!(code == 1 && said.contains("had lost the last line that the store had"), "{said}");
}

/// The file is the queue: no line waits in memory.
#[test]
fn lines_of_a_time_without_the_store_follow_in_their_order_even_after_a_crash() {
    let mut server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let mut gate = launch(&server, &upstream).start();
    ban(&gate, "203.0.113.1", "before");
    lists(&desk, &["before"]);
    assert!(eventually(SOON, || waiting(&gate) == 0));
    server.pause();
    for why in ["one", "two", "three"] {
        assert_eq!(
            tollgate(&gate, &["reload", "--why", why]),
            Some(0),
            "a change does not wait for the store"
        );
    }
    let count = waiting(&gate).as_u64().unwrap();
    assert!(count >= 6, "each reload has a line before and one after: {count}");
    kill(&mut gate);
    let _again = Restarted::start(&gate);
    assert!(eventually(SOON, || tollgate(&gate, &["status"]) == Some(0)));
    assert!(waiting(&gate).is_null(), "nobody knows how many lines of before wait");
    server.resume();
    assert!(eventually(SOON, || waiting(&gate) == 0));
    lists(&desk, &["before", "one", "one", "two", "two", "three", "three"]);
    is_as_stored(&desk, &gate);
}

/// The files have the lines, so not much is lost with the store.
#[test]
fn a_store_that_has_lost_everything_gets_the_newest_lines_of_each_file_again() {
    let mut server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let gate = launch(&server, &upstream).start();
    for why in ["one", "two"] {
        ban(&gate, "203.0.113.1", why);
    }
    lists(&desk, &["one", "two"]);
    server.kill();
    server.start_again();
    assert!(reasons(&desk).is_empty());
    assert_eq!(tollgate(&gate, &["reload", "--why", "three"]), Some(0));
    lists(&desk, &["one", "two", "three", "three"]);
    is_as_stored(&desk, &gate);
}

#[test]
fn a_forgotten_person_is_in_no_line_of_the_store_whichever_gate_wrote_it() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let (one, other) = (launch(&server, &upstream).start(), launch(&server, &upstream).start());
    ban(&one, "203.0.113.86", "theirs");
    ban(&other, "203.0.113.86", "again theirs");
    ban(&other, "203.0.113.87", "of another");
    assert!(eventually(SOON, || reasons(&desk).len() == 3));
    assert_eq!(tollgate(&one, &["forget", "ip:203.0.113.86"]), Some(0));
    let (code, out, err) = desk.run(&["audit", "list", "--format", "json"]);
    assert!(code == 0 && !out.contains("203.0.113.86") && out.contains("203.0.113.87"), "{out}{err}");
    let forgotten = |line: &&Value| line["line"]["forgotten"] == true && line["line"]["what"] == "bucket.ban";
    assert_eq!(listed(&desk).iter().filter(forgotten).count(), 2);
    for gate in [&one, &other] {
        is_as_stored(&desk, gate);
    }
}

/// Whoever can write to the store could write changes there.
#[test]
fn without_a_secret_nothing_of_the_audit_is_in_the_store() {
    let server = started::<Redis>();
    let (desk, upstream) = (Desk::at(&server), Upstream::start());
    let store = crate::table(&server);
    let gate = Launch::new(&format!("{}{store}", policy(&upstream, "9 per 1h")));
    let gate = gate.with_admin("audit = \"audit.log\"\n").start();
    ban(&gate, "203.0.113.1", "alone");
    assert!(waiting(&gate).is_null() && reasons(&desk).is_empty());
}
