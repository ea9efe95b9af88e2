//! Many guesses in one body: each is charged, and the body arrives as it was sent.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use support::{Answer, Gate, Upstream, eventually, get_with, post};

/// A bucket of ten in front of XML-RPC and of a JSON API.
const TEN: &str = r#"
[route.xmlrpc]
match = "ANY /xmlrpc.php"
cost = "count:methodName"

[route.api]
match = "POST /api"
cost = "count:[]"
body = "1KiB"

[limit.address]
rate = "10 per 1h"
"#;

fn multicall(calls: usize) -> String {
    let call = "<value><struct><member><name>methodName</name><value><string>wp.getUsersBlogs</string></value>\
        </member><member><name>params</name><value><array><data><value><string>admin</string></value></data>\
        </array></value></member></struct></value>";
    format!(
        "<?xml version=\"1.0\"?>\n<methodCall><methodName>system.multicall</methodName><params><param><value><array>\
         <data>{}</data></array></value></param></params></methodCall>",
        call.repeat(calls)
    )
}

fn call() -> String {
    post("/xmlrpc.php", "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>")
}

fn batch(items: usize) -> String {
    post("/api", &format!("[{}]", vec!["{\"m\":\"login\"}"; items].join(",")))
}

/// How many single attempts are left.
fn left(gate: &Gate) -> usize {
    (0..20).take_while(|_| gate.ask(call()).status == 200).count()
}

#[test]
fn a_batch_of_500_guesses_never_fits_into_a_bucket_of_10() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{TEN}{LARGE}")));
    let answer = gate.ask(post("/large", &multicall(500)));
    assert_eq!((answer.status, answer.header("retry-after")), (429, None));
    assert_eq!(upstream.bytes(), b"", "none of them reaches the application");
    assert_eq!(left(&gate), 10, "and none was charged");
}

const LARGE: &str = "[route.large]\nmatch = \"POST /large\"\ncost = \"count:methodName\"\nbody = \"1MiB\"\n";

#[test]
fn a_batch_pays_for_each_of_its_calls() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    for status in [200, 200, 429] {
        let answer = gate.ask(post("/xmlrpc.php", &multicall(4)));
        assert_eq!(answer.status, status);
        if status == 429 {
            // Two are left, two more come within twelve minutes.
            assert!((710..=720).contains(&answer.retry_after()), "{answer:?}");
        }
    }
    assert_eq!(left(&gate), 2);
    assert_eq!(upstream.requests().len(), 4);
}

#[test]
fn a_json_array_pays_for_each_of_its_items() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    for (items, status) in [(500, 413), (40, 429), (9, 200), (2, 429), (0, 200), (1, 429)] {
        assert_eq!(gate.ask(batch(items)).status, status, "{items}");
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn a_request_without_a_body_is_one_attempt() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    for _ in 0..4 {
        assert_eq!(gate.ask(get_with("/xmlrpc.php", "")).status, 200);
        assert_eq!(gate.ask(post("/xmlrpc.php", "")).status, 200);
    }
    let mut client = gate.connect();
    client.send("HEAD /xmlrpc.php HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert_eq!(client.answer_to_head().status, 200);
    assert_eq!(left(&gate), 1);
}

#[test]
fn a_body_that_was_read_arrives_byte_for_byte() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let body = multicall(2) + "<!-- \u{e4} -->\r\n\r\n";
    assert_eq!(gate.ask(post("/xmlrpc.php", &body)).status, 200);
    let sent = upstream.last();
    assert!(sent.body == body.as_bytes());
    assert_eq!(sent.names_as_cgi().iter().filter(|name| *name == "CONTENT_LENGTH").count(), 1);
    let head = "POST /xmlrpc.php HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (first, rest) = body.split_at(100);
    let chunks = format!(
        "{:x};ext=1\r\n{first}\r\n{:X}\r\n{rest}\r\n0\r\nX-Trailer: 1\r\n\r\n",
        first.len(),
        rest.len()
    );
    let mut client = gate.connect();
    client.send(head);
    client.send(&chunks[..50]);
    std::thread::sleep(Duration::from_millis(50));
    client.send(&chunks[50..]);
    assert_eq!(client.answer().status, 200);
    assert!(upstream.last().body == body.as_bytes());
    assert!(!upstream.saw("X-Trailer") && !upstream.saw("ext=1"));
    client.send(call());
    assert_eq!(client.answer().status, 200, "the connection is used again");
}

#[test]
fn an_empty_body_in_chunks_arrives_as_none() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let head = "POST /xmlrpc.php HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(gate.ask(format!("{head}0\r\n\r\n")).status, 200);
    assert_eq!(upstream.last().body, b"");
    assert_eq!(left(&gate), 9);
}

