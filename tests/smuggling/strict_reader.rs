//! The second opinion has to be right itself: the strict reader of `support` on what it must and must not accept,
//! and the client and upstream of `support` on each other, without a gate between them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::time::Duration;

use support::{Client, Upstream, get_with, parse, post};

#[test]
fn clean_requests_are_read() {
    let two = post("/a?b=c", "hello")
        + "POST /c HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n";
    let recorded = parse(two.as_bytes()).unwrap();
    let bodies: Vec<&[u8]> = recorded.requests.iter().map(|request| request.body.as_slice()).collect();
    assert_eq!(bodies, [&b"hello"[..], b"0123456789"]);
    assert!(!recorded.disconnected);
    assert!(parse(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").is_ok());
}

#[test]
fn a_request_that_is_cut_off_is_not_ambiguous() {
    let whole = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for length in 1..whole.len() {
        let recorded = parse(&whole.as_bytes()[..length]).unwrap();
        assert!(recorded.disconnected && recorded.requests.is_empty(), "{length}");
    }
}

#[test]
fn whatever_two_servers_could_read_differently_is_refused() {
    let heads = [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nHost: \r\n",
        "GET / HTTP/1.1\r\nHost: a, b\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n",
        "GET /a b HTTP/1.1\r\nHost: a\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a\r\n",
        "GET /#x HTTP/1.1\r\nHost: a\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{7}\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\u{7f}\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 01\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 1\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n",
    ];
    for head in heads {
        assert!(parse(format!("{head}\r\n").as_bytes()).is_err(), "{head:?}");
    }
    let chunks = [
        "+1\r\na\r\n",
        "01\r\na\r\n",
        "1;x\r\na\r\n",
        " 1\r\na\r\n",
        "1\na\r\n",
        "1\r\nab\r\n",
        "0\r\nX: y\r\n\r\n",
        "0x1\r\na\r\n",
    ];
    for body in chunks {
        let request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n");
        assert!(parse(request.as_bytes()).is_err(), "{body:?}");
    }
    assert!(
        parse((post("/", "ab") + "c\r\n").as_bytes()).unwrap().disconnected,
        "bytes too many are another request"
    );
}

#[test]
fn the_client_and_the_upstream_understand_each_other() {
    let upstream = Upstream::start();
    let mut client = Client::connect(upstream.address);
    client.send(post("/a", "hello") + &get_with("/b", ""));
    assert_eq!([client.answer().status, client.answer().status], [200, 200]);
    let targets: Vec<String> = upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/a", "/b"]);
    assert!(!client.ends_within(Duration::from_millis(50)), "the connection is kept");
}
