//! A process that does not take over: the old one goes on as before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::generations::{Generations, is_alive, signal};
use crate::load::Load;
use support::{Client, Upstream, eventually, get_with, post_with};

const LIMIT: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"3 per 1000h\"\n";

fn serves(gate: &Generations) -> bool {
    let mut client = Client::connect(gate.address);
    client.send(get_with("/", ""));
    client.answer().status == 200 && gate.readiness().unwrap().0 == 200
}

fn put(gate: &Generations, script: &str) {
    let (binary, new) = (gate.directory.join("tollgate"), gate.directory.join("new"));
    fs::write(&new, script).unwrap();
    fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
    fs::rename(new, binary).unwrap();
}

/// I7: a new process that fails.
#[test]
fn whatever_goes_wrong_with_the_new_process_the_old_one_serves_on() {
    let upstream = Upstream::start();
    let good = upstream.file(LIMIT);
    let gate = Generations::start(&good);
    let first = gate.process();
    gate.write("nonsense = 1\n");
    assert!(!gate.hand_over() && serves(&gate));
    assert!(gate.messages().contains("exit status: 78"), "{}", gate.messages());
    gate.write(&good);
    let binary = fs::read(gate.directory.join("tollgate")).unwrap();
    put(&gate, "#!/bin/sh\nkill -9 $$\n");
    assert!(!gate.hand_over() && serves(&gate));
    assert!(gate.messages().contains("signal: 9"), "{}", gate.messages());
    fs::remove_file(gate.directory.join("tollgate")).unwrap();
    assert!(!gate.hand_over() && serves(&gate));
    assert!(gate.messages().contains("cannot be started"), "{}", gate.messages());
    // It says that it is ready and dies when it has been given the buckets.
    put(&gate, "#!/bin/sh\nprintf r >&0\nsleep 1\nexit 3\n");
    let mut kept = Client::connect(gate.address);
    kept.send(post_with("/login", ""));
    assert_eq!(kept.answer().status, 200);
    assert!(!gate.hand_over() && serves(&gate));
    assert!(gate.messages().contains("exit status: 3"), "{}", gate.messages());
    let mut client = Client::connect(gate.address);
    let mut status = || {
        client.send(post_with("/login", ""));
        client.answer().status
    };
    assert_eq!([status(), status(), status()], [200, 200, 429], "it counts on from where it was");
    assert_eq!(gate.process(), first);
    fs::remove_file(gate.directory.join("tollgate")).unwrap();
    fs::write(gate.directory.join("new"), binary).unwrap();
    fs::set_permissions(gate.directory.join("new"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::rename(gate.directory.join("new"), gate.directory.join("tollgate")).unwrap();
    assert!(gate.hand_over() && serves(&gate));
}

/// I7: a new process that never says anything.
#[test]
fn a_new_process_that_hangs_is_given_up_and_no_request_fails_meanwhile() {
    let upstream = Upstream::start();
    let gate = Generations::start(&upstream.file(LIMIT));
    put(&gate, "#!/bin/sh\necho $$ > hangs\nexec sleep 100\n");
    let load = Load::start(4, gate.address, true, |_| get_with("/", ""));
    // Those that come meanwhile are about the same thing.
    gate.signal("USR2");
    std::thread::sleep(Duration::from_millis(500));
    gate.signal("USR2");
    assert!(!gate.hand_over());
    let tally = load.stop();
    assert!(tally.failures.is_empty() && tally.admitted > 100, "{tally:?}");
    let hanging = fs::read_to_string(gate.directory.join("hangs")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(hanging), "it is not left behind");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(gate.said("no other process has taken over"), 1, "{}", gate.messages());
}

/// I8: told to stop while another process is about to take over.
#[test]
fn a_gate_that_is_told_to_stop_meanwhile_stops_and_leaves_no_process_behind() {
    let upstream = Upstream::start();
    let mut gate = Generations::start(&upstream.file(LIMIT));
    put(&gate, "#!/bin/sh\necho $$ > hangs\nexec sleep 100\n");
    gate.signal("USR2");
    let path = gate.directory.join("hangs");
    assert!(eventually(Duration::from_secs(5), || fs::read_to_string(&path)
        .is_ok_and(|text| text.ends_with('\n'))));
    let hanging: u32 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
    gate.signal("TERM");
    assert_eq!(gate.first_ends(Duration::from_secs(5)), Some(0));
    // A real one would see the end of the socket; this one looks at nothing.
    signal(hanging, "KILL");
}

/// I8: all signals at once, over and over.
#[test]
fn a_storm_of_signals_leaves_one_gate_that_serves() {
    let upstream = Upstream::start();
    let gate = Generations::start(&upstream.file(LIMIT));
    let load = Load::start(2, gate.address, true, |_| get_with("/", ""));
    for _ in 0..10 {
        for _ in 0..20 {
            gate.signal("HUP");
            gate.signal("USR1");
        }
        assert!(gate.hand_over());
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{:?}", &tally.failures[..tally.failures.len().min(5)]);
    assert!(serves(&gate));
    let alive = |process: &u32| is_alive(*process);
    let left = || gate.successors().iter().filter(|process| alive(process)).count();
    assert!(eventually(Duration::from_secs(5), || left() == 1), "{} are left", left());
}
