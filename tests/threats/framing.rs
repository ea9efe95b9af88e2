//! Where a request begins and ends: the gate and the upstream must never disagree about it.
//!
//! The upstream's bytes are read by the strict parser of `support`, which fails on anything that two servers could
//! read differently, so most tests only have to send something bad and look at what came out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::io::Write;
use std::time::Duration;

use support::{Gate, ONE_AN_HOUR, Reply, Upstream, get_with, post, post_with};

const SMUGGLED: &str = "POST /smuggled HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n";

/// A1: Content-Length beside Transfer-Encoding.
#[test]
fn a_length_beside_chunks_frames_nothing_and_ends_the_connection() {
    both_framings("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n");
}

/// A2: the same in the other order.
#[test]
fn a_length_after_chunks_frames_nothing_and_ends_the_connection() {
    both_framings("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n");
}

fn both_framings(lines: &str) {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send(format!("POST /form HTTP/1.1\r\nHost: app.test\r\n{lines}\r\n0\r\n\r\n{SMUGGLED}"));
    let answer = client.answer();
    assert!(matches!(answer.status, 200 | 400), "{answer:?}");
    assert!(client.ends_within(Duration::from_secs(5)), "the connection ends after such a request");
    assert!(upstream.requests().len() <= 1);
    assert!(!upstream.saw("/smuggled"), "what follows is no request");
}

/// A3: transfer codings that the gate does not decode.
#[test]
fn a_transfer_coding_other_than_chunked_is_refused() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let codings = [
        "identity",
        "gzip",
        "identity, chunked",
        "gzip, chunked",
        "chunked, chunked",
        "chunked, identity",
        "chunked,",
        ",chunked",
        "chunked;x",
        "chunked;q=1",
        "\"chunked\"",
        "xchunked",
        "chunke",
        "chunked chunked",
        "\u{b}chunked",
    ];
    for coding in codings {
        let request = format!(
            "POST /form HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n{SMUGGLED}"
        );
        let mut client = gate.connect();
        client.send_what_goes(request.as_bytes());
        let answer = client.try_answer();
        assert!(answer.is_none_or(|answer| matches!(answer.status, 400 | 501)), "{coding:?} is refused");
        assert!(client.ends_within(Duration::from_secs(5)), "{coding:?} ends the connection");
    }
    for lines in ["Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: \r\n"] {
        let answer = gate.try_ask(format!("POST /form HTTP/1.1\r\nHost: app.test\r\n{lines}\r\n0\r\n\r\n"));
        assert!(answer.is_none_or(|answer| matches!(answer.status, 400 | 501)), "{lines:?} is refused");
    }
    assert_eq!(upstream.bytes(), b"", "nothing of them reached the upstream");
}

/// A3: the one coding that counts may be written in any case.
#[test]
fn chunked_in_any_case_is_framed_anew() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for coding in ["chunked", "Chunked", "CHUNKED"] {
        let head = format!("POST /form HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: {coding}\r\n\r\n");
        let answer = gate.ask(format!("{head}0005;ext=\"a b\"\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n"));
        assert_eq!(answer.status, 200, "{coding}");
        assert_eq!(upstream.last().body, b"hello");
    }
    assert!(!upstream.saw("ext="), "chunk extensions are dropped");
    assert!(upstream.saw("\r\n0\r\nX-Trailer: 1\r\n\r\n"), "trailers stay trailers");
}

