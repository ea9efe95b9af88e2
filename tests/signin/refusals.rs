//! What a refusal tells: nothing about which accounts there are.

use std::net::Ipv4Addr;

use support::application::{ROUTE, application, form, right, sign_in_with, status_from};
use support::{Answer, Gate};

const TABLES: &str = "[limit.address]\nrate = \"50 per 1h\"\n\
    [limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\ncount = \"failures\"\n\
    [refuse]\nheaders = \"always\"\n";

/// Tries until it is refused, from an address of its own.
fn refused(gate: &Gate, address: u8, user: &str, accept: &str) -> Answer {
    let request = sign_in_with(&format!("Accept: {accept}\r\nX-Request-Id: 1\r\n"), &form(user, "wrong"));
    let ask = || {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 7, address));
        client.send(&request);
        client.answer()
    };
    (0..10).map(|_| ask()).find(|answer| answer.status == 429).unwrap()
}

/// F2: an account that exists, and one that does not.
#[test]
fn a_refusal_is_the_same_byte_for_byte_whether_the_account_exists_or_not() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{TABLES}")));
    assert_eq!(
        status_from(&gate, Ipv4Addr::new(127, 0, 7, 99), "alice", &right("alice")),
        302,
        "alice exists"
    );
    for (number, accept) in ["text/html", "application/json", "*/*"].into_iter().enumerate() {
        let number = number as u8 * 2;
        let known = refused(&gate, number + 1, "alice", accept);
        let unknown = refused(&gate, number + 2, &format!("nobody{number}"), accept);
        assert_eq!(known.text(), unknown.text());
        let without_numbers = |answer: &Answer| {
            // From the fourth attempt on the first account was refused earlier: only what is left for the address
            // differs, and perhaps the second.
            let lines = answer.headers.iter().filter(|(name, _)| name != "ratelimit" && name != "date");
            lines.cloned().collect::<Vec<_>>()
        };
        assert_eq!(without_numbers(&known), without_numbers(&unknown));
    }
}

#[test]
fn a_limit_for_accounts_never_shows_itself() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{TABLES}")));
    for accept in ["text/html", "application/json", "*/*"] {
        let answer = refused(&gate, 1, "alice", accept);
        let shown = format!("{:?} {}", answer.headers, answer.text());
        assert!(!shown.contains("account"), "{shown}");
        assert!(answer.header("ratelimit-policy").unwrap().starts_with("\"address\";q=50"), "{shown}");
        // 20 minutes to the next token, said in a step that is the same for all.
        assert_eq!(answer.retry_after(), 30 * 60);
    }
    let admitted = gate.ask(sign_in_with("", &form("bob", "wrong")));
    assert_eq!(admitted.header("ratelimit-policy").unwrap(), "\"address\";q=50;w=3600");
}

#[test]
fn a_visible_limit_that_refuses_says_its_exact_wait_although_accounts_are_counted_too() {
    let application = application();
    let tables = TABLES.replace("50 per 1h", "1 per 1h");
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let answer = refused(&gate, 1, "alice", "application/json");
    assert!((3590..=3600).contains(&answer.retry_after()));
    assert!(answer.text().contains("\"violated-policies\":[\"address\"]"), "{}", answer.text());
}

/// A row of failures that only a known device or an operator breaks, and an attempt that costs more than the bucket holds.
#[test]
fn a_limit_that_time_does_not_lift_names_no_wait() {
    let application = application();
    let cap = "[limit.address]\nrate = \"50 per 1h\"\n\
        [limit.account]\nkey = \"user\"\nrate = \"50 per 1h\"\ncount = \"failures\"\nmax_failures = 2\n";
    let costly = "[limit.address]\nrate = \"3 per 1h\"\n";
    let routes = [ROUTE.to_owned(), format!("{ROUTE}cost = 5\n")];
    for (route, tables) in routes.iter().zip([cap, costly]) {
        let gate = Gate::start(&application.file(&format!("{route}{tables}")));
        for (number, accept) in ["text/html", "application/json", "*/*"].into_iter().enumerate() {
            let answer = refused(&gate, number as u8, "alice", accept);
            let said = format!("{:?} {}", answer.headers, answer.text());
            assert!(answer.header("retry-after").is_none(), "{said}");
            assert!(!answer.header("ratelimit").unwrap().contains("t="), "{said}");
            assert!(answer.text().contains("Waiting does not help"), "{said}");
            let waits = ["retry_after", "try again", "Wait ", " days", "second"];
            assert!(!waits.iter().any(|word| answer.text().contains(word)), "{said}");
        }
    }
}
