//! What a running gate has given up, seen from outside, and that it does all that it has to all the same.
//!
//! The threads of a gate that try what they may not stand beside the code (`src/app/sandbox/tests.rs`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::{Gate, Upstream, binary, eventually, get_with, new_directory};

const LOGIN: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 1h\"\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// What the kernel says of each thread: its name, and fields of its status.
fn threads(process: u32) -> Vec<(String, BTreeMap<String, String>)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let threads = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let fields = status.lines().filter_map(|line| line.split_once(':'));
        let fields: BTreeMap<_, _> =
            fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        Some((fields["Name"].clone(), fields))
    });
    threads.collect()
}

/// Whether each thread has as many seccomp filters as one of its kind should, in time: workers take theirs as they start.
fn is_filtered(process: u32) -> bool {
    eventually(PATIENCE, || {
        let threads = threads(process);
        let kinds = FILTERS.iter().all(|(kind, _)| threads.iter().any(|(name, _)| name.starts_with(kind)));
        let as_expected = |(name, status): &(String, BTreeMap<String, String>)| {
            let expected = FILTERS.iter().find(|(kind, _)| name.starts_with(kind));
            expected.is_none_or(|(_, count)| status["Seccomp_filters"] == *count)
        };
        kinds && threads.iter().all(as_expected)
    })
}

/// What the threads of a gate are called, and how many filters each has.
const FILTERS: [(&str, &str); 6] = [
    ("tollgate", "1"),
    ("worker-", "2"),
    ("search-", "2"),
    ("messages", "1"),
    ("access-log", "1"),
    ("broker", "0"),
];

/// `tollgate status`, its line about this.
fn status(gate: &Gate) -> String {
    let mut command = Command::new(binary());
    command.args(["status", "--socket"]).arg(gate.admin_socket()).env_remove("TOLLGATE_CONFIG");
    let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = out.lines().find_map(|line| line.strip_prefix("sandbox"));
    line.expect("a line about the sandbox").trim().to_owned()
}

fn is_answered(gate: &Gate) -> bool {
    gate.ask(get_with("/", "")).status == 200
}

/// L15: every thread has given up what it does not need, and the gate says so.
#[test]
fn every_thread_of_a_gate_has_given_up_what_it_does_not_need() {
    let upstream = Upstream::start();
    let config = format!("{LOGIN}[log]\naccess = \"access.log\"\n[store]\nsnapshot = \"buckets\"\n");
    let gate = Gate::start(&upstream.file(&config));
    assert!(is_answered(&gate));
    // A process without capabilities cannot shrink its bounding set, and can gain none of them.
    let is_bound = u64::from_str_radix(&threads(std::process::id())[0].1["CapEff"], 16) != Ok(0);
    let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"].into_iter().chain(is_bound.then_some("CapBnd"));
    for (name, status) in threads(gate.process_id()) {
        assert_eq!(status["NoNewPrivs"], "1", "{name}");
        for set in sets.clone() {
            assert_eq!(u64::from_str_radix(&status[set], 16), Ok(0), "{name}: {set}");
        }
    }
    assert!(is_filtered(gate.process_id()), "{:?}", threads(gate.process_id()));
    let said = status(&gate);
    for part in ["no new privileges", "no capabilities", "seccomp"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!gate.messages().contains("sandbox"), "all of it is in force");
}

#[test]
fn a_gate_without_a_sandbox_keeps_all_and_says_so() {
    let upstream = Upstream::start();
    let gate = Gate::start(&format!("sandbox = \"off\"\n{}", upstream.file(LOGIN)));
    assert!(is_answered(&gate));
    let own = &threads(std::process::id())[0].1;
    for (name, status) in threads(gate.process_id()) {
        for field in ["NoNewPrivs", "CapEff", "Seccomp_filters"] {
            assert_eq!(status[field], own[field], "{name}: {field}");
        }
    }
    assert_eq!(status(&gate), "off");
}