/// A4: Transfer-Encoding in disguise.
#[test]
fn a_disguised_transfer_encoding_never_reaches_the_upstream() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let disguises = [
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding\0: chunked",
        "Transfer_Encoding: chunked",
        "transfer_encoding: chunked",
        "Transfer.Encoding: chunked",
        " Transfer-Encoding: chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "Content_Length: 5",
        "Content-Length : 5",
    ];
    for disguise in disguises {
        let request = format!(
            "POST /form HTTP/1.1\r\nHost: app.test\r\n{disguise}\r\nContent-Length: {}\r\n\r\n{SMUGGLED}",
            SMUGGLED.len()
        );
        let answer = gate.try_ask(request);
        assert!(answer.is_none_or(|answer| matches!(answer.status, 200 | 400 | 501)), "{disguise:?}");
        for request in upstream.requests() {
            assert_ne!(request.target, "/smuggled", "{disguise:?}");
            let names = request.names_as_cgi();
            let count = |wanted| names.iter().filter(|name| *name == wanted).count();
            assert!(count("TRANSFER_ENCODING") + count("CONTENT_LENGTH") <= 1, "{disguise:?}: {names:?}");
        }
        upstream.forget();
    }
}

/// A5: HTTP/1.0 has no chunks.
#[test]
fn chunks_in_http_1_0_are_refused() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let request = "POST /form HTTP/1.0\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(gate.ask(request).status, 400);
    assert_eq!(upstream.bytes(), b"");
}

/// A20: exactly one valid Host.
#[test]
fn a_request_without_exactly_one_valid_host_is_refused() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let hosts = [
        "",
        "Host: \r\n",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nHost: b\r\n",
        "Host: a, b\r\n",
        "Host: a,b\r\n",
        "Host: user@a\r\n",
        "Host: user:pw@a\r\n",
        "Host: a/b\r\n",
        "Host: a b\r\n",
        "Host: a?b\r\n",
        "Host: a#b\r\n",
        "Host: a\\b\r\n",
        "Host: [::1\r\n",
        "Host: ::1\r\n",
        "Host: a:b\r\n",
        "Host: a:99999\r\n",
        "Host: a:1:2\r\n",
        "Host: \u{e9}.test\r\n",
        "Host: a\0b\r\n",
        "Host: a\u{1}b\r\n",
        "Host: <a>\r\n",
        "Host: \"a\"\r\n",
        "Host: :80\r\n",
        "Host: a\r\n b\r\n",
        "Host : a\r\n",
        "Host: a|b\r\n",
        "Host: a%00b\r\n",
    ];
    let passes = |lines: &&str| {
        let answer = gate.try_ask(format!("GET / HTTP/1.1\r\n{lines}\r\n"));
        answer.is_some_and(|answer| answer.status != 400)
    };
    let passed: Vec<_> = hosts.into_iter().filter(passes).collect();
    assert!(passed.is_empty(), "{passed:?}");
    assert_eq!(upstream.bytes(), b"", "nothing of them reached the upstream");
}

/// A20: what browsers send, and HTTP/1.0, whose clients may leave the Host out.
#[test]
fn an_honest_host_is_kept_as_it_was_sent() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for host in [
        "app.test",
        "APP.test:8080",
        "127.0.0.1:80",
        "[::1]",
        "[2001:db8::1]:8443",
        "a_b.test",
        "xn--e9.test",
    ] {
        assert_eq!(gate.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).status, 200, "{host}");
        assert_eq!(upstream.last().only("host"), host);
    }
    upstream.forget();
    let answer = gate.ask("GET / HTTP/1.0\r\n\r\n");
    assert!(matches!(answer.status, 200 | 400), "{answer:?}");
    // The strict parser has seen to it that what reached the upstream has a Host.
    assert!(upstream.requests().len() <= 1);
}

/// A22: bytes after `Upgrade`, before anybody agreed to it.
#[test]
fn what_follows_a_refused_upgrade_is_the_next_request() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    upstream.forget();
    let mut client = gate.connect();
    let upgrade =
        get_with("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    client.send(upgrade + &post("/login", "a=b"));
    assert_eq!(client.answer().status, 200, "the upstream does not change protocols");
    if let Some(second) = client.try_answer() {
        assert_eq!(second.status, 429, "the bytes behind it are charged like any request");
    }
    assert!(!upstream.saw("/login"), "and do not reach the upstream as a stowaway");
}

