//! What an honest client and an honest application get through the gate: whole bodies and answers in order, from one upstream
//! or from several that share the work.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use support::{Gate, ONE_AN_HOUR, Reply, Upstream, eventually, free_port, get_with, new_directory, post};

fn with_length(body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// Bytes in which a shift or a swap would show.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

#[test]
fn large_bodies_pass_both_ways_byte_for_byte() {
    let down = pattern(3_000_000);
    let answer = with_length(&down);
    let upstream = Upstream::answering(move |_, _| Reply::Bytes(answer.clone()));
    let gate = Gate::start(&upstream.file(""));
    let up = pattern(1_000_000);
    let head = format!("POST /upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n", up.len());
    let got = gate.ask([head.as_bytes(), &up].concat());
    assert_eq!((got.status, got.body.len()), (200, down.len()));
    assert!(got.body == down, "the answer came through unchanged");
    assert!(upstream.last().body == up, "the upload came through unchanged");
}

#[test]
fn a_slow_upload_may_take_longer_than_the_reply_time_out() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nreply_timeout = \"300ms\"\n"));
    let mut client = gate.connect();
    client.send("POST /upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\n");
    for byte in 0..10 {
        // As slow as the test is about.
        std::thread::sleep(Duration::from_millis(80));
        client.send([b'0' + byte]);
    }
    assert_eq!(client.answer().status, 200);
    assert_eq!(upstream.last().body, b"0123456789");
}

#[test]
fn an_upload_that_stops_is_a_408_within_the_body_time_out() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nbody_timeout = \"300ms\"\n"));
    let mut client = gate.connect();
    client.send("POST /upload HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\n012");
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (408, true));
}

#[test]
fn an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole() {
    let upstream = Upstream::answering(|_, _| {
        Reply::text_and_close("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    });
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send(get_with("/", ""));
    assert!(client.try_answer().is_none(), "the client is not told that this was all");
}

#[test]
fn a_head_request_gets_the_headers_alone() {
    let upstream = Upstream::answering(|_, _| Reply::text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    for _ in 0..2 {
        client.send("HEAD / HTTP/1.1\r\nHost: app.test\r\n\r\n");
        let answer = client.answer_to_head();
        assert_eq!((answer.status, answer.header("content-length")), (200, Some("5")));
    }
}

#[test]
fn a_connection_to_the_upstream_is_used_again() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut client = gate.connect();
    for _ in 0..20 {
        client.send(post("/x", "a=b"));
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!((upstream.connections().len(), upstream.requests().len()), (1, 20));
}

#[test]
fn requests_in_one_packet_are_answered_in_order() {
    let upstream = Upstream::answering(|request, _| {
        let line = request.split(|&byte| byte == b'\r').next().unwrap();
        Reply::Bytes(with_length(line))
    });
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    let mut client = gate.connect();
    let packet: String = (0..5).map(|number| get_with(&format!("/{number}"), "")).collect();
    client.send(packet);
    for number in 0..5 {
        assert_eq!(client.answer().text(), format!("GET /{number} HTTP/1.1"));
    }
}

#[test]
fn the_least_busy_upstream_gets_the_request() {
    let slow = Upstream::answering(|_, _| Reply::Silence);
    let fast = Upstream::start();
    let gate = Gate::start(&format!(
        "upstream = [\"http://{}\", \"http://{}\"]\n[proxy]\nthreads = 1\n",
        slow.address, fast.address
    ));
    // One request after the other, so that the fast one is busy with none when one waits for the slow one, which never
    // answers.
    let mut client = gate.connect();
    while slow.requests().is_empty() {
        let answered = fast.requests().len();
        client.send(get_with("/", ""));
        let has_arrived = || !slow.requests().is_empty() || fast.requests().len() > answered;
        assert!(eventually(Duration::from_secs(10), has_arrived));
        if slow.requests().is_empty() {
            assert_eq!(client.answer().status, 200);
        }
    }
    for _ in 0..10 {
        assert_eq!(gate.ask(get_with("/", "")).status, 200);
    }
    assert_eq!(slow.requests().len(), 1, "no request went to the busy one");
}

#[test]
fn an_upstream_that_is_away_is_passed_over_and_found_again() {
    let port = free_port();
    let here = Upstream::start();
    let gate = Gate::start(&format!(
        "upstream = [\"http://127.0.0.1:{port}\", \"http://{}\"]\n[proxy]\nthreads = 1\n",
        here.address
    ));
    for _ in 0..10 {
        assert_eq!(gate.ask(post("/x", "a=b")).status, 200, "no client notices");
    }
    assert!(gate.metric("tollgate_upstream_up", &format!(":{port}")) < 0.5);
    let back = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = back.accept().unwrap();
        let mut request = [0; 2048];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(&with_length(b"back")).unwrap();
        length > 0
    });
    let is_back = eventually(Duration::from_secs(10), || gate.ask(get_with("/", "")).text() == "back");
    assert!(is_back && serving.join().unwrap());
}

#[test]
fn a_route_may_have_an_upstream_of_its_own() {
    let (site, forms) = (Upstream::start(), Upstream::start());
    let own = format!(
        "[route.forms]\nmatch = \"ANY /forms/**\"\nupstream = \"http://{}\"\nlimits = []\n",
        forms.address
    );
    let gate = Gate::start(&format!("{}{own}", site.file(ONE_AN_HOUR)));
    for target in ["/forms/a", "/forms/%61/../b", "//forms/c"] {
        assert_eq!(gate.ask(get_with(target, "")).status, 200);
        assert!(forms.saw(&format!("GET {target} HTTP/1.1")), "{target}");
    }
    // Only a lenient server would take these for it: they stay where everything else goes.
    for target in ["/Forms/a", "/forms;x/a", "/x/..;/forms/a", "/forms%2fa"] {
        assert_eq!(gate.ask(get_with(target, "")).status, 200);
        assert!(site.saw(&format!("GET {target} HTTP/1.1")), "{target}");
    }
}

#[test]
fn an_upstream_on_a_unix_socket_is_reached() {
    let path = new_directory().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 2048];
            while stream.read(&mut request).is_ok_and(|length| length > 0) {
                stream.write_all(&with_length(b"by socket")).unwrap();
            }
        }
    });
    let gate = Gate::start(&format!("upstream = \"unix:{}\"\n", path.display()));
    assert_eq!(gate.ask(get_with("/", "")).text(), "by socket");
}

#[test]
fn a_client_without_a_host_in_http_1_0_is_served() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    assert_eq!(gate.ask("GET /health HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(upstream.last().only("host"), upstream.address.to_string());
}

#[test]
fn an_upstream_that_is_away_at_the_start_is_told_at_once() {
    let here = Upstream::start();
    let port = free_port();
    let gate =
        Gate::start(&format!("upstream = [\"http://127.0.0.1:{port}\", \"http://{}\"]\n", here.address));
    let words = format!("the upstream http://127.0.0.1:{port} cannot be reached: Connection refused");
    assert!(eventually(Duration::from_secs(5), || gate.messages().contains(&words)), "{}", gate.messages());
    assert!(!gate.messages().contains(&format!("{} cannot be reached", here.address)));
    assert_eq!(here.connections().len(), 0, "it sends nothing");
}
