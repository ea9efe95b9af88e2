//! Where decisions go: files that are renamed, syslog servers, and what is told of places that do not work.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::Value;

use crate::decisions::end;
use support::decisions::{FILE, attempt, objects};
use support::{Gate, Upstream, check_file, eventually, new_directory};

/// The lines of six attempts: two for each, but the last one is refused before its account is read.
const LINES: u32 = 11;

fn gate(application: &Upstream, decisions: &str) -> Gate {
    Gate::start(&format!("{}[log]\ndecisions = \"{decisions}\"\n", application.file(FILE)))
}

fn attempts(gate: &Gate, count: usize) {
    let mut client = gate.connect();
    for number in 0..count {
        client.send(attempt("198.51.100.7", number, &format!("u{number}"), "wrong"));
        client.answer();
    }
}

/// A message as its header and its object.
fn parsed(message: &[u8]) -> (String, Value) {
    let text = String::from_utf8(message.to_vec()).unwrap();
    let (header, object) = text.split_at(text.find('{').unwrap());
    (header.to_owned(), serde_json::from_str(object).unwrap())
}

fn assert_is_a_refusal(messages: &[(String, Value)]) {
    let refused: Vec<_> = messages.iter().filter(|(_, object)| object["verdict"] == "refuse").collect();
    assert_eq!(refused.len(), 1, "{messages:?}");
    assert!(
        refused[0].0.starts_with("<36>1 20") && refused[0].0.ends_with(" decision - "),
        "{}",
        refused[0].0
    );
    assert_eq!(refused[0].1["limit"], "address");
    let others = messages.iter().filter(|(header, _)| header.starts_with("<38>1 "));
    assert_eq!(others.count(), messages.len() - 1);
}

#[test]
fn a_syslog_server_gets_every_decision_over_a_unix_socket_and_again_after_its_restart() {
    let (application, directory) = (Upstream::start(), new_directory());
    let path = directory.join("log.sock");
    let bind = || {
        let server = UnixDatagram::bind(&path).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        server
    };
    let server = bind();
    let gate = gate(&application, &format!("syslog:{}", path.display()));
    let received = |server: &UnixDatagram| {
        let mut buffer = [0; 4096];
        let length = server.recv(&mut buffer).unwrap();
        parsed(&buffer[..length])
    };
    attempts(&gate, 6);
    assert_is_a_refusal(&(0..LINES).map(|_| received(&server)).collect::<Vec<_>>());
    drop(server);
    fs::remove_file(&path).unwrap();
    let server = bind();
    attempts(&gate, 1);
    assert_eq!(received(&server).1["verdict"], "refuse", "the confined gate connects again");
    assert_eq!(gate.metric("tollgate_decision_log_dropped_total", ""), 0.0);
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn a_syslog_server_gets_every_decision_over_udp() {
    let (application, server) = (Upstream::start(), UdpSocket::bind("127.0.0.1:0").unwrap());
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let gate = gate(&application, &format!("syslog:udp://{}", server.local_addr().unwrap()));
    attempts(&gate, 6);
    let received = || {
        let mut buffer = [0; 4096];
        let length = server.recv(&mut buffer).unwrap();
        parsed(&buffer[..length])
    };
    assert_is_a_refusal(&(0..LINES).map(|_| received()).collect::<Vec<_>>());
}

#[test]
fn a_syslog_server_that_is_not_there_costs_lines_that_are_counted_and_told() {
    let application = Upstream::start();
    let gate = gate(&application, "syslog:{dir}/nothing.sock");
    attempts(&gate, 6);
    let is_counted = || gate.metric("tollgate_decision_log_dropped_total", "") == f64::from(LINES);
    assert!(eventually(Duration::from_secs(10), is_counted));
    let is_told = || gate.messages().contains("the decision log cannot be written");
    assert!(eventually(Duration::from_secs(10), is_told), "{}", gate.messages());
}

#[test]
fn a_renamed_file_is_opened_again_by_the_confined_gate() {
    let application = Upstream::start();
    let gate = gate(&application, "decisions.log");
    let (path, rotated) = (gate.directory.join("decisions.log"), gate.directory.join("decisions.log.1"));
    attempts(&gate, 2);
    assert_eq!(objects(&path, 4).len(), 4);
    fs::rename(&path, &rotated).unwrap();
    gate.signal("USR1");
    assert!(eventually(Duration::from_secs(10), || path.exists()));
    attempts(&gate, 1);
    assert_eq!((objects(&path, 2).len(), objects(&rotated, 4).len()), (2, 4));
}

#[test]
fn without_a_log_and_with_a_file_the_messages_tell_of_no_refusal() {
    for decisions in ["", "decisions.log"] {
        let application = Upstream::start();
        let mut gate = gate(&application, decisions);
        attempts(&gate, 7);
        let messages = end(&mut gate);
        assert!(!messages.contains("refuse"), "{messages}");
    }
}

#[test]
fn check_says_that_nothing_is_refused() {
    let application = Upstream::start();
    let file = format!("listen = \"http://127.0.0.1:1\"\nmode = \"observe\"\n{}", application.file(FILE));
    let output = check_file(&file);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("mode = \"observe\": every limit only observes, nothing is refused"), "{text}");
    assert_eq!(text.matches("only observed, nothing is refused").count(), 2, "{text}");
}

#[test]
fn rotated_files_are_removed_after_the_retention_and_no_others() {
    let (application, folder) = (Upstream::start(), new_directory());
    let month_ago = std::time::SystemTime::now() - Duration::from_secs(31 * 86_400);
    let names =
        ["decisions.log.1", "decisions.log.2.gz", "decisions.log-20261020", "decisions.log.bak", "notes.1"];
    for name in names {
        fs::File::create(folder.join(name)).unwrap().set_modified(month_ago).unwrap();
    }
    fs::write(folder.join("decisions.log.0"), "of today\n").unwrap();
    let decisions = folder.join("decisions.log");
    let gate = gate(&application, &format!("{}\"\nretention = \"30d", decisions.display()));
    assert!(eventually(Duration::from_secs(20), || gate.messages().contains("rotated logs were removed")));
    let left: Vec<&str> = names.into_iter().filter(|name| folder.join(name).exists()).collect();
    assert_eq!(left, ["decisions.log.bak", "notes.1"]);
    assert!(folder.join("decisions.log.0").exists() && decisions.exists());
    drop(gate);
    fs::remove_dir_all(folder).unwrap();
}
