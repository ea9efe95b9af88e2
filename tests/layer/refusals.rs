//! Refusals are those of a gate, and count for who the client is.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use axum::http::request::Parts;
use axum::response::Response;
use support::{Answer, Gate, ONE_AN_HOUR, Upstream, eventually, new_directory, post, post_with};
use tollgate_tower::TollgateLayer;

use crate::program::{layer, with_senders};
use crate::{Form, answered, form};

/// Names and values of headers that are the same at any time; the time to wait depends on it.
fn lasting(answer: &Answer) -> BTreeSet<(String, String)> {
    let changing = ["connection", "date", "ratelimit", "retry-after", "x-request-id", "content-length"];
    let lasting = answer.headers.iter().filter(|(name, _)| !changing.contains(&&name[..]));
    lasting.cloned().collect()
}

#[test]
fn a_refusal_is_answered_as_a_gate_answers_it() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    let program = Form::start(ONE_AN_HOUR, form);
    for accept in ["", "Accept: text/html\r\n", "Accept: application/json\r\n"] {
        let attempt = post_with("/login", accept);
        let (by_gate, by_layer) =
            ((gate.ask(&attempt), gate.ask(&attempt)).1, (program.ask(&attempt), program.ask(&attempt)).1);
        assert_eq!((by_gate.status, by_layer.status), (429, 429), "{accept}");
        assert_eq!(lasting(&by_layer), lasting(&by_gate), "{accept}");
        assert!((3500..=3600).contains(&by_layer.retry_after()), "{}", by_layer.retry_after());
        assert!(by_layer.header("ratelimit").is_some() && by_layer.header("x-request-id").is_some());
        assert_eq!(by_layer.body.is_empty(), by_gate.body.is_empty());
    }
    assert_eq!(program.seen().len(), 1);
}

#[test]
fn only_a_trusted_proxy_names_the_client() {
    let from = |client: &str| post_with("/login", &format!("X-Forwarded-For: {client}\r\n"));
    let program = Form::start(ONE_AN_HOUR, form);
    assert_eq!(program.ask(from("192.0.2.1")).status, 200);
    assert_eq!(program.ask(from("192.0.2.2")).status, 429, "the peer is the client");
    let program = Form::start(&format!("client.trust = [\"127.0.0.1\"]\n{ONE_AN_HOUR}"), form);
    assert_eq!(program.ask(from("192.0.2.1")).status, 200);
    assert_eq!(program.ask(from("192.0.2.2")).status, 200);
    assert_eq!(program.ask(from("192.0.2.9, 192.0.2.2")).status, 429);
}

#[test]
fn every_spelling_of_the_form_is_the_form() {
    let program = Form::start(ONE_AN_HOUR, form);
    assert_eq!(program.ask(post("/login", "")).status, 200);
    for target in ["//login", "/x/../login", "/%6cogin", "/LOGIN"] {
        assert_eq!(program.ask(post(target, "")).status, 429, "{target}");
    }
    assert_eq!(program.ask(post("/search", "")).status, 200);
}

#[test]
fn an_edit_of_a_watched_policy_holds_for_the_program_that_runs() {
    let directory = new_directory();
    let file = directory.join("policy.toml");
    fs::write(&file, format!("reload = \"watch\"\n{ONE_AN_HOUR}")).unwrap();
    let program = Form::behind(with_senders(TollgateLayer::from_file(&file).unwrap()), form);
    assert_eq!(program.ask(post("/search", "")).status, 200);
    fs::write(&file, format!("reload = \"watch\"\n{}", ONE_AN_HOUR.replace("/login", "/search"))).unwrap();
    let is_refused = || program.ask(post("/search", "")).status == 429;
    assert!(eventually(Duration::from_secs(30), is_refused), "the edit is taken over");
    assert_eq!(program.ask(post("/login", "")).status, 200);
    drop(program);
    fs::remove_dir_all(&directory).unwrap();
}

/// An application that has limits of its own.
fn limited(_: &Parts, _: &[u8]) -> Option<Response> {
    let mut answer = answered(200, ("ratelimit", "\"mine\";r=1"), "")?;
    answer.headers_mut().insert("x-ratelimit-limit", "9".parse().unwrap());
    Some(answer)
}

#[test]
fn limits_of_the_application_stay_next_to_those_of_the_layer() {
    let program = Form::start(&format!("refuse.headers = \"legacy\"\n{ONE_AN_HOUR}"), limited);
    let answer = program.ask(post("/login", ""));
    let of = |name: &str| {
        let lines = answer.headers.iter().filter(|(known, _)| known == name);
        lines.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("x-ratelimit-limit"), ["1"], "a number has one line");
    assert_eq!(of("ratelimit").len(), 2, "{:?}", answer.headers);
}

#[tokio::test]
async fn a_flushed_snapshot_has_the_last_attempt() {
    let directory = new_directory();
    let policy = format!("store.snapshot = \"{}/buckets\"\n{ONE_AN_HOUR}", directory.display());
    let before = layer(&policy);
    let program = Form::behind(before.clone(), form);
    let attempt = || program.ask(post("/login", ""));
    assert_eq!((attempt().status, attempt().status), (200, 429));
    before.flush().await;
    let after = Form::start(&policy, form);
    assert_eq!(after.ask(post("/login", "")).status, 429);
    drop((program, before, after));
    // Each layer writes it once more at its end.
    assert!(eventually(Duration::from_secs(10), || fs::remove_dir_all(&directory).is_ok()));
}
