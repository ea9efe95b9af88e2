//! The application gets every byte of a request, and of the layer only what it says itself.

use axum::http::Version;
use support::application::{FIVE, ROUTE, sign_in};
use support::{ONE_AN_HOUR, get_with, post};
use tollgate_tower::TollgateLayer;

use crate::{ACCOUNT, Form, form};

#[test]
fn a_body_that_the_decision_reads_reaches_the_application_byte_for_byte() {
    let program = Form::start(&format!("{ROUTE}{ACCOUNT}"), form);
    let whole = sign_in("alice", "p%20w+d&more=1");
    assert_eq!(program.ask(&whole).status, 200);
    let in_chunks = "POST /login?next=%2Fa HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\
                     Content-Type: application/x-www-form-urlencoded\r\n\r\n4\r\nlog=\r\n9\r\nalice&pwd\r\n\
                     2\r\n=x\r\n0\r\n\r\n";
    assert_eq!(program.ask(in_chunks).status, 200);
    let seen = program.seen();
    assert_eq!(String::from_utf8_lossy(&seen[0].body), "log=alice&pwd=p%20w+d&more=1");
    assert_eq!(String::from_utf8_lossy(&seen[1].body), "log=alice&pwd=x");
    assert_eq!(
        (&seen[1].head.uri.to_string()[..], seen[1].head.version),
        ("/login?next=%2Fa", Version::HTTP_11)
    );
}

#[test]
fn a_body_that_no_rule_needs_passes_whole_and_one_that_is_too_long_for_a_rule_does_not() {
    let bound = ROUTE.replace("user =", "body = \"1KiB\"\nuser =");
    let long = format!("log=alice&pwd=x&rest={}", "y".repeat(300_000));
    let program = Form::start(&format!("{bound}[limit.address]\nrate = \"1 per 1h\"\n"), form);
    assert_eq!(program.ask(post("/login", &long)).status, 200);
    assert_eq!(program.seen()[0].body, long.as_bytes());
    assert_eq!(program.ask(post("/login", &long)).status, 429);
    let program = Form::start(&format!("{bound}{ACCOUNT}"), form);
    assert_eq!(program.ask(sign_in("alice", &long)).status, 413);
    assert!(program.seen().is_empty());
}

#[test]
fn a_body_that_does_not_come_is_waited_for_as_long_as_a_gate_would() {
    let program = Form::start(&format!("proxy.body_timeout = \"300ms\"\n{ROUTE}{ACCOUNT}"), form);
    let whole = sign_in("alice", "wrong");
    assert_eq!(program.ask(&whole[..whole.len() - 1]).status, 408);
    assert!(program.seen().is_empty());
}

#[test]
fn requests_that_match_no_route_pass_as_they_are() {
    let program = Form::start(ONE_AN_HOUR, form);
    for _ in 0..20 {
        assert_eq!(program.ask(get_with("/a//b?c=%2e", "X-A: b\r\n")).status, 200);
    }
    let seen = &program.seen()[19].head;
    assert_eq!((&seen.uri.to_string()[..], &seen.headers["x-a"]), ("/a//b?c=%2e", &"b".parse().unwrap()));
    assert_eq!(seen.headers.get_all("x-request-id").iter().count(), 1);
}

#[test]
fn a_client_cannot_speak_for_the_layer() {
    let program = Form::start(&format!("{ROUTE}{FIVE}"), form);
    let names = ["x-tollgate-refused", "x-tollgate-failures", "x-tollgate-receipt"];
    let lines: String = names.iter().map(|name| format!("{name}: 1\r\n")).collect();
    program.ask(get_with("/", &lines));
    let seen = &program.seen()[0].head;
    assert!(names.iter().all(|name| !seen.headers.contains_key(*name)), "{:?}", seen.headers);
}

#[test]
fn head_is_an_attempt_where_the_route_says_any_method() {
    let program = Form::start(&ONE_AN_HOUR.replace("POST", "ANY"), form);
    let mut client = program.connect();
    for expected in [200, 429] {
        client.send("HEAD /login HTTP/1.1\r\nHost: app.test\r\n\r\n");
        assert_eq!(client.answer_to_head().status, expected);
    }
    assert_eq!(program.seen().len(), 1);
}

#[test]
fn a_request_without_a_sender_is_not_served() {
    let layer = TollgateLayer::from_text("policy.toml", ONE_AN_HOUR).unwrap();
    let program = Form::behind(layer, form);
    assert_eq!(program.ask(post("/login", "")).status, 500);
    assert!(program.seen().is_empty());
}
