//! What becomes of a token: it stays taken after a failure, and comes back after everything else.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use support::application::{FIVE, ROUTE, application, guesses, refused_of_500_at_once, right, sign_in};
use support::{Gate, eventually};

/// E21: 500 at once.
#[test]
fn of_500_wrong_passwords_at_once_exactly_five_reach_the_application() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{FIVE}")));
    let refused = refused_of_500_at_once(std::slice::from_ref(&gate));
    assert_eq!((refused, application.requests().len()), (495, 5));
}

#[test]
fn of_500_right_sign_ins_in_a_row_none_is_refused() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{FIVE}")));
    let mut client = gate.connect();
    for number in 0..500 {
        client.send(sign_in("alice", &right("alice")));
        assert_eq!(client.answer().status, 302, "sign-in {number}");
    }
    assert_eq!(gate.metric("tollgate_attempts_total", "outcome=\"success\""), 500.0);
    assert_eq!(guesses(&gate, "alice"), 5, "nothing was lost and nothing won");
}

/// E22: the classic way around a counter that a success resets.
#[test]
fn successes_of_his_own_between_the_guesses_buy_an_attacker_nothing() {
    let application = application();
    let tables = "[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{FIVE}{tables}")));
    let mut reached = 0;
    for number in 0..50 {
        assert!(matches!(gate.ask(sign_in("mallory", &right("mallory"))).status, 302 | 429));
        reached += usize::from(gate.ask(sign_in("alice", &format!("wrong{number}"))).status == 200);
    }
    assert_eq!(reached, 5);
}

/// L7: it may have judged the password before.
#[test]
fn an_application_that_breaks_or_does_not_answer_is_paid_for() {
    let application = application();
    let tables = format!("{ROUTE}{FIVE}[proxy]\nreply_timeout = \"1s\"\n");
    let gate = Gate::start(&application.file(&tables));
    for _ in 0..3 {
        assert_eq!(gate.ask(sign_in("alice", "crash")).status, 500);
    }
    assert_eq!(gate.ask(sign_in("alice", "silence")).status, 504);
    assert_eq!(gate.metric("tollgate_attempts_total", "outcome=\"failure\""), 4.0);
    assert_eq!(guesses(&gate, "alice"), 1);
}

#[test]
fn a_failure_of_some_weight_takes_what_is_there_and_a_pair_is_full_after_a_success() {
    let application = application();
    let route = ROUTE.replace("[route.login]\n", "[route.login]\nfailure = { status = 500, weight = 3 }\n");
    let pair =
        "[limit.pair]\nkey = \"user+ip\"\nrate = \"5 per 1h\"\ncount = \"failures\"\nreset = \"success\"\n";
    let gate = Gate::start(&application.file(&format!("{route}{pair}")));
    assert_eq!(gate.ask(sign_in("alice", "crash")).status, 500);
    assert_eq!(guesses(&gate, "alice"), 2, "three of five were taken");
    assert_eq!(gate.ask(sign_in("bob", "wrong")).status, 200);
    assert_eq!(gate.ask(sign_in("bob", "crash")).status, 500);
    assert_eq!(gate.ask(sign_in("bob", &right("bob"))).status, 302);
    assert_eq!(guesses(&gate, "bob"), 5, "the success filled it");
    for status in [500, 500, 429] {
        assert_eq!(gate.ask(sign_in("carol", "crash")).status, status);
    }
}

/// E23: a client that hangs up before the answer has paid for its guess.
#[test]
fn a_client_that_hangs_up_before_the_answer_has_paid() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{FIVE}")));
    for number in 1..=5 {
        let mut client = TcpStream::connect(gate.address).unwrap();
        client.write_all(sign_in("alice", "silence").as_bytes()).unwrap();
        application.wait_for(number);
        drop(client);
    }
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 429);
    let counted = || gate.metric("tollgate_attempts_total", "outcome=\"failure\"") == 5.0;
    assert!(eventually(Duration::from_secs(5), counted), "{}", gate.metrics());
}

#[test]
fn a_limit_that_counts_attempts_gives_nothing_back() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{}", FIVE.replace("failures", "attempts"))));
    let admitted = (0..20).filter(|_| gate.ask(sign_in("alice", &right("alice"))).status == 302).count();
    assert_eq!(admitted, 5);
}

#[test]
fn what_was_on_its_way_when_the_file_was_read_again_is_settled_by_the_old_one() {
    let application = application();
    let (before, other) = (format!("{ROUTE}{FIVE}"), "[limit.other]\nrate = \"100 per 1h\"\n");
    let gate = Gate::start(&application.file(&before));
    let mut clients: Vec<_> = (0..5).map(|_| gate.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(sign_in("alice", "silence"));
        application.wait_for(number + 1);
    }
    assert!(gate.reload(&application.file(&format!("{before}{other}"))));
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 429, "they are still on their way");
    drop(clients);
    assert_eq!(gate.ask(sign_in("alice", "wrong")).status, 429, "and paid by hanging up");
}
