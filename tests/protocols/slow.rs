//! Slow clients: what they send and read holds no connection to the application for as long as they take.

use std::time::Duration;

use support::authority::Authority;
use support::frames::{Raw, request};
use support::{Gate, Reply, Upstream, eventually};

const SLOW: &str = "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n";

/// Whether the application gets the head of a request whose body stays away.
fn streams(tables: &str, sent: usize) -> bool {
    let upstream = Upstream::answering(|_, _| Reply::ok());
    let gate = Gate::start(&upstream.file(tables));
    let mut slow = gate.connect();
    slow.send(SLOW);
    slow.send("x".repeat(sent));
    let came = eventually(Duration::from_millis(500), || upstream.saw("POST /upload"));
    // The rest arrives behind it either way.
    slow.send("x".repeat(2000 - sent));
    assert_eq!(slow.answer().status, 200);
    assert_eq!(upstream.last().body.len(), 2000);
    came
}

#[test]
fn an_upload_takes_a_connection_once_it_is_whole_or_fills_its_buffer() {
    assert!(!streams("", 1999), "all but the last byte");
    assert!(!streams("[proxy]\nrequest_buffer = \"1KiB\"\n", 1000));
    assert!(streams("[proxy]\nrequest_buffer = \"1KiB\"\n", 1500), "more than the buffer");
    assert!(streams("[proxy]\nrequest_buffer = \"off\"\n", 10));
    let route =
        "[route.upload]\nmatch = \"POST /upload\"\nbuffer = \"off\"\n[limit.a]\nrate = \"9 per 1m\"\n";
    assert!(streams(route, 10), "by route");
}

#[test]
fn four_slow_uploads_leave_an_application_of_four_workers_to_others() {
    let upstream = Upstream::answering(|_, _| Reply::ok());
    let gate = Gate::start(&upstream.file("[proxy]\nupstream_max = 4\nconnect_timeout = \"500ms\"\n"));
    let mut slow: Vec<_> = (0..8).map(|_| gate.connect()).collect();
    for client in &mut slow {
        client.send(SLOW);
        client.send("x");
    }
    for _ in 0..20 {
        assert_eq!(gate.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    }
    for mut client in slow {
        client.send("x".repeat(1999));
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_chunked_upload_that_came_in_time_has_a_length_and_keeps_its_trailers() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for (end, framing) in [("0\r\n\r\n", "Content-Length"), ("0\r\nX-Sum: 7\r\n\r\n", "Transfer-Encoding")] {
        let mut client = gate.connect();
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n\r\n3\r\nabc\r\n",
        );
        std::thread::sleep(Duration::from_millis(100));
        client.send("2\r\nde\r\n");
        client.send(end);
        assert_eq!(client.answer().status, 200);
        let request = upstream.last();
        assert_eq!(request.body, b"abcde");
        assert!(request.headers.iter().any(|(name, _)| name == framing), "{:?}", request.headers);
    }
    assert!(upstream.saw("X-Sum: 7"));
}

#[test]
fn who_leaves_an_upload_behind_reaches_no_application() {
    let upstream = Upstream::answering(|_, _| Reply::ok());
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send(SLOW);
    client.send("x");
    drop(client);
    let is_counted = || gate.metric("tollgate_requests_total", "code=\"400\"") == 1.0;
    assert!(eventually(Duration::from_secs(5), is_counted), "{}", gate.metrics());
    assert!(upstream.connections().is_empty());
}

/// Whether another client is served by an application of one worker, while the first does not read its long answer.
fn serves_beside_a_slow_reader(tables: &str, read_by: impl Fn(&Gate) -> Box<dyn Send>) -> bool {
    let upstream = Upstream::answering(|request, _| match request.starts_with(b"GET /long ") {
        true => Reply::Bytes(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n".to_vec(), vec![b'x'; 20_000_000]]
                .concat(),
        ),
        false => Reply::ok(),
    });
    let gate = Gate::start(&upstream.file(&format!(
        "[proxy]\nupstream_max = 1\nconnect_timeout = \"1s\"\nbody_memory = \"256MiB\"\n{tables}"
    )));
    let reader = read_by(&gate);
    assert!(eventually(Duration::from_secs(5), || upstream.saw("GET /long")));
    let is_served = (0..3).any(|_| gate.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200);
    drop(reader);
    is_served
}

#[test]
fn an_answer_is_read_ahead_of_a_client_that_does_not_read() {
    let over_http1 = |gate: &Gate| -> Box<dyn Send> {
        let mut client = gate.connect();
        client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
        Box::new(client)
    };
    assert!(serves_beside_a_slow_reader("response_buffer = \"32MiB\"\n", over_http1));
    assert!(!serves_beside_a_slow_reader("response_buffer = \"off\"\n", over_http1), "what no buffer holds");
}

#[test]
fn an_answer_over_http2_is_read_ahead_of_its_window() {
    let is_served = |tables: &str| {
        let authority = Authority::new();
        let upstream = Upstream::answering(|request, _| match request.starts_with(b"GET /long ") {
            true => Reply::Bytes(
                [b"HTTP/1.1 200 OK\r\nContent-Length: 230000\r\n\r\n".to_vec(), vec![b'x'; 230_000]].concat(),
            ),
            false => Reply::ok(),
        });
        let proxy = format!("[proxy]\nupstream_max = 1\nconnect_timeout = \"1s\"\n{tables}");
        let gate = authority.gate(&["app.test"], &upstream.file(&proxy));
        let mut client = Raw::connect(&authority, gate.tls);
        assert!(client.send(&request(1, "GET", "/long")));
        assert!(eventually(Duration::from_secs(5), || upstream.saw("GET /long")));
        let is_served = (0..3).any(|_| gate.ask("GET / HTTP/1.1\r\nHost: app.test\r\n\r\n").status == 200);
        assert!(client.is_alive());
        is_served
    };
    assert!(is_served(""));
    assert!(!is_served("response_buffer = \"off\"\n"), "what no buffer holds");
}

#[test]
fn a_stream_of_events_may_be_silent_and_any_other_answer_may_not() {
    let upstream = Upstream::answering(|request, _| {
        let kind = if request.starts_with(b"GET /events") { "text/event-stream" } else { "text/plain" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 8\r\n\r\n1234");
        Reply::Pieces(vec![head.into_bytes(), b"5678".to_vec()], Duration::from_millis(1500))
    });
    let gate = Gate::start(&upstream.file(
        "[proxy]\nreply_timeout = \"300ms\"\n\
         [route.patient]\nmatch = \"GET /patient\"\nreply_timeout = \"10s\"\n\
         [route.hasty]\nmatch = \"GET /events/hasty\"\nreply_timeout = \"300ms\"\n\
         [limit.a]\nrate = \"99 per 1m\"\n",
    ));
    for (target, is_whole) in
        [("/events", true), ("/page", false), ("/patient", true), ("/events/hasty", false)]
    {
        let mut client = gate.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let (bytes, _) = client.all_until_the_end(Duration::from_secs(5));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("1234"), "{target}: {text}");
        assert_eq!(text.ends_with("12345678"), is_whole, "{target}: {text}");
    }
}
