//! What an answer of the application means, by its head and by its body.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use support::{Gate, Reply, Upstream, post};

/// An application that answers every attempt alike, and a bucket of two that failures empty.
fn gate(answer: impl Into<Vec<u8>>, rules: &str) -> (Upstream, Gate) {
    let answer = answer.into();
    let application = Upstream::answering(move |_, _| Reply::Bytes(answer.clone()));
    let gate = Gate::start(&application.file(&format!(
        "[route.login]\nmatch = \"POST /login\"\n{rules}\n[limit.address]\nrate = \"2 per 1h\"\ncount = \"failures\"\n"
    )));
    (application, gate)
}

/// Whether such an answer counts as a failure.
fn fails(answer: impl Into<Vec<u8>>, rules: &str) -> bool {
    let (_application, gate) = gate(answer, rules);
    let statuses: Vec<u16> = (0..4).map(|_| gate.ask(post("/login", "a=b")).status).collect();
    match statuses.iter().filter(|&&status| status == 429).count() {
        0 => false,
        2 => true,
        _ => panic!("{statuses:?}"),
    }
}

fn head(status: &str, lines: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{lines}Content-Length: 0\r\n\r\n")
}

fn body(lines: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    [format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {length}\r\n\r\n").as_bytes(), body].concat()
}

/// D23: WordPress, Django and many others.
#[test]
fn an_application_that_answers_200_to_a_wrong_password_is_counted_right() {
    let rules = "success = { status = 302 }";
    assert!(fails(head("200 OK", ""), rules));
    assert!(!fails(head("302 Found", "Location: /wp-admin/\r\n"), rules));
}

#[test]
fn an_application_that_answers_302_to_both_is_counted_right_by_where_it_leads() {
    let rules =
        "failure = [{ location = \"*error*\" }, { location = \"/login*\" }]\nsuccess = { status = 302 }";
    assert!(fails(head("302 Found", "Location: /login?error=1\r\n"), rules));
    assert!(fails(head("302 Found", "Location: http://app.test/login\r\n"), rules));
    assert!(!fails(head("302 Found", "Location: /home\r\n"), rules));
}

#[test]
fn cookies_headers_and_json_say_what_came_of_it() {
    assert!(!fails(head("200 OK", "Set-Cookie: SESSION=1\r\n"), "success = { set_cookie = \"SESSION\" }"));
    assert!(fails(head("200 OK", "Set-Cookie: OTHER=1\r\n"), "success = { set_cookie = \"SESSION\" }"));
    let header = "success = { header = \"X-Auth\", equals = \"ok\" }";
    assert!(!fails(head("200 OK", "X-Auth: ok\r\n"), header));
    assert!(fails(head("200 OK", "X-Auth: no\r\n"), header));
    let json = "failure = { json = \"/ok\", equals = \"false\" }\nsuccess = { status = 200 }";
    let lines = "Content-Type: application/json\r\n";
    assert!(fails(body(lines, b"{\"ok\":false}"), json));
    assert!(!fails(body(lines, b"{\"ok\":true}"), json));
}

const TEXT: &str = "failure = { body = \"Login failed\" }\nsuccess = { status = 200 }";

#[test]
fn a_text_in_the_answer_is_found_in_every_encoding() {
    let page = [&b"<html>"[..], &b"x".repeat(10_000), b"Login failed</html>"].concat();
    let gzip = {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&page).unwrap();
        encoder.finish().unwrap()
    };
    let deflate = {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&page).unwrap();
        encoder.finish().unwrap()
    };
    assert!(fails(body("", &page), TEXT));
    assert!(!fails(body("", b"Welcome"), TEXT));
    assert!(fails(body("Content-Encoding: gzip\r\n", &gzip), TEXT));
    assert!(fails(body("Content-Encoding: deflate\r\n", &deflate), TEXT));
    assert!(fails(body("Content-Encoding: br\r\n", FAILED_BR), TEXT));
    assert!(!fails(body("Content-Encoding: br\r\n", WELCOME_BR), TEXT));
    assert!(fails(body("Content-Encoding: zstd\r\n", FAILED_ZSTD), TEXT));
    assert!(!fails(body("Content-Encoding: zstd\r\n", WELCOME_ZSTD), TEXT));
}

