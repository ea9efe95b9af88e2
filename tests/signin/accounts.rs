//! Buckets for accounts: one for each, whatever it is called, however it is sent, and from wherever.

use std::net::Ipv4Addr;

use support::application::{ROUTE, application, form, guesses, right, sign_in, sign_in_with, status_from};
use support::{Gate, post};

/// Five failures an hour for each account.
const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n";

/// F1, F7: one account from everywhere.
#[test]
fn a_thousand_addresses_together_have_the_guesses_of_one_account() {
    let application = application();
    let gate =
        Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}[limit.address]\nrate = \"5 per 1h\"\n")));
    let mut reached = 0;
    for number in 0..1000_u32 {
        let address = Ipv4Addr::from(0x7f01_0001 + number);
        reached += usize::from(status_from(&gate, address, "alice", &format!("wrong{number}")) == 200);
    }
    assert_eq!((reached, application.requests().len()), (5, 5));
    assert_eq!(
        status_from(&gate, Ipv4Addr::new(127, 9, 9, 9), "bob", &right("bob")),
        302,
        "others are not concerned"
    );
}

/// F3: whatever applications take for one name is one account.
#[test]
fn spellings_of_one_name_share_a_bucket() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}")));
    for name in ["alice", "ALICE", "+alice%20", "%EF%BD%81lice", "%61l%69ce"] {
        assert_eq!(gate.ask(sign_in(name, "wrong")).status, 200, "{name}");
    }
    for name in ["Alice", "alice", "al%C3%ADce"] {
        assert_eq!(gate.ask(sign_in(name, "wrong")).status, 429, "{name}");
    }
    assert_eq!(guesses(&gate, "alicia"), 5);
}

/// F4: a second field does not hide the first.
#[test]
fn every_value_of_a_field_that_comes_twice_is_charged() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}")));
    for decoy in 0..5 {
        assert_eq!(gate.ask(sign_in_with("", &format!("log=decoy{decoy}&log[]=alice&pwd=x"))).status, 200);
    }
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 429);
    assert_eq!(guesses(&gate, "decoy0"), 4);
    let many: Vec<String> = (0..9).map(|number| format!("log=name{number}")).collect();
    assert_eq!(gate.ask(sign_in_with("", &many.join("&"))).status, 400, "no client means nine accounts");
    let same = vec!["log=alice"; 5000].join("&");
    assert_eq!(gate.ask(sign_in_with("", &same)).status, 429, "the same name 5,000 times is one name");
    let long = "x".repeat(60_000);
    assert_eq!(gate.ask(sign_in(&long, "wrong")).status, 200);
}

#[test]
fn attempts_of_one_client_without_an_account_share_a_bucket() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}")));
    for body in ["", "pwd=x", "user=alice&pwd=x", "LOGIN=alice", "x=1"] {
        assert_eq!(gate.ask(sign_in_with("", body)).status, 200, "{body:?}");
    }
    assert_eq!(gate.ask(sign_in_with("", "pwd=x")).status, 429);
    assert_eq!(guesses(&gate, "alice"), 5);
}

#[test]
fn an_account_and_an_address_together_are_a_bucket_for_each_pair() {
    let application = application();
    let tables = "[limit.pair]\nkey = \"user+ip\"\nrate = \"2 per 1h\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let (here, there) = (Ipv4Addr::new(127, 0, 0, 8), Ipv4Addr::new(127, 0, 0, 9));
    let statuses = [(here, "alice"), (here, "alice"), (here, "alice"), (there, "alice"), (here, "bob")]
        .map(|(address, user)| status_from(&gate, address, user, "wrong"));
    assert_eq!(statuses, [200, 200, 429, 200, 200]);
}

#[test]
fn a_password_in_basic_authorization_is_an_attempt_on_its_account() {
    let application = application();
    let tables = "[route.dav]\nmatch = \"ANY /dav/**\"\nwhen = \"basic\"\nuser = \"basic\"\npassword = \"basic\"\n\
        failure = { status = 401 }\nsuccess = { status = 200 }\n[limit.account]\nkey = \"user\"\nrate = \"2 per 1h\"\n";
    let gate = Gate::start(&application.file(tables));
    let get = |line: &str| gate.ask(format!("GET /dav/a HTTP/1.1\r\nHost: app.test\r\n{line}\r\n")).status;
    // alice:1, alice:2, alice:3
    assert_eq!(get("Authorization: Basic YWxpY2U6MQ==\r\n"), 200);
    assert_eq!(get("authorization: basic YWxpY2U6Mg\r\n"), 200);
    assert_eq!(get("Authorization: Basic YWxpY2U6Mw==\r\n"), 429);
    assert_eq!(get("Authorization: Basic Ym9iOjE=\r\n"), 200);
    assert!((0..10).all(|_| get("") == 200), "a request without a password tries none");
}

#[test]
fn a_limit_that_only_observes_an_account_refuses_nothing_that_it_cannot_read() {
    let application = application();
    let tables = format!("{}body = \"1KiB\"\n{ACCOUNT}mode = \"observe\"\n", ROUTE);
    let gate = Gate::start(&application.file(&tables));
    assert_eq!(guesses(&gate, "alice"), 100);
    assert!(gate.metric("tollgate_decisions_total", "decision=\"observe\"") == 95.0, "{}", gate.metrics());
    let long = form("alice", &"x".repeat(100_000));
    assert_eq!(gate.ask(sign_in_with("", &long)).status, 200);
    assert!(application.last().body == long.as_bytes(), "what is longer than anybody reads streams on");
    assert_eq!(gate.ask(post("/login", "\u{0}")).status, 200);
}