/// A22: an upgrade that the upstream agrees to becomes a tunnel.
#[test]
fn an_accepted_upgrade_becomes_a_tunnel() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let upstream = Upstream::answering(|_, _| Reply::Echo(switch.into()));
    let gate = Gate::start(&upstream.file(""));
    let mut client = gate.connect();
    client.send(get_with("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    assert_eq!(client.answer().status, 101);
    client.send("ping");
    assert_eq!(client.take(4).as_deref(), Some(&b"ping"[..]));
}

/// A22: HTTP/2 by upgrade would be a tunnel past every limit.
#[test]
fn an_upgrade_to_http_2_is_never_offered_to_the_upstream() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let lines =
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n";
    assert_eq!(gate.ask(get_with("/", lines)).status, 200);
    let request = upstream.last();
    assert_eq!((request.only("upgrade"), request.only("http2-settings")), ("", ""));
}

/// A25: an early refusal whose unread body holds requests.
#[test]
fn no_request_is_born_from_the_body_of_a_refused_attempt() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    upstream.forget();
    let many = SMUGGLED.repeat(40);
    let large = SMUGGLED.repeat(6000);
    let chunked = format!("{:x}\r\n{many}\r\n0\r\n\r\n", many.len());
    let head = |lines: &str| format!("POST /login HTTP/1.1\r\nHost: app.test\r\n{lines}\r\n");
    let shapes = [
        head(&format!("Content-Length: {}\r\n", many.len())) + &many,
        head(&format!("Content-Length: {}\r\n", large.len())) + &large,
        head("Transfer-Encoding: chunked\r\n") + &chunked,
        head(&format!("Expect: 100-continue\r\nContent-Length: {}\r\n", many.len())) + &many,
        head(&format!("Content-Length: {}\r\n", many.len() + 100)) + &many,
        head("Transfer-Encoding: chunked\r\n") + &chunked[..chunked.len() / 2],
    ];
    for shape in shapes {
        let mut client = gate.connect();
        let mut sender = client.sender();
        let sending = std::thread::spawn(move || {
            let _ = sender.write_all(shape.as_bytes());
        });
        assert_eq!(client.answer().status, 429);
        sending.join().unwrap();
        client.finish();
        let rest = client.rest(Duration::from_secs(5));
        assert_eq!(String::from_utf8_lossy(&rest), "", "there is one answer to one request");
    }
    assert!(!upstream.saw("/smuggled"));
}

/// A25: pipelined behind a refused attempt, a real request is answered, or the connection ends.
#[test]
fn a_request_behind_a_refused_one_is_answered_in_its_turn() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut client = gate.connect();
    client.send(post("/login", "user=a") + &get_with("/behind", ""));
    assert_eq!(client.answer().status, 429);
    match client.try_answer() {
        Some(answer) => assert_eq!(answer.status, 200),
        None => assert!(!upstream.saw("/behind")),
    }
}

/// A26: a refusal must not be lost because the client is still sending.
#[test]
fn a_client_that_is_still_sending_its_body_can_read_the_refusal() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut client = gate.connect();
    client.send("POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 40000\r\n\r\n");
    for _ in 0..4 {
        client.send([b'x'; 10_000]);
        // The body comes late and in pieces: that is the attack.
        std::thread::sleep(Duration::from_millis(30));
    }
    let answer = client.answer();
    assert_eq!(answer.status, 429);
    if answer.closes() {
        assert!(client.ends_well_within(Duration::from_secs(5)), "the connection ends without a reset");
    } else {
        client.send(get_with("/next", ""));
        assert_eq!(client.answer().status, 200);
    }
}