/// D22: a client that requests a range of the page does not hide the part that says "failed".
#[test]
fn an_answer_that_cannot_be_read_counts_as_a_failure() {
    assert!(fails(body("Content-Encoding: secret\r\n", b"Welcome"), TEXT));
    assert!(fails(body("Content-Encoding: gzip\r\n", b"Welcome"), TEXT));
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/10\r\nContent-Length: 1\r\n\r\nx";
    let rules = "failure = { body = \"Login failed\" }\nsuccess = [{ status = 200 }, { status = 206 }]";
    assert!(fails(part, rules));
    assert!(fails(
        "HTTP/1.1 304 Not Modified\r\n\r\n",
        "failure = { body = \"x\" }\nsuccess = { status = 304 }"
    ));
}

#[test]
fn a_page_beyond_the_first_64_kib_may_say_anything() {
    let long = b" ".repeat(64 * 1024 + 1);
    assert!(fails(body("", &long), TEXT));
    assert!(!fails(body("", &long[1..]), TEXT));
    let edge = [&b" ".repeat(64 * 1024 - 12)[..], b"Login failed", b"more"].concat();
    assert!(fails(body("", &edge), TEXT));
}

#[test]
fn an_answer_streams_while_it_is_looked_at() {
    let pieces =
        ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "5\r\nworld\r\n0\r\n\r\n"];
    let pieces = pieces.map(|piece| piece.as_bytes().to_vec()).to_vec();
    let application = Upstream::answering(move |_, _| Reply::Pieces(pieces.clone(), Duration::from_secs(3)));
    let gate = Gate::start(&application.file(&format!(
        "[route.login]\nmatch = \"POST /login\"\n{TEXT}\n[limit.address]\nrate = \"2 per 1h\"\ncount = \"failures\"\n"
    )));
    let mut client = gate.connect();
    client.send(post("/login", "a=b"));
    let first = String::from_utf8(client.rest(Duration::from_millis(1500))).unwrap();
    assert!(first.contains("hello") && !first.contains("world"), "{first:?}");
    let rest = String::from_utf8(client.rest(Duration::from_secs(3))).unwrap();
    assert!(rest.contains("world"), "{rest:?}");
}

#[test]
fn otherwise_says_what_an_answer_is_that_no_rule_names() {
    let rules = |otherwise| format!("failure = {{ status = 401 }}\notherwise = \"{otherwise}\"");
    assert!(fails(head("200 OK", ""), &rules("failure")));
    assert!(!fails(head("200 OK", ""), &rules("success")));
    assert!(!fails(head("200 OK", ""), &rules("neutral")));
    assert!(fails(head("401 Unauthorized", ""), &rules("neutral")));
    assert!(fails(head("200 OK", ""), ""), "without any rule every attempt counts");
}

#[test]
fn what_is_named_as_neither_costs_nothing() {
    let rules = "neutral = [{ status = [206, 503] }, { location = \"/maintenance*\" }]\nsuccess = { set_cookie = \"S\" }";
    for (answer, is_paid) in [
        (head("503 Service Unavailable", ""), false),
        (head("206 Partial Content", ""), false),
        (head("302 Found", "Location: /maintenance\r\n"), false),
        (head("302 Found", "Location: /login\r\n"), true),
        (head("502 Bad Gateway", ""), true),
        (head("500 Oops", ""), true),
    ] {
        assert_eq!(fails(&*answer, rules), is_paid, "{answer}");
    }
    let earlier = "failure = { status = 503 }\nneutral = { status = \"5xx\" }";
    assert!(fails(head("503 Service Unavailable", ""), earlier));
}

/// `<html>Login failed</html>`, by brotli's and zstd's own compressors.
const FAILED_BR: &[u8] = b"\x0b\x0c\x80<html>Login failed</html>\x03";
const FAILED_ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x24\x19\xc9\x00\x00<html>Login failed</html>\x22\x12\x34\x1e";
/// `<html>Welcome</html>`.
const WELCOME_BR: &[u8] = b"\x8b\x09\x80<html>Welcome</html>\x03";
const WELCOME_ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x24\x14\xa1\x00\x00<html>Welcome</html>\xfc\xdc\x49\x89";