#[test]
fn what_follows_a_body_that_was_read_is_the_next_request() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let mut client = gate.connect();
    let packet = [post("/xmlrpc.php", &multicall(3)), batch(2), get_with("/other", ""), batch(9), call()];
    client.send(packet.concat());
    let statuses: Vec<u16> = (0..5).map(|_| client.answer().status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 200]);
    let targets: Vec<String> = upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/xmlrpc.php", "/api", "/other", "/xmlrpc.php"]);
}

/// H7: a body that is longer than its route reads.
#[test]
fn a_body_that_is_too_long_is_a_413_and_costs_nothing() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    // Declared as too long: the gate does not wait for it.
    let mut client = gate.connect();
    client.send("POST /api HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1025\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (413, true));
    assert!(client.ends_within(Duration::from_secs(5)));
    // Found to be too long.
    let chunk = format!("200\r\n{}\r\n", "[".repeat(0x200));
    let head = "POST /api HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for accept in ["text/html", "application/json", "*/*"] {
        let mut client = gate.connect();
        let head = head.replace("\r\n\r\n", &format!("\r\nAccept: {accept}\r\n\r\n"));
        client.send(format!("{head}{}", chunk.repeat(3)));
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (413, true), "{accept}");
        let form = answer.header("content-type").unwrap();
        assert_eq!(form.contains("html"), accept == "text/html", "{form}");
        assert_eq!(form.contains("json"), accept == "application/json", "{form}");
    }
    let body = format!("[\"{}\"]", "x".repeat(1020));
    assert_eq!(gate.ask(post("/api", &body)).status, 200, "exactly as long as is read");
    assert_eq!(left(&gate), 9);
}

#[test]
fn a_body_that_stops_coming_is_a_408_and_costs_nothing() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{TEN}[proxy]\nbody_timeout = \"300ms\"\n")));
    let mut client = gate.connect();
    client.send("POST /api HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\n[1,");
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (408, true));
    let mut slow = gate.connect();
    // Each piece is worth 300 ms more.
    let pieces = ["[1,", "2,", "3,", "44", "]"].map(|piece| format!("{piece:150}"));
    slow.send(format!("POST /api HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n", 5 * 150));
    for piece in &pieces {
        // As slow as the test is about: longer than the time-out in all, but never between two pieces.
        std::thread::sleep(Duration::from_millis(80));
        slow.send(piece);
    }
    assert_eq!(slow.answer().status, 200);
    assert_eq!((upstream.last().body, left(&gate)), (pieces.concat().into_bytes(), 6));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_body_is_charged_nothing() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let mut client = gate.connect();
    client.send("POST /api HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\n[1,");
    drop(client);
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") < 0.5));
    assert_eq!(left(&gate), 10);
}

/// D21: a body in a form that hides what it says.
#[test]
fn a_body_that_cannot_be_read_is_a_400_and_costs_nothing() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let with = |target: &str, lines: &str, body: &str| {
        post(target, body).replacen("\r\n\r\n", &format!("\r\n{lines}\r\n\r\n"), 1)
    };
    for request in [
        with("/xmlrpc.php", "Content-Type: text/xml; charset=utf-7", "+ADw-methodCall+AD4-"),
        post("/xmlrpc.php", "<!DOCTYPE a [<!ENTITY m 'methodName'>]><a>&m;</a>"),
        post("/xmlrpc.php", "<methodCall>"),
        post("/api", "[1,2"),
        post("/api", "/**/[1,2]"),
        post("/api", "[\0]"),
    ] {
        let answer = gate.ask(&request);
        assert_eq!((answer.status, answer.closes()), (400, true), "{request:?}");
    }
    for coding in ["gzip", "br"] {
        let answer = gate.ask(with("/api", &format!("Content-Encoding: {coding}"), "[1]"));
        assert_eq!((answer.status, answer.closes()), (415, true), "{coding}");
    }
    assert_eq!(upstream.bytes(), b"");
    assert_eq!(gate.ask(with("/api", "Content-Encoding: identity", "[1]")).status, 200);
    assert_eq!(left(&gate), 9);
}

