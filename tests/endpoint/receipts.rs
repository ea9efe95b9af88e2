//! Receipts: what came of an attempt, reported by the application.

use std::process::Command;
use std::time::Duration;

use support::endpoint::{Edge, forwarded};
use support::{binary, eventually};

const FAILURES: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"query:user\"\n\
                        [limit.address]\nrate = \"2 per 1h\"\ncount = \"failures\"\n\
                        [limit.account]\nkey = \"user\"\nrate = \"100 per 1h\"\n";

fn question(user: &str, client: &str) -> String {
    forwarded("POST", &format!("/login?user={user}"), client, "X-Original-Body: 0\r\n")
}

fn outcome(receipt: &str, outcome: &str) -> String {
    format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"{outcome}\"}}")
}

#[test]
fn a_reported_success_gives_its_own_token_back_and_a_failure_does_not() {
    let edge = Edge::start(FAILURES, "");
    for reported in ["success", "neutral", "success", "neutral", "success"] {
        let receipt = edge.receipt(question("anna", "192.0.2.1"));
        assert_eq!(edge.report(&outcome(&receipt, reported)), 204);
    }
    for _ in 0..2 {
        let receipt = edge.receipt(question("anna", "192.0.2.1"));
        assert_eq!(edge.report(&outcome(&receipt, "failure")), 204);
    }
    assert_eq!(edge.ask(question("anna", "192.0.2.1")).status, 429);
    let reported =
        |outcome: &str| edge.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""));
    assert_eq!((reported("success"), reported("neutral"), reported("failure")), (3.0, 2.0, 2.0));
}

/// C2: replayed, guessed, malformed: each refused, and nothing is given back.
#[test]
fn a_receipt_is_used_once_and_cannot_be_guessed() {
    let edge = Edge::start(FAILURES, "");
    let (first, _second) =
        (edge.receipt(question("a", "192.0.2.1")), edge.receipt(question("a", "192.0.2.1")));
    let guessed = "0".repeat(32);
    for unknown in
        [guessed.as_str(), "", "x", &first[1..], &format!("{first}0"), &format!("+{}", &first[1..])]
    {
        assert_eq!(edge.report(&outcome(unknown, "success")), 410, "{unknown}");
    }
    assert_eq!(edge.report(&outcome(&first, "success")), 204);
    assert_eq!(edge.report(&outcome(&first, "success")), 410, "used");
    edge.receipt(question("a", "192.0.2.1"));
    assert_eq!(edge.ask(question("a", "192.0.2.1")).status, 429, "one token came back, and no more");
}

#[test]
fn a_receipt_of_another_account_or_another_endpoint_is_refused() {
    let other = support::free_port();
    let second = format!(
        "[endpoint.other]\nkind = \"forward-auth\"\nlisten = \"http://127.0.0.1:{other}\"\n{FAILURES}"
    );
    let edge = Edge::start(&second, "");
    let (anna, bert) =
        (edge.receipt(question("anna", "192.0.2.1")), edge.receipt(question("bert", "192.0.2.2")));
    let of = |receipt: &str, user: &str| {
        format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\",\"user\":\"{user}\"}}")
    };
    assert_eq!((edge.report(&of(&anna, "bert")), edge.report(&of(&bert, "anna"))), (410, 410), "swapped");
    let elsewhere = Edge { address: ([127, 0, 0, 1], other).into(), ..edge };
    assert_eq!(elsewhere.report(&outcome(&anna, "success")), 410, "another endpoint");
    let edge = Edge { address: edge_address(&elsewhere), ..elsewhere };
    assert_eq!((edge.report(&of(&anna, " ANNA ")), edge.report(&of(&bert, "bert"))), (204, 204));
}

/// The address of the endpoint `edge`, as the gate said it.
fn edge_address(edge: &Edge) -> std::net::SocketAddr {
    let said = edge.gate.messages();
    let line = said.lines().find(|line| line.contains("endpoint edge at http://")).unwrap();
    line.rsplit("http://").next().unwrap().trim_end_matches(['"', '}']).parse().unwrap()
}

#[test]
fn a_late_report_is_refused_and_the_charge_stays() {
    let edge = Edge::start(FAILURES, "outcome_timeout = \"300ms\"");
    let receipts = [edge.receipt(question("a", "192.0.2.1")), edge.receipt(question("a", "192.0.2.1"))];
    let failed = || edge.gate.metric("tollgate_attempts_total", "outcome=\"failure\"") >= 2.0;
    assert!(eventually(Duration::from_secs(10), failed), "without a report it is a failure");
    for receipt in receipts {
        assert_eq!(edge.report(&outcome(&receipt, "success")), 410);
    }
    assert_eq!(edge.ask(question("a", "192.0.2.1")).status, 429);
}

#[test]
fn what_is_no_report_is_refused() {
    let edge = Edge::start(FAILURES, "");
    let receipt = edge.receipt(question("a", "192.0.2.1"));
    for malformed in [
        String::new(),
        "{}".to_owned(),
        outcome(&receipt, "Success"),
        outcome(&receipt, "success") + "x",
        format!("{{\"receipt\":\"{receipt}\",\"receipt\":\"{receipt}\",\"outcome\":\"success\"}}"),
        format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\",\"usr\":\"a\"}}"),
        format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\",\"user\":1}}"),
    ] {
        assert_eq!(edge.report(&malformed), 400, "{malformed}");
    }
    assert_eq!(edge.report(&format!("{{\"receipt\":\"{}\"}}", "0".repeat(9000))), 413);
    assert_eq!(edge.report(&outcome(&receipt, "success")), 204, "it is open still");
}

/// The settle laws hold for attempts on one bucket at once.
#[test]
fn of_500_questions_at_once_exactly_the_bucket_is_admitted() {
    let edge = Edge::start(FAILURES, "");
    let admitted: usize = std::thread::scope(|scope| {
        let ask = || (0..50).filter(|_| edge.ask(question("a", "192.0.2.1")).status == 200).count();
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 2);
}

#[test]
fn after_a_reload_a_report_still_gives_the_token_back() {
    let edge = Edge::start(FAILURES, "");
    let receipt = edge.receipt(question("a", "192.0.2.1"));
    let endpoint =
        format!("[endpoint.edge]\nkind = \"forward-auth\"\nlisten = \"http://{}\"\n", edge.address);
    assert!(
        edge.gate.reload(&edge.upstream.file(&format!("{FAILURES}{endpoint}"))),
        "{}",
        edge.gate.messages()
    );
    assert_eq!(edge.report(&outcome(&receipt, "success")), 204);
    edge.receipt(question("a", "192.0.2.1"));
    edge.receipt(question("a", "192.0.2.1"));
    assert_eq!(edge.ask(question("a", "192.0.2.1")).status, 429);
}

#[test]
fn no_receipt_of_a_person_who_was_forgotten_is_kept() {
    let edge = Edge::start(FAILURES, "");
    let [anna, bert] = ["anna", "bert"].map(|user| edge.receipt(question(user, "192.0.2.1")));
    let mut command = Command::new(binary());
    command.args(["forget", "user:anna", "--socket"]).arg(edge.gate.admin_socket());
    let output = command.env_remove("TOLLGATE_CONFIG").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find(|line| line.starts_with("memory: attempts without a report"));
    assert!(line.is_some_and(|line| line.contains(" 1 attempt")), "{said}");
    assert_eq!(edge.report(&outcome(&anna, "success")), 410);
    assert_eq!(edge.report(&outcome(&bert, "success")), 204, "another one");
}
