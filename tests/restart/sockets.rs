//! Sockets that systemd passes: by name, plain and Unix, and over a restart.
//!
//! A shell passes what this process has bound. systemd's own `systemd-socket-activate` is in `tests/programs`.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::load::Load;
use support::{Client, Upstream, binary, eventually, get_with, new_directory, post_with};

/// A gate on a socket of this process, as systemd would start it.
fn start_on(socket: &TcpListener, name: &str, file: &Path) -> Child {
    let passes = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" run -c \"$1\"";
    Command::new("sh")
        .args(["-c", passes])
        .arg(binary())
        .arg(file)
        .env("LISTEN_FDNAMES", name)
        .stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn serves(address: SocketAddr) -> bool {
    let mut client = Client::connect(address);
    client.send(get_with("/", ""));
    client.answer().status == 200
}

fn ends(process: &mut Child) -> Option<i32> {
    let mut status = None;
    eventually(Duration::from_secs(10), || {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    if status.is_none() {
        let _ = process.kill();
    }
    process.wait().unwrap().code()
}

/// I7: `systemctl restart` behind a socket unit.
#[test]
fn restarts_on_a_socket_that_stays_lose_no_request_and_no_bucket() {
    let (upstream, directory) = (Upstream::start(), new_directory());
    let file = directory.join("gate.toml");
    let rules = format!(
        "listen = \"systemd:web\"\n[proxy]\nclient_rate = \"off\"\n[store]\nsnapshot = \"{}/buckets\"\n\
         [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"7 per 1000h\"\n",
        directory.display()
    );
    fs::write(&file, format!("{}{rules}", upstream.line())).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let loads = [
        Load::start(3, address, true, |_| get_with("/", "")),
        Load::start(3, address, false, |_| get_with("/", "")),
        Load::start(2, address, true, |_| post_with("/login", "")),
    ];
    for _ in 0..6 {
        let mut gate = start_on(&socket, "web", &file);
        // A signal before it serves ends it too, and no request is lost.
        assert!(serves(address));
        std::thread::sleep(Duration::from_millis(200));
        crate::generations::signal(gate.id(), "TERM");
        assert_eq!(ends(&mut gate), Some(0));
    }
    let mut gate = start_on(&socket, "web", &file);
    let tallies = loads.map(Load::stop);
    let _ = gate.kill();
    let _ = gate.wait();
    for tally in &tallies {
        assert!(tally.failures.is_empty(), "{:?}", &tally.failures[..tally.failures.len().min(5)]);
    }
    assert!(tallies.iter().all(|tally| tally.admitted + tally.refused > 20), "{tallies:?}");
    assert_eq!(tallies[2].admitted, 7);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_name_that_was_not_passed_is_told_at_the_start_and_not_before() {
    let directory = new_directory();
    let file = directory.join("gate.toml");
    fs::write(&file, "listen = \"systemd:web\"\nupstream = \"http://127.0.0.1:1\"\n").unwrap();
    let run = |command: &str| -> Output {
        Command::new(binary()).args([command, "-c"]).arg(&file).output().unwrap()
    };
    assert!(run("check").status.success());
    let output = run("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("systemd:web") && said.contains("FileDescriptorName="), "{said}");
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(ends(&mut start_on(&socket, "other", &file)), Some(1));
    fs::remove_dir_all(directory).unwrap();
}
