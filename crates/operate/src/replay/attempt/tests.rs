//! Which lines are attempts.

use super::*;
use crate::policy::field::Field;
use crate::policy::outcome::Outcome;
use crate::policy::{Limit, Route, RouteReading};
use crate::replay::line;

fn policy(match_: &str) -> Policy {
    let route = Route {
        reading: RouteReading { user: vec![Field::Basic], ..RouteReading::default() },
        ..Route::new("login", vec![match_.parse().unwrap()])
    };
    Policy::new(vec![route], Vec::<Limit>::new())
}

fn of(policy: Policy, line: &str) -> Option<LoggedAttempt> {
    LoggedAttempt::of(&line::parse(line.as_bytes(), None).unwrap().0, &[policy])
}

fn line(user: &str, request: &str) -> String {
    format!("192.0.2.1 - {user} [20/Nov/2026:23:21:52 +0000] \"{request}\" 200 0")
}

#[test]
fn a_get_is_an_attempt_only_with_what_makes_it_one() {
    for (user, request, is_attempt) in [
        ("anna", "POST /login HTTP/1.1", true),
        ("anna", "PUT //LOGIN/?x HTTP/1.1", true),
        ("-", "POST /login HTTP/1.1", false),
        ("-", "GET /login HTTP/1.1", false),
        ("anna", "GET /login HTTP/1.1", true),
        ("-", "GET /login?password=x HTTP/1.1", true),
        ("-", "OPTIONS /login HTTP/1.1", false),
        ("anna", "POST http://app.test/login HTTP/1.1", true),
        ("anna", "POST /other HTTP/1.1", false),
        ("anna", "POST /login%zz HTTP/1.1", false),
        ("-", "-", false),
    ] {
        let found = of(policy("POST /login"), &line(user, request));
        assert_eq!(found.is_some(), is_attempt, "{user} {request}");
    }
}

#[test]
fn a_user_becomes_the_account_of_basic() {
    let attempt = of(policy("ANY /login"), &line("Aladdin", "GET /login HTTP/1.1")).unwrap();
    assert_eq!(attempt.headers[AUTHORIZATION], "Basic QWxhZGRpbjo=");
}

#[test]
fn a_host_is_compared_without_port_and_case() {
    for (host, expected) in [("App.Test:8080", "app.test"), ("app.test.", "app.test"), ("[::1]", "[::1]")] {
        assert_eq!(normalize(host), expected);
    }
}

#[test]
fn the_gates_own_lines_are_believed() {
    let gate = |rest: &str| {
        let line = format!(
            "{{\"time\":1795216912,\"client\":\"192.0.2.1\",\"method\":\"GET\",\"target\":\"/login\",\
             \"status\":200,\"added_us\":1{rest}}}"
        );
        of(policy("POST /login"), &line).map(|attempt| attempt.told)
    };
    assert_eq!(gate(",\"route\":null"), None);
    assert_eq!(gate(",\"route\":\"login\""), Some(Told::Undone));
    assert_eq!(gate(",\"route\":\"login\",\"refused_by\":\"a\""), Some(Told::Refused("a".into())));
    let at = Time::from_nanos(1_795_216_912_000_007_000);
    let settled = Told::Settled(AttemptEnd { outcome: Outcome::Success, at });
    assert_eq!(gate(",\"route\":\"login\",\"outcome\":\"success\",\"settled_us\":7"), Some(settled));
}
