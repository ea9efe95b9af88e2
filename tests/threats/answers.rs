//! What an upstream may answer wrongly, and what its client gets then: a well-framed answer, a 502, or an answer that
//! visibly breaks off. Never a byte that belongs to another client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::time::Duration;

use support::{Gate, Reply, Upstream, get_with};

const QUICK: &str = "[proxy]\nthreads = 1\nheader_timeout = \"300ms\"\nidle_timeout = \"300ms\"\n";
const LONG: Duration = Duration::from_secs(10);

/// A30: an answer whose head says two things, or is none.
#[test]
fn an_answer_that_could_be_read_in_two_ways_is_a_502() {
    let chunks = "\r\n5\r\nabcde\r\n0\r\n\r\n";
    let answers = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n{chunks}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n{chunks}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n{chunks}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n{chunks}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n{chunks}"),
        format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n{chunks}"),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nContent-Length: 002\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 2\r\n\r\nok".into(),
        "HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 2\r\n\r\nok".into(),
        "HTTP/1.1 200 O\u{7}K\r\nContent-Length: 2\r\n\r\nok".into(),
        "HTTP/1.1 099 No\r\nContent-Length: 2\r\n\r\nok".into(),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".into(),
        "hello".into(),
    ];
    for answer in answers {
        let (seen, _) = answered(&answer, true);
        assert!(seen.starts_with(b"HTTP/1.1 502 "), "{answer:?}: {:?}", String::from_utf8_lossy(&seen));
    }
}

/// A30: an answer whose body is wrong is never one that came to its end.
#[test]
fn an_answer_whose_chunks_are_wrong_breaks_off() {
    for chunks in
        ["zz\r\n", "5\r\nabcdefg\r\n0\r\n\r\n", "5\r\nabcde\r\n+0\r\n\r\n", "5\nabcde\n0\n\n", "-1\r\n"]
    {
        let (seen, _) =
            answered(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"), false);
        // What is wrong from the beginning, and came with the head, is told from an answer.
        assert_eq!(seen.starts_with(b"HTTP/1.1 502 "), !chunks.starts_with("5\r\n"), "{chunks:?}");
        if !chunks.starts_with("5\r\n") {
            continue;
        }
        assert!(!seen.ends_with(b"0\r\n\r\n"), "{chunks:?}: {:?}", String::from_utf8_lossy(&seen));
        assert!(!seen.windows(15).any(|some| some == b"content-length:"));
    }
}

/// A30: bytes behind an answer, or where there is no body.
#[test]
fn bytes_behind_an_answer_reach_no_client() {
    let evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL";
    for (head, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "2\r\nok\r\n0\r\n\r\n"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "2\r\nok\r\n0\r\nX: y\r\nContent-Length: 9\r\n\r\n",
        ),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 44\r\n\r\n", ""),
        ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 44\r\n\r\n", ""),
    ] {
        let (seen, _) = answered(&format!("{head}{body}{evil}"), true);
        let seen = String::from_utf8(seen).unwrap();
        assert!(seen.starts_with(&head[..12]) && !seen.contains("EVIL"), "{head:?}: {seen:?}");
        assert_eq!(seen.matches("HTTP/1.1").count(), 1, "{seen:?}");
        let length = seen.contains("Content-Length:");
        assert!(length == head.contains("Content-Length: 2\r\n"), "a length only where it is one: {seen:?}");
    }
}

/// A30: the same, a moment later.
#[test]
fn bytes_that_come_behind_an_answer_reach_no_client() {
    let upstream = Upstream::answering(|bytes, _| {
        if !bytes.starts_with(b"GET /bad") {
            return Reply::ok();
        }
        let good = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood".to_vec();
        let evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL".to_vec();
        Reply::Pieces(vec![good, evil], Duration::from_millis(30))
    });
    let gate = Gate::start(&upstream.file(QUICK));
    assert_eq!(gate.ask(get_with("/bad", "")).text(), "good");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(gate.ask(get_with("/next", "")).text(), "ok");
}

/// A30: interim answers without an end.
#[test]
fn a_flood_of_interim_answers_is_a_502() {
    let some = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100);
    let (seen, _) = answered(&format!("{some}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), false);
    let seen = String::from_utf8(seen).unwrap();
    assert_eq!(seen.matches("HTTP/1.1 103 Early Hints\r\n").count(), 100, "a few are passed on");
    assert!(seen.contains("\r\n\r\nHTTP/1.1 200 OK\r\n") && seen.ends_with("ok"), "{seen}");
    let many = some.repeat(200);
    let (seen, _) = answered(&format!("{many}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), true);
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("\r\n\r\nHTTP/1.1 502 ") && !seen.contains("HTTP/1.1 200"), "{} bytes", seen.len());
}

/// A31: an answer that breaks off.
#[test]
fn a_truncated_answer_never_looks_whole() {
    for (answer, status) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "200"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", "200"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n", "200"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "200"),
        ("HTTP/1.1 200 OK\r\nContent-Le", "502"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "502"),
        ("", "502"),
    ] {
        for version in ["1.1", "1.0"] {
            let (seen, peace) = broken_off(answer, version);
            let text = String::from_utf8_lossy(&seen).into_owned();
            assert!(text.get(9..12).is_none_or(|code| code == status), "{answer:?}: {text:?}");
            if status == "502" {
                continue;
            }
            assert!(!text.ends_with("0\r\n\r\n"), "{answer:?}: {text:?}");
            let length: Option<usize> = text
                .split("Content-Length: ")
                .nth(1)
                .map(|rest| rest.split("\r\n").next().unwrap().parse().unwrap());
            let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
            let is_framed = length.is_some_and(|length| length > body) || text.contains("chunked");
            assert!(is_framed || !peace, "HTTP/{version}, {answer:?}: a clean end of {text:?}");
        }
    }
}

/// What a client gets for this answer, whose connection is not used again, and whether it ended in peace; after it
/// another client gets its own answer.
fn answered(answer: &str, all_at_once: bool) -> (Vec<u8>, bool) {
    let bytes = answer.as_bytes().to_vec();
    let upstream = Upstream::answering(move |request, _| {
        if request.starts_with(b"GET /bad") { Reply::Bytes(bytes.clone()) } else { Reply::ok() }
    });
    let seen = ask(&upstream, "1.1");
    if all_at_once {
        assert_eq!(upstream.connections().len(), 2, "{answer:?}: the connection is not used again");
    }
    seen
}

/// The same for an upstream that closes its connection then.
fn broken_off(answer: &str, version: &str) -> (Vec<u8>, bool) {
    let bytes = answer.as_bytes().to_vec();
    let upstream = Upstream::answering(move |request, _| {
        if request.starts_with(b"GET /bad") { Reply::BytesAndClose(bytes.clone()) } else { Reply::ok() }
    });
    ask(&upstream, version)
}

fn ask(upstream: &Upstream, version: &str) -> (Vec<u8>, bool) {
    let gate = Gate::start(&upstream.file(QUICK));
    let mut client = gate.connect();
    client.send(format!("GET /bad HTTP/{version}\r\nHost: app.test\r\n\r\n"));
    let (seen, end) = client.all_until_the_end(LONG);
    let other = gate.ask(get_with("/next", ""));
    assert_eq!((other.status, other.text()), (200, "ok".to_owned()), "another client");
    (seen, end.expect("the connection ends"))
}
