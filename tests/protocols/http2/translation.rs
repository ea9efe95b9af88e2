//! What HTTP/2 can say and HTTP/1.1 must not hear.

use std::time::Duration;

use support::authority::Authority;
use support::frames::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Raw, asks, block, frame};
use support::{Gate, ONE_AN_HOUR, Upstream, eventually};

/// How the gate answers this head: the first byte of the block is enough to tell 200 from the rest.
fn told(gate: &Gate, authority: &Authority, headers: &[(&str, &str)]) -> Option<u8> {
    let mut client = Raw::connect(authority, gate.tls);
    assert!(client.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(headers))));
    let ends = |frame: &support::frames::Frame| matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY);
    let (frames, found) = client.until(Duration::from_secs(5), ends);
    let last = frames.into_iter().next_back().filter(|_| found)?;
    (last.kind == HEADERS).then(|| last.payload[0])
}

/// The index of `:status: 200` in HPACK's static table.
const OK: u8 = 0x88;

/// B6: heads that would be other requests in HTTP/1.1.
#[test]
fn no_head_becomes_another_request_on_its_way_to_http_1() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let plain = asks("GET", "/");
    let with = |name, value| [&plain[..], &[(name, value)]].concat();
    let instead = |at: usize, value| {
        let mut headers = plain.to_vec();
        headers[at].1 = value;
        headers
    };
    let wrong = [
        with("x-a", "1\r\nx-injected: 2"),
        with("x-a", "1\nb"),
        with("x-a", "1\0b"),
        with("x-a", " 1"),
        with("x-a", "1\t"),
        with("x-a: b", "1"),
        with("x a", "1"),
        with("X-Upper", "1"),
        with("", "1"),
        with("x-a\r\nx-b", "1"),
        with("transfer-encoding", "chunked"),
        with("connection", "close"),
        with("upgrade", "websocket"),
        with("keep-alive", "1"),
        with("proxy-connection", "keep-alive"),
        with("te", "gzip"),
        with("content-length", "5"),
        with("content-length", "+0"),
        with("host", "other.test"),
        with(":path", "/second"),
        with(":unknown", "x"),
        instead(0, "GET / HTTP/1.1\r\nx: y"),
        instead(0, "G ET"),
        instead(0, ""),
        instead(1, "ftp"),
        instead(2, "app.test\r\nx: y"),
        instead(2, "user@app.test"),
        instead(2, "app.test/x"),
        instead(2, ""),
        instead(3, "/ HTTP/1.1\r\nx: y"),
        instead(3, "/a b"),
        instead(3, "/a\0b"),
        instead(3, ""),
        instead(3, "a"),
        instead(3, "*"),
        [&plain[..], &[("content-length", "0"), ("content-length", "0")]].concat(),
        [&plain[..], &[("host", "app.test"), ("host", "app.test")]].concat(),
        plain[..3].to_vec(),
        plain[1..].to_vec(),
    ];
    for headers in &wrong {
        assert_ne!(told(&gate, &authority, headers), Some(OK), "{headers:?}");
    }
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
    assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
}

/// B6: what has another form there.
#[test]
fn a_good_head_arrives_in_the_form_of_http_1() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut headers = asks("GET", "/a%2fb?c=d").to_vec();
    headers.extend([
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("te", "trailers"),
        ("x-forwarded-for", "6.6.6.6"),
    ]);
    assert_eq!(told(&gate, &authority, &headers), Some(OK));
    let seen = upstream.last();
    assert_eq!(
        (seen.target.as_str(), seen.only("host"), seen.only("cookie")),
        ("/a%2fb?c=d", "app.test", "a=1; b=2")
    );
    assert!(seen.all("te").is_empty());
    assert_eq!(seen.only("x-forwarded-for"), "127.0.0.1");
    let without_authority =
        [(":method", "GET"), (":scheme", "https"), (":path", "/"), ("host", "other.test")];
    assert_eq!(told(&gate, &authority, &without_authority), Some(OK));
    assert_eq!(upstream.last().only("host"), "other.test");
    assert_ne!(told(&gate, &authority, &[(":method", "CONNECT"), (":authority", "app.test:443")]), Some(OK));
}

/// B6: a body that is longer or shorter than it says.
#[test]
fn a_body_of_another_length_is_no_request() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    for (length, body) in [("3", "hello"), ("9", "hello")] {
        let mut client = Raw::connect(&authority, gate.tls);
        let head = [&asks("POST", "/upload")[..], &[("content-length", length)]].concat();
        assert!(client.send(&frame(HEADERS, END_HEADERS, 1, &block(&head))));
        assert!(client.send(&frame(DATA, END_STREAM, 1, body.as_bytes())));
        let (frames, _) =
            client.until(Duration::from_secs(5), |frame| matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY));
        assert!(!frames.iter().any(|frame| frame.kind == HEADERS && frame.payload[0] == OK), "{frames:?}");
    }
    // What had left by then is cut off, and never whole.
    assert!(
        upstream
            .connections()
            .iter()
            .all(|bytes| !bytes.ends_with(b"hello") && !bytes.ends_with(b"0\r\n\r\n"))
    );
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
}
