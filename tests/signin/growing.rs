//! Waits that grow, rows that only a success breaks, and things that are counted once.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::application::{
    ROUTE, application, cookie, form, guesses, right, sign_in, sign_in_with, status_from,
};
use support::{Clocks, Gate};

fn spraying(users: &[&str], gate: &Gate) -> Vec<u16> {
    users.iter().map(|user| gate.ask(sign_in(user, "wrong")).status).collect()
}

/// F7: many accounts from one address.
#[test]
fn distinct_accounts_are_what_an_address_pays_for() {
    let application = application();
    let gate = Gate::start(
        &application.file(&format!("{ROUTE}[limit.spray]\nrate = \"3 per 1h\"\nunit = \"users\"\n")),
    );
    let statuses = spraying(&["a", "a", "b", "A", "c", "a", "b", "d", "c", "e"], &gate);
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 429, 200, 429]);
}

#[test]
fn the_addresses_that_try_an_account_are_what_it_pays_for() {
    let application = application();
    let tables = "[limit.crowd]\nkey = \"user\"\nrate = \"3 per 1h\"\nunit = \"clients\"\nipv4 = 24\n\
        count = \"failures\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let from = |subnet, host| status_from(&gate, Ipv4Addr::new(127, 0, subnet, host), "alice", "wrong");
    for host in 1..20 {
        assert_eq!(from(1, host), 200, "neighbours are one");
    }
    assert_eq!([from(2, 1), from(3, 1), from(4, 1), from(1, 77), from(5, 1)], [200, 200, 429, 200, 429]);
    assert_eq!(status_from(&gate, Ipv4Addr::new(127, 0, 4, 1), "bob", "wrong"), 200, "another account");
}

#[test]
fn a_phone_that_repeats_one_wrong_password_does_not_lock_its_owner_out() {
    let application = application();
    let tables =
        "[limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\nunit = \"passwords\"\ncount = \"failures\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    for _ in 0..50 {
        assert_eq!(gate.ask(sign_in("alice", "stale")).status, 200);
    }
    assert_eq!(gate.ask(sign_in("alice", &right("alice"))).status, 302);
    let statuses =
        ["one", "two", "three", "stale"].map(|password| gate.ask(sign_in("alice", password)).status);
    assert_eq!(statuses, [200, 200, 429, 200]);
}

#[test]
fn repeats_are_capped_so_that_no_client_can_ask_what_was_tried() {
    let application = application();
    let tables = "[limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\nunit = \"passwords\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let mut client = gate.connect();
    let admitted = (0..300).filter(|_| {
        client.send(sign_in("alice", "stale"));
        client.answer().status == 200
    });
    assert_eq!(admitted.count(), 203, "one, 200 repeats, and two that cost as if they were new");
}

const ESCALATE: &str = "[limit.address]\nrate = \"1 per 1s burst 2\"\n\
    [limit.address.escalate]\nafter = 3\nwait = \"30s\"\nfactor = 2\nmax = \"1h\"\n";

#[test]
fn a_client_that_comes_back_too_soon_waits_longer_each_time() {
    let application = application();
    let clocks = Clocks::frozen(&application.file(&format!("{ROUTE}{ESCALATE}")));
    let gate = &clocks.gate;
    let ask = || gate.ask(sign_in("alice", "wrong"));
    assert_eq!([(); 4].map(|()| ask().status), [200, 200, 429, 429]);
    assert_eq!(ask().status, 429);
    assert_eq!(ask().retry_after(), 30, "after three refusals in a row");
    assert_eq!([(); 2].map(|()| ask().status), [429, 429]);
    assert_eq!(ask().retry_after(), 60, "and after three more");
    clocks.pass(Duration::from_secs(60));
    assert_eq!(ask().status, 200, "who obeys is admitted");
}

