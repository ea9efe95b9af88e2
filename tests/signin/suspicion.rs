//! What no person does costs the address more: attempts at bait, failures within a moment, names that do not exist.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::application::{FIVE, ROUTE, application, right, sign_in, status_from};
use support::{Gate, Reply, Upstream};

const OFFICE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn route(keys: &str) -> String {
    ROUTE.replace("[route.login]\n", &format!("[route.login]\n{keys}\n"))
}

#[test]
fn an_attempt_at_bait_is_answered_as_always_and_its_address_waits() {
    let application = application();
    let tables = format!("{}{}[device]\naddresses = true\n", route("bait = [\"admin\", \"root\"]"), FIVE);
    let gate = Gate::start(&application.file(&tables));
    let usual = gate.ask(sign_in("alice", "wrong"));
    let bait = gate.ask(sign_in("ADMIN", "wrong"));
    assert_eq!((usual.status, bait.status, &usual.body), (200, 200, &bait.body));
    assert_eq!(gate.ask(sign_in("alice", &right("alice"))).status, 429, "the address waits");
    assert_eq!(status_from(&gate, OFFICE, "alice", "wrong"), 200, "and no other");
    assert_eq!(status_from(&gate, OFFICE, "root", &right("root")), 302);
    for status in [200, 429] {
        assert_eq!(
            status_from(&gate, OFFICE, "root", "wrong"),
            status,
            "a success gave its own token back alone"
        );
    }
}

#[test]
fn bait_costs_limits_of_attempts_as_much_and_its_owner_on_a_known_address_nothing() {
    let application = application();
    let tables = format!(
        "{}{}[device]\naddresses = true\n",
        route("bait = \"admin\"\nbait_weight = 3"),
        FIVE.replace("failures", "attempts")
    );
    let gate = Gate::start(&application.file(&tables));
    assert_eq!(gate.ask(sign_in("admin", &right("admin"))).status, 302, "takes three of five");
    for status in [200, 200, 429] {
        assert_eq!(gate.ask(sign_in("admin", "wrong")).status, status);
    }
}

#[test]
fn the_second_of_two_failures_within_a_moment_counts_as_three() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{}{FIVE}", route("quick = \"300ms\""))));
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 200);
    assert_eq!(gate.ask(sign_in("bob", &right("bob"))).status, 302, "no failure");
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 200, "after a while: two of five are gone");
    assert_eq!(gate.ask(sign_in("carol", "wrong")).status, 200, "and now all five");
    assert_eq!(gate.ask(sign_in("bob", "wrong")).status, 429);
    assert_eq!(status_from(&gate, OFFICE, "bob", "wrong"), 200, "another client");
}

/// An application that tells which accounts there are.
fn telling() -> Upstream {
    Upstream::answering(|request, _| {
        let is_known = String::from_utf8_lossy(request).contains("log=alice");
        let text = if is_known { "Wrong password" } else { "Unknown account" };
        let length = text.len();
        Reply::text(&format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {length}\r\n\r\n{text}"))
    })
}

#[test]
fn names_that_do_not_exist_cost_more_where_the_application_tells_it() {
    let application = telling();
    let rules = "failure = [{ body = \"Unknown account\", weight = 5 }, { status = 401 }]";
    let gate = Gate::start(&application.file(&format!("{}{FIVE}", route(rules))));
    let from = |host: u8| Ipv4Addr::new(127, 0, 0, host);
    for status in [401, 401, 401, 401, 401, 429] {
        assert_eq!(status_from(&gate, from(2), "alice", "wrong"), status, "five at a name that exists");
    }
    for (user, status) in [("alcie", 401), ("alice", 429)] {
        assert_eq!(status_from(&gate, from(3), user, "wrong"), status, "one at a name that does not");
    }
}
