//! Answers that a proxy reports: the rules of the route judge them, as they do at a listener.

use support::endpoint::{Edge, forwarded};

const RULES: &str = r#"
[route.login]
match = "POST /login"
failure = [{ location = "*error=*", weight = 2 }, { status = 200, body = "wrong" }]
success = { status = 302, set_cookie = "session" }
neutral = { status = 404 }

[limit.address]
rate = "4 per 1h"
count = "failures"
"#;

fn question() -> String {
    forwarded("POST", "/login", "192.0.2.1", "X-Original-Body: 0\r\n")
}

fn answer(receipt: &str, status: u16, headers: &[(&str, &str)]) -> String {
    let lines: Vec<_> = headers.iter().map(|(name, value)| format!("[\"{name}\",\"{value}\"]")).collect();
    let head = format!("{{\"status\":{status},\"headers\":[{}]}}", lines.join(","));
    format!("{{\"receipt\":\"{receipt}\",\"answer\":{head}}}")
}

/// An endpoint whose proxies report answers.
struct Reported(Edge);

impl Reported {
    fn start(tables: &str) -> Self {
        Self(Edge::start(tables, "answers = true"))
    }

    /// Reports this answer to an attempt.
    fn settle(&self, status: u16, headers: &[(&str, &str)]) {
        let receipt = self.0.receipt(question());
        assert_eq!(self.0.report(&answer(&receipt, status, headers)), 204);
    }

    /// How many attempts are let through until one is refused.
    fn left(&self) -> usize {
        (0..100).take_while(|_| self.0.ask(question()).status == 200).count()
    }

    fn outcomes(&self) -> [f64; 3] {
        ["success", "neutral", "failure"]
            .map(|outcome| self.0.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\"")))
    }
}

#[test]
fn answers_of_right_passwords_cost_nothing() {
    let reported = Reported::start(RULES);
    for _ in 0..20 {
        reported
            .settle(302, &[("Location", "/home"), ("Set-Cookie", "lang=en"), ("set-cookie", "session=1")]);
        reported.settle(404, &[]);
    }
    assert_eq!(reported.outcomes(), [20.0, 20.0, 0.0]);
    assert_eq!(reported.left(), 4);
}

#[test]
fn answers_of_wrong_passwords_cost_what_their_rules_say() {
    let reported = Reported::start(RULES);
    reported.settle(302, &[("Location", "https://app.test/login?error=1"), ("Set-Cookie", "session=1")]);
    assert_eq!(reported.left(), 2, "a weight of two");
    let reported = Reported::start(RULES);
    reported.settle(302, &[("Location", "/home"), ("Set-Cookie", "session=; Max-Age=0")]);
    reported.settle(302, &[("Location", "/home")]);
    assert_eq!(reported.outcomes(), [0.0, 0.0, 2.0]);
    assert_eq!(reported.left(), 2, "no rule knows them");
}

/// L7: what the head does not tell.
#[test]
fn an_answer_that_its_head_does_not_judge_is_a_failure() {
    for status in [200, 206, 304, 406, 499, 500] {
        let neutral = RULES.replace("neutral = { status = 404 }", "otherwise = \"neutral\"");
        let reported = Reported::start(&neutral);
        reported.settle(status, &[("Content-Type", "text/html")]);
        assert_eq!(reported.outcomes(), [0.0, 0.0, 1.0], "{status}");
    }
    let reported = Reported::start(&RULES.replace("neutral = { status = 404 }", "otherwise = \"neutral\""));
    reported.settle(201, &[]);
    assert_eq!(reported.outcomes(), [0.0, 1.0, 0.0]);
}

#[test]
fn the_header_of_an_application_that_says_the_outcome_counts() {
    let tables = RULES.replace("neutral =", "outcome_header = \"X-Outcome\"\nneutral =");
    let reported = Reported::start(&tables);
    reported.settle(200, &[("X-Outcome", "success")]);
    reported.settle(302, &[("X-Outcome", "failure"), ("Set-Cookie", "session=1")]);
    reported.settle(302, &[("X-Outcome", "success"), ("X-Outcome", "success"), ("Set-Cookie", "session=1")]);
    assert_eq!(reported.outcomes(), [1.0, 0.0, 2.0]);
}

/// C2: what is no answer settles nothing, nor does one where no answers are expected.
#[test]
fn what_is_no_answer_leaves_the_attempt_open() {
    let reported = Reported::start(RULES);
    let receipt = reported.0.receipt(question());
    let right = [("Set-Cookie", "session=1")];
    for malformed in [
        answer(&receipt, 302, &[("bad name", "x")]),
        answer(&receipt, 302, &[("Location", "/a\\r\\nSet-Cookie: session=1")]),
        answer(&receipt, 302, &[("Location", "/\\u20ac")]),
        answer(&receipt, 0, &right),
        answer(&receipt, 302, &right).replace("\"status\"", "\"outcome\":\"success\",\"status\""),
        answer(&receipt, 302, &right).replacen('{', "{\"outcome\":\"success\",", 1),
    ] {
        assert_eq!(reported.0.report(&malformed), 400, "{malformed}");
    }
    let long = "x".repeat(60_000);
    assert_eq!(reported.0.report(&answer(&receipt, 302, &[("A", &long), ("B", &long), ("C", &long)])), 413);
    assert_eq!(reported.0.report(&answer(&receipt, 302, &[("A", &long), right[0]])), 204, "heads are long");
    assert_eq!(reported.0.report(&answer(&receipt, 302, &right)), 410, "used");
    assert_eq!(reported.outcomes(), [1.0, 0.0, 0.0]);

    let edge =
        Edge::start("[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"4 per 1h\"\n", "");
    let receipt = edge.receipt(question());
    assert_eq!(edge.report(&answer(&receipt, 302, &right)), 400);
    assert_eq!(edge.report(&format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\"}}")), 204);
}

#[test]
fn a_code_follows_the_cookie_of_a_reported_answer() {
    let tables = "[route.login]\nmatch = \"POST /login\"\nuser = \"query:user\"\nsuccess = { location = \"/code\" }\n\
                  [route.code]\nmatch = \"POST /code\"\nstep = \"after\"\nsuccess = { location = \"/home\" }\n\
                  [limit.account]\nkey = \"user\"\nrate = \"4 per 1h\"\ncount = \"failures\"\n";
    let reported = Reported::start(tables).0;
    let lines = "X-Original-Body: 0\r\n";
    let receipt = reported.receipt(forwarded("POST", "/login?user=anna", "192.0.2.1", lines));
    let session = format!("sid={}", "0".repeat(32));
    let cookie = format!("{session}; Path=/; HttpOnly");
    let answer = answer(&receipt, 302, &[("Location", "/code"), ("Set-Cookie", &cookie)]);
    assert_eq!(reported.report(&answer), 204);
    let codes = (1..=20).take_while(|last| {
        let lines = format!("Cookie: {session}\r\n{lines}");
        reported.ask(forwarded("POST", "/code", &format!("198.51.100.{last}"), &lines)).status == 200
    });
    assert_eq!(codes.count(), 4, "anna pays for them");
}