/// L15: what a reload may name, it may name in a sandbox.
#[test]
fn a_reload_reaches_ports_names_and_files_that_were_not_there_at_the_start() {
    let (first, second, third) = (Upstream::start(), Upstream::start(), Upstream::start());
    let elsewhere = new_directory();
    let gate = Gate::start(&first.file(LOGIN));
    assert!(is_answered(&gate) && first.saw("GET /"));
    assert!(gate.reload(&second.file(LOGIN)), "another port");
    assert!(is_answered(&gate) && second.saw("GET /"));
    let named = format!("upstream = \"http://localhost:{}\"\n{LOGIN}", third.address.port());
    assert!(gate.reload(&named), "a name");
    assert!(is_answered(&gate) && third.saw("GET /"));
    let page = elsewhere.join("refused.html");
    fs::write(&page, "a page from elsewhere").unwrap();
    let limit = LOGIN.replace("10 per", "1 per");
    let tables = format!("{limit}[refuse]\nhtml = \"{}\"\n", page.display());
    assert!(gate.reload(&first.file(&tables)), "a file in another directory: {}", gate.messages());
    let ask = || gate.ask(support::post_with("/login", "Accept: text/html\r\n"));
    ask();
    assert!(ask().text().contains("a page from elsewhere"));
    fs::remove_dir_all(elsewhere).unwrap();
}

#[test]
fn upstreams_with_names_are_found_and_those_that_are_gone_are_told() {
    let upstream = Upstream::start();
    let config = |host: &str| format!("upstream = \"http://{host}:{}\"\n{LOGIN}", upstream.address.port());
    let gate = Gate::start(&config("localhost"));
    assert!(is_answered(&gate));
    assert!(gate.reload(&config("nowhere.invalid")));
    assert_eq!(gate.ask(get_with("/", "")).status, 502);
    assert!(eventually(PATIENCE, || gate.messages().contains("cannot connect")));
}

/// L15: what is refused is told. Without capabilities root is held to the permissions of a socket like anybody else.
#[test]
fn a_call_that_is_refused_is_told() {
    let directory = new_directory();
    let path = directory.join("upstream.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let gate = Gate::start(&format!("upstream = \"unix:{}\"\n{LOGIN}", path.display()));
    assert_eq!(gate.ask(get_with("/", "")).status, 502);
    assert!(eventually(PATIENCE, || gate.messages().contains("an upstream failed a request")));
    fs::remove_dir_all(directory).unwrap();
}

/// L15: the log is opened again and the buckets are written where the file says.
#[test]
fn logs_and_snapshots_are_written_in_a_sandbox() {
    let (upstream, directory) = (Upstream::start(), new_directory());
    let [log, rotated, buckets] = ["access.log", "access.log.1", "buckets"].map(|name| directory.join(name));
    let tables = format!(
        "{LOGIN}[log]\naccess = \"{}\"\n[store]\nsnapshot = \"{}\"\n",
        log.display(),
        buckets.display()
    );
    let mut gate = Gate::start(&upstream.file(&tables));
    let has_lines = |path: &Path| fs::metadata(path).is_ok_and(|about| about.len() > 0);
    assert!(is_answered(&gate));
    assert!(eventually(PATIENCE, || has_lines(&log)));
    fs::rename(&log, &rotated).unwrap();
    gate.signal("USR1");
    assert!(eventually(PATIENCE, || log.exists()), "{}", gate.messages());
    assert!(is_answered(&gate));
    assert!(eventually(PATIENCE, || has_lines(&log)));
    assert!(eventually(PATIENCE, || has_lines(&buckets)), "{}", gate.messages());
    // A directory that is made anew is another one.
    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    gate.signal("USR1");
    assert!(eventually(PATIENCE, || log.exists()), "{}", gate.messages());
    assert!(eventually(PATIENCE, || has_lines(&buckets)), "{}", gate.messages());
    fs::remove_file(&buckets).unwrap();
    gate.signal("TERM");
    assert!(gate.exit_status(PATIENCE).unwrap().success());
    assert!(has_lines(&buckets), "once more at the end");
    assert!(!gate.admin_socket().exists(), "the socket is cleaned up");
    fs::remove_dir_all(directory).unwrap();
}

/// L15: the process that takes over is as confined as the one before it, and no more: nothing adds up over upgrades.
#[test]
fn processes_that_take_over_are_confined_like_the_first() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{LOGIN}[log]\naccess = \"access.log\"\n")));
    assert!(is_filtered(gate.process_id()));
    let mut serving = gate.process_id();
    for generation in 1..=3 {
        assert!(support::signal(serving, "USR2"));
        let taken_over = || {
            let messages = gate.messages();
            let lines = messages.lines().filter_map(|line| line.split_once(" has taken over"));
            lines.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<u32>().ok()).collect::<Vec<_>>()
        };
        assert!(eventually(PATIENCE, || taken_over().len() == generation), "{}", gate.messages());
        serving = taken_over()[generation - 1];
        assert!(is_answered(&gate));
        assert!(is_filtered(serving), "{:?}", threads(serving));
    }
    assert!(support::signal(serving, "TERM"));
    assert!(eventually(PATIENCE, || !Path::new(&format!("/proc/{serving}")).exists()));
}