#[test]
fn the_body_of_a_refused_attempt_is_not_asked_for() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let head = "POST /api HTTP/1.1\r\nHost: app.test\r\nContent-Length: 4\r\n";
    let mut client = gate.connect();
    client.send(format!("{head}Expect: 100-continue\r\n\r\n"));
    assert_eq!(client.take(25).unwrap(), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("[10]");
    assert_eq!(client.answer().status, 200);
    assert_eq!(left(&gate), 9);
    let mut client = gate.connect();
    client.send(format!("{head}Expect: 100-continue\r\n\r\n"));
    let answer = client.answer();
    assert_eq!((answer.status, answer.interim.len(), answer.closes()), (429, 0, true));
    let mut silent = gate.connect();
    silent.send(format!("{head}\r\n"));
    assert_eq!(silent.answer().status, 429, "before a byte of the body is there");
    silent.send("[10]");
    silent.send(get_with("/other", ""));
    assert_eq!(silent.answer().status, 200, "what came late was the body and nothing else");
}

#[test]
fn a_route_that_the_body_may_choose_keeps_no_other_from_refusing_before_it_is_there() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(
        "[route.mail]\nmatch = [\"POST /login\", \"POST /lost\"]\nwhen = \"form:lost\"\n\
         [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n",
    ));
    let head = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 6\r\n\r\n"
        )
    };
    assert_eq!(gate.ask(head("/login") + "lost=a").status, 200);
    let mut silent = gate.connect();
    silent.send(head("/login"));
    assert_eq!(silent.answer().status, 429, "whatever the body is");
    for (body, status) in [("lost=a", 429), ("name=a", 200)] {
        assert_eq!(gate.ask(head("/lost") + body).status, status, "{body}");
    }
}

#[test]
fn each_attempt_is_decided_and_counted_once() {
    let upstream = Upstream::start();
    let indebted = TEN.replace("\"10 per 1h\"", "\"2 per 1h\"\ndebt = 5");
    let gate = Gate::start(&upstream.file(&indebted));
    let decided =
        |decision: &str| gate.metric("tollgate_decisions_total", &format!("decision=\"{decision}\""));
    assert_eq!(gate.ask(batch(2)).status, 200);
    assert!((decided("admit") - 1.0).abs() < 0.1 && decided("refuse") < 0.1);
    // Each refused attempt takes one more token, which is half an hour.
    for refused in 1..=5 {
        let wait = gate.ask(batch(1)).retry_after();
        let expected = 1800 * (refused + 1);
        assert!((expected - 5..=expected).contains(&wait), "{refused}: {wait}");
    }
    assert!((decided("refuse") - 5.0).abs() < 0.1 && (decided("admit") - 1.0).abs() < 0.1);
    let settled = gate.metric("tollgate_attempts_total", "outcome=\"neutral\"");
    assert!((settled - 1.0).abs() < 0.1);
}

#[test]
fn many_clients_with_batches_get_exactly_the_tokens() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&TEN.replace("10 per 1h", "60 per 1h")));
    let admitted: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let gate = &gate;
                scope.spawn(move || {
                    let mut client = gate.connect();
                    let admitted = |client: &mut support::Client| {
                        client.send(batch(3));
                        client.answer().status == 200
                    };
                    (0..10).filter(|_| admitted(&mut client)).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!((admitted, upstream.requests().len()), (20, 20));
}

#[test]
fn another_client_has_a_bucket_of_its_own_for_batches_too() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    assert_eq!(gate.ask(batch(10)).status, 200);
    let mut other = gate.connect_from(Ipv4Addr::new(127, 0, 0, 9));
    other.send(batch(10));
    let answer: Answer = other.answer();
    assert_eq!((answer.status, gate.ask(batch(1)).status), (200, 429));
}

#[test]
fn a_body_is_not_read_for_a_client_that_no_limit_could_refuse() {
    let upstream = Upstream::start();
    let body = "[1,".repeat(1000);
    for line in ["exempt = \"127.0.0.0/8\"", "mode = \"observe\"", "mode = \"off\""] {
        let gate = Gate::start(&upstream.file(&format!("{TEN}{line}\n")));
        for _ in 0..20 {
            let answer =
                gate.ask(post("/api", &body).replacen("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n", 1));
            assert_eq!(answer.status, 200, "{line}");
        }
        assert!(upstream.last().body == body.as_bytes());
    }
}

#[test]
fn a_slow_body_is_not_the_gates_own_time() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(TEN));
    let mut client = gate.connect();
    let started = Instant::now();
    client.send("POST /api HTTP/1.1\r\nHost: app.test\r\nContent-Length: 3\r\n\r\n");
    // The client's own slowness is what the test is about.
    std::thread::sleep(Duration::from_millis(600));
    client.send("[1]");
    assert_eq!(client.answer().status, 200);
    assert!(started.elapsed() >= Duration::from_millis(600));
    assert!(
        eventually(Duration::from_secs(5), || gate.metric("tollgate_request_duration_seconds_sum", "") > 0.5)
    );
    assert!(gate.metric("tollgate_added_seconds_sum", "") < 0.3);
}
