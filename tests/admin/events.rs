//! Viewers of `/api/v1/events`: what they see, and that those who do not read cost nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::caller::{LOGIN, RIGHT, ask, attempts, gate};
use support::{Client, Gate, Upstream, eventually};

/// A viewer who reads.
struct Viewer {
    stream: TcpStream,
    text: String,
}

impl Viewer {
    /// Connected: the first byte of the stream has come.
    fn join(gate: &Gate) -> Self {
        let mut stream = TcpStream::connect(gate.admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{RIGHT}\r\n").unwrap();
        let mut viewer = Self { stream, text: String::new() };
        assert!(viewer.sees(":\n\n"), "{}", viewer.text);
        assert!(viewer.text.starts_with("HTTP/1.1 200 OK\r\n"), "{}", viewer.text);
        viewer
    }

    /// Reads what there is.
    fn read(&mut self) {
        let mut buffer = [0; 64 * 1024];
        if let Ok(length) = self.stream.read(&mut buffer) {
            self.text += &String::from_utf8_lossy(&buffer[..length]);
        }
    }

    /// Whether this comes within some seconds.
    fn sees(&mut self, words: &str) -> bool {
        eventually(Duration::from_secs(10), || {
            self.read();
            self.text.contains(words)
        })
    }

    /// The objects of all messages with this name so far.
    fn data(&self, name: &str) -> Vec<Value> {
        let mut lines = self.text.lines();
        let mut found = Vec::new();
        while let Some(line) = lines.next() {
            if line == format!("event: {name}") {
                let data = lines.next().and_then(|line| line.strip_prefix("data: ")).unwrap_or_default();
                found.extend(serde_json::from_str::<Value>(data));
            }
        }
        found
    }
}

#[test]
fn a_viewer_sees_decisions_reloads_and_upstreams_as_they_happen() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let mut viewer = Viewer::join(&gate);
    assert_eq!(attempts(&gate, [127, 5, 5, 5], 3), [200, 200, 429]);
    assert!(viewer.sees("\"verdict\":\"refuse\""), "{}", viewer.text);
    let decisions = viewer.data("decision");
    let refused = decisions.iter().find(|decision| decision["verdict"] == "refuse").unwrap();
    assert_eq!((&refused["limit"], &refused["client"]), (&"address".into(), &"127.5.5.5".into()));
    assert!(decisions.len() >= 5, "{decisions:?}");
    assert!(gate.reload(&upstream.file(&LOGIN.replace("1000h", "900h"))));
    assert!(viewer.sees("event: reload\n"), "{}", viewer.text);
    assert!(viewer.sees("limit `address` changed"), "{}", viewer.text);
    assert_eq!(viewer.data("reload")[0]["taken"], true);
}

#[test]
fn decisions_of_a_flood_are_summed_up() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let mut viewer = Viewer::join(&gate);
    for _ in 0..20 {
        attempts(&gate, [127, 5, 5, 5], 100);
        viewer.read();
    }
    let limits = ask(&gate, "GET", "/api/v1/limits", "").1;
    let counts =
        limits["limits"].as_array().unwrap().iter().flat_map(|limit| limit["decisions"].as_object().unwrap());
    let total: u64 = counts.map(|(_, count)| count.as_u64().unwrap()).sum();
    assert!(viewer.sees("event: skipped\ndata: {\"decisions\":"));
    let is_all_there = || {
        viewer.read();
        let skipped = viewer.data("skipped");
        let skipped: u64 = skipped.iter().map(|skipped| skipped["decisions"].as_u64().unwrap()).sum();
        viewer.data("decision").len() as u64 + skipped == total
    };
    assert!(eventually(Duration::from_secs(10), is_all_there), "{total} decisions");
}

/// L16: many viewers who do not read.
#[test]
fn a_hundred_viewers_take_no_place_of_others_and_little_memory() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let connect = || {
        let mut client = Client::connect(gate.admin);
        client.send(format!("GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{RIGHT}\r\n"));
        let head = client.take(12).unwrap();
        (client, String::from_utf8(head).unwrap()[9..].to_owned())
    };
    let mut silent = Vec::new();
    for _ in 0..100 {
        let (client, status) = connect();
        assert_eq!(status, "200");
        silent.push(client);
    }
    assert_eq!(connect().1, "503");
    assert_eq!(ask(&gate, "GET", "/api/v1/status", "").0, 200, "viewers take no permit of other callers");
    let before = gate.memory();
    let begun = Instant::now();
    let mut client = gate.connect();
    for _ in 0..3_000 {
        client.send(support::post_with("/login", ""));
        assert!(matches!(client.answer().status, 200 | 429));
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    let grown = gate.memory().saturating_sub(before);
    assert!(grown < 40 * 1024, "{grown} KiB for viewers who do not read");
    drop(silent);
    assert!(eventually(Duration::from_secs(10), || connect().1 == "200"), "their permits are free again");
}