/// A26: a connection that closes after a refusal does not take the refusal back with a reset.
#[test]
fn a_client_that_sends_on_after_a_refusal_is_not_met_with_a_reset() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut client = gate.connect();
    client.send("POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 200000\r\n\r\n");
    for _ in 0..4 {
        // Each piece arrives after the gate has said all it has to say.
        std::thread::sleep(Duration::from_millis(30));
        client.send([b'x'; 10_000]);
    }
    let answer = client.answer();
    assert!(answer.status == 429 && answer.closes(), "{answer:?}");
    client.finish();
    assert!(client.ends_well_within(Duration::from_secs(5)), "the connection ends without a reset");
}

/// A26: the rest of a large body is not read for ever.
#[test]
fn a_large_refused_body_is_not_read_to_its_end() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut client = gate.connect();
    let mut sender = client.sender();
    client.send("POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 100000000\r\n\r\n");
    let sending = std::thread::spawn(move || {
        let piece = [b'x'; 100_000];
        (0..1000).take_while(|_| sender.write_all(&piece).is_ok()).count()
    });
    let answer = client.answer();
    assert_eq!(answer.status, 429);
    assert!(answer.closes(), "the client is told that the connection ends: {answer:?}");
    assert!(sending.join().unwrap() < 200, "100 MB were taken from a refused client");
}

/// A26: a client that stops sending is not waited for.
#[test]
fn the_wait_for_the_rest_of_a_refused_body_is_short() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut client = gate.connect();
    client.send("POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\nx");
    assert_eq!(client.answer().status, 429);
    assert!(
        client.ends_within(Duration::from_secs(5)),
        "2 seconds for the rest, and 2 for the client to close"
    );
}

/// A28: `Connection` naming headers that are not hop-by-hop.
#[test]
fn a_client_cannot_remove_our_headers_by_naming_them_in_connection() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let named =
        "X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Request-Id, Host, Content-Length, Cookie";
    let lines = format!(
        "Connection: {named}, X-Hop\r\nConnection: keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTrailer: X\r\n"
    );
    let request = format!("POST /form HTTP/1.1\r\nHost: app.test\r\n{lines}Content-Length: 5\r\n\r\nhello");
    assert_eq!(gate.ask(request).status, 200);
    let request = upstream.last();
    assert_eq!(request.only("host"), "app.test");
    assert_eq!(request.body, b"hello");
    assert_eq!(request.only("x-forwarded-for"), "127.0.0.1");
    assert_eq!(request.only("x-forwarded-proto"), "http");
    assert_eq!(request.only("x-forwarded-host"), "app.test");
    assert_ne!(request.only("x-request-id"), "");
    for name in ["x-hop", "keep-alive", "te", "proxy-connection", "proxy-authorization", "trailer"] {
        assert_eq!(request.only(name), "", "{name} is for one hop only");
    }
}

/// A32: a kept upstream connection that breaks under a POST.
#[test]
fn a_post_that_may_have_been_sent_is_never_sent_twice() {
    let upstream = Upstream::answering(|_, number| match number {
        0 => Reply::ok(),
        _ => Reply::BytesAndClose(Vec::new()),
    });
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut client = gate.connect();
    client.send(get_with("/first", ""));
    assert_eq!(client.answer().status, 200);
    client.send(post("/form", "once=1"));
    let answer = client.answer();
    assert!(matches!(answer.status, 200 | 502), "{answer:?}");
    let posts = upstream.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(posts, 1, "the upstream saw it once");
}

/// A32: an upstream that closes its idle connections must not cost anybody an answer.
#[test]
fn a_kept_connection_that_the_upstream_closed_is_not_used_again() {
    let upstream =
        Upstream::answering(|_, _| Reply::text_and_close("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let gate = Gate::start(&upstream.file("[proxy]\nthreads = 1\n"));
    let mut client = gate.connect();
    for number in 0..5 {
        client.send(post_with("/form", &format!("X-Number: {number}\r\n")));
        assert_eq!(client.answer().status, 200);
        // The FIN has to travel before the next request; this is about connections that are known to be closed.
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(upstream.requests().len(), 5);
}
