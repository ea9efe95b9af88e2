//! What the application tells the gate in its answers, and what it is told.

use support::{Gate, Reply, Upstream, get_with, post_with};

const ROUTE: &str = "[route.login]\nmatch = \"POST /login\"\noutcome_header = \"X-Login-Outcome\"\n";
const TWO: &str = "[limit.address]\nrate = \"2 per 1h\"\ncount = \"failures\"\n";

/// Answers with the header lines that stand in the request's `X-Answer`.
fn telling() -> Upstream {
    Upstream::answering(|request, _| {
        let text = String::from_utf8_lossy(request).into_owned();
        let said = text.split("\r\n").filter_map(|line| line.strip_prefix("X-Answer: "));
        let lines: String = said.flat_map(|said| said.split(',')).map(|line| format!("{line}\r\n")).collect();
        Reply::text(&format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok"))
    })
}

fn sign_in(gate: &Gate, said: &str) -> u16 {
    let answer = gate.ask(post_with("/login", &format!("X-Answer: {said}\r\n")));
    assert_eq!(answer.header("x-login-outcome"), None, "no client sees it");
    answer.status
}

#[test]
fn an_application_says_the_outcome_in_a_header_that_no_client_sees() {
    let application = telling();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{TWO}")));
    for said in ["success", "neutral", "success"] {
        assert_eq!(sign_in(&gate, &format!("X-Login-Outcome: {said}")), 200);
    }
    assert_eq!(sign_in(&gate, "X-Login-Outcome: failure"), 200);
    assert_eq!(sign_in(&gate, "X-Other: 1"), 200, "what is not said is a failure");
    assert_eq!(sign_in(&gate, "X-Login-Outcome: success"), 429);
    let page = gate.ask(get_with("/page", "X-Answer: X-Login-Outcome: success\r\n"));
    assert_eq!((page.status, page.header("x-login-outcome")), (200, None));
    let outcomes = |outcome: &str| gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""));
    assert_eq!((outcomes("success"), outcomes("neutral"), outcomes("failure")), (2.0, 1.0, 2.0));
}

#[test]
fn an_outcome_that_is_unknown_or_said_twice_is_a_failure() {
    for said in
        ["X-Login-Outcome: Success", "X-Login-Outcome: ", "X-Login-Outcome: success,X-Login-Outcome: success"]
    {
        let application = telling();
        let gate = Gate::start(&application.file(&format!("{ROUTE}{TWO}")));
        assert_eq!(
            [sign_in(&gate, said), sign_in(&gate, said), sign_in(&gate, said)],
            [200, 200, 429],
            "{said}"
        );
    }
}

#[test]
fn what_the_application_says_comes_before_the_rules_and_they_decide_without_it() {
    let application = telling();
    let rules = "success = { header = \"X-Welcome\" }\nfailure = { body = \"ok\" }\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{rules}{TWO}")));
    for _ in 0..3 {
        assert_eq!(sign_in(&gate, "X-Login-Outcome: success"), 200);
    }
    assert_eq!(sign_in(&gate, "X-Welcome: 1"), 200, "the body says no");
    assert_eq!(sign_in(&gate, "X-Welcome: 1,X-Login-Outcome: failure"), 200);
    assert_eq!(sign_in(&gate, "X-Login-Outcome: success"), 429);
}

/// C12: a client cannot say what only the gate says.
#[test]
fn a_marking_limit_tells_the_application_and_refuses_nothing() {
    let application = Upstream::start();
    let limits = "[limit.address]\nrate = \"2 per 1h\"\nmode = \"mark\"\n[limit.all]\nkey = \"all\"\nrate = \"2 per 1h\"\nmode = \"mark\"\n";
    let gate = Gate::start(&application.file(&format!("[route.login]\nmatch = \"POST /login\"\n{limits}")));
    let lie = "X-Tollgate-Refused: other\r\nX-Tollgate-Failures: 9\r\nExposed-Credential-Check: 1\r\n";
    for _ in 0..4 {
        assert_eq!(gate.ask(post_with("/login", lie)).status, 200);
    }
    let requests = application.requests();
    let marks: Vec<_> = requests.iter().map(|request| request.all("x-tollgate-refused").concat()).collect();
    assert_eq!(marks[..2], ["", ""]);
    let seconds = |mark: &str| -> Vec<u64> {
        mark.split(", ").map(|one| one.split("; retry-after=").nth(1).unwrap().parse().unwrap()).collect()
    };
    for mark in &marks[2..] {
        assert!(
            mark.starts_with("address; retry-after=") && mark.contains(", all; retry-after="),
            "{marks:?}"
        );
        assert!(seconds(mark).iter().all(|seconds| (1700..=1800).contains(seconds)), "{marks:?}");
    }
    for name in ["x-tollgate-failures", "exposed-credential-check"] {
        assert!(requests.iter().all(|request| request.all(name).is_empty()), "{name}");
    }
    assert_eq!(gate.metric("tollgate_decisions_total", "limit=\"address\",decision=\"observe\""), 2.0);
}