#[test]
fn the_refusal_that_begins_a_longer_wait_tells_that_wait() {
    let application = application();
    let clocks = Clocks::frozen(&application.file(&format!("{ROUTE}{ESCALATE}")));
    let ask = || clocks.gate.ask(sign_in("alice", "wrong"));
    assert_eq!([(); 4].map(|()| ask().status), [200, 200, 429, 429]);
    assert_eq!(ask().retry_after(), 30, "the third refusal in a row");
    clocks.pass(Duration::from_secs(30));
    assert_eq!(ask().status, 200, "who obeys is admitted");
}

#[test]
fn a_client_that_obeys_never_waits_longer() {
    let application = application();
    let clocks = Clocks::frozen(&application.file(&format!("{ROUTE}{ESCALATE}")));
    let gate = &clocks.gate;
    let mut passed = 0;
    for _ in 0..20 {
        let answer = gate.ask(sign_in("alice", "wrong"));
        if answer.status == 429 {
            assert_eq!(answer.retry_after(), 1);
            passed += 1;
            clocks.pass(Duration::from_secs(passed));
        }
    }
    assert!(passed > 5);
}

/// F8: NIST SP 800-63B, 5.2.2.
#[test]
fn after_so_many_failures_in_a_row_only_a_known_device_gets_in() {
    let application = application();
    let tables = "[limit.account]\nkey = \"user\"\nrate = \"1000 per 1s\"\ncount = \"failures\"\nmax_failures = 10\n\
        [device]\nsecret = \"0123456789abcdef0123456789abcdef\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let known = gate.ask(sign_in("alice", &right("alice")));
    let device = format!("Cookie: tollgate_device={}\r\n", cookie(&known, "tollgate_device").unwrap());
    assert_eq!(guesses(&gate, "alice"), 10);
    let stranger = || status_from(&gate, Ipv4Addr::new(127, 0, 0, 77), "alice", &right("alice"));
    assert_eq!(stranger(), 429, "although the password is right");
    assert_eq!(gate.ask(sign_in_with(&device, &form("alice", "wrong"))).status, 200);
    assert_eq!(stranger(), 429, "a known device that fails lifts nothing");
    assert_eq!(gate.ask(sign_in_with(&device, &form("alice", &right("alice")))).status, 302);
    assert_eq!(stranger(), 302, "its success does");
}

#[test]
fn a_success_breaks_the_row_of_its_own_account_and_of_no_other() {
    let application = application();
    let tables =
        "[limit.account]\nkey = \"user\"\nrate = \"1000 per 1s\"\ncount = \"failures\"\nmax_failures = 5\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{tables}")));
    let mut reached = 0;
    for number in 0..20 {
        assert_eq!(gate.ask(sign_in("mallory", &right("mallory"))).status, 302);
        reached += usize::from(gate.ask(sign_in("alice", &format!("wrong{number}"))).status == 200);
    }
    assert_eq!(reached, 5);
    for _ in 0..3 {
        assert!((0..4).all(|_| gate.ask(sign_in("bob", "wrong")).status == 200));
        assert_eq!(gate.ask(sign_in("bob", &right("bob"))).status, 302);
    }
}

#[test]
fn waits_grow_for_failures_in_a_row_too() {
    let application = application();
    let tables = "[limit.account]\nkey = \"user\"\nrate = \"100 per 1h\"\ncount = \"failures\"\n\
        [limit.account.escalate]\nafter = 3\nwait = \"30s\"\nfactor = 2\nmax = \"1h\"\n";
    let clocks = Clocks::frozen(&application.file(&format!("{ROUTE}{tables}")));
    let gate = &clocks.gate;
    assert_eq!(guesses(gate, "alice"), 3);
    clocks.pass(Duration::from_secs(30));
    assert_eq!(guesses(gate, "alice"), 3);
    clocks.pass(Duration::from_secs(60));
    assert_eq!(guesses(gate, "alice"), 0, "a minute, this time");
    clocks.pass(Duration::from_secs(90));
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 200);
    assert_eq!(gate.ask(sign_in("alice", &right("alice"))).status, 302, "which breaks the row");
    assert_eq!(guesses(gate, "alice"), 3);
}
