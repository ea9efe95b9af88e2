//! A candidate is judged beside its limit and refuses nothing.

use support::{Gate, Upstream, check_file, post};

const LIMITS: &str = "[route.login]\nmatch = \"POST /login\"\n\
    [limit.address]\nrate = \"6 per 1h\"\n[limit.address.candidate]\nrate = \"2 per 1h\"\n";

fn decisions(gate: &Gate, limit: &str, decision: &str) -> f64 {
    gate.metric("tollgate_decisions_total", &format!("limit=\"{limit}\",decision=\"{decision}\""))
}

#[test]
fn a_stricter_candidate_counts_what_it_would_refuse_and_refuses_nothing() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LIMITS));
    let statuses: Vec<u16> = (0..8).map(|_| gate.ask(post("/login", "a=b")).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 429, 429]);
    let of = |limit| {
        [
            decisions(&gate, limit, "admit"),
            decisions(&gate, limit, "refuse"),
            decisions(&gate, limit, "observe"),
        ]
    };
    assert_eq!((of("address"), of("address.candidate")), ([6.0, 2.0, 0.0], [2.0, 0.0, 6.0]));
    let refused = gate.ask(post("/login", "a=b"));
    assert!(
        !format!("{:?}{}", refused.headers, refused.text()).contains("candidate"),
        "clients see nothing of it"
    );
}

#[test]
fn a_wider_candidate_goes_on_where_its_limit_refuses() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(&LIMITS.replace("2 per 1h", "7 per 1h")));
    let refused = (0..10).filter(|_| gate.ask(post("/login", "a=b")).status == 429).count();
    assert_eq!(refused, 4);
    assert_eq!(
        [decisions(&gate, "address.candidate", "admit"), decisions(&gate, "address.candidate", "observe")],
        [7.0, 3.0]
    );
}

/// A candidate that needs the body must not make a long one an error.
#[test]
fn a_candidate_by_account_refuses_no_body_for_its_length() {
    let tables = LIMITS.replace("rate = \"2 per 1h\"", "key = \"user\"");
    let tables = tables.replace("\"POST /login\"", "\"POST /login\"\nuser = \"form:user\"\nbody = \"100B\"");
    let application = Upstream::start();
    let gate = Gate::start(&application.file(&tables));
    let long = format!(
        "POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
        Content-Length: 1005\r\n\r\nuser={}",
        "x".repeat(1000)
    );
    assert_eq!(gate.ask(long).status, 200);
}

#[test]
fn check_and_explain_name_it() {
    let said = check_file(&format!(
        "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:9\"\n{LIMITS}"
    ));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("address.candidate: at most 2 at once") && said.contains("a candidate for `address`"),
        "{said}"
    );
}
