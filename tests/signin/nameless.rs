//! Attempts that name no account that can be read: they spend what their own client has, and nothing that others need.

use std::net::Ipv4Addr;

use support::application::{ROUTE, application, form};
use support::{Gate, Upstream, post_with};

const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"10 per 1h\"\n";

/// The status of a POST of this form from this address.
fn posted(gate: &Gate, from: u8, target: &str, form: &str) -> u16 {
    let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 0, from));
    let head = "Content-Type: application/x-www-form-urlencoded";
    client.send(format!(
        "POST {target} HTTP/1.1\r\nHost: app.test\r\n{head}\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    ));
    client.answer().status
}

/// How many of ten attempts of an address without an account get through, after another address had twelve.
fn left_for_others(gate: &Gate, attack: (&str, &str), use_of_others: (&str, &str)) -> usize {
    for _ in 0..12 {
        posted(gate, 8, attack.0, attack.1);
    }
    (0..10).filter(|_| posted(gate, 9, use_of_others.0, use_of_others.1) != 429).count()
}

/// L10: WordPress as the README sets it up: empty sign-ins, lost passwords, XML-RPC, from one address.
#[test]
fn one_client_without_an_account_does_not_lock_others_out_of_wordpress() {
    let file = "[route.blog]\npreset = \"wordpress\"\n[limit.account]\nkey = \"user\"\nrate = \"1 per 3m burst 10\"\n\
        count = \"failures\"\n";
    let (login, lost) = ("/wp-login.php", "/wp-login.php?action=lostpassword");
    let call = "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>";
    let attacks = [(login, ""), (lost, "user_login=victim"), ("/xmlrpc.php", call)];
    for attack in attacks {
        for others in [(login, ""), (lost, "user_login=me"), ("/xmlrpc.php", call)] {
            let application = Upstream::start();
            let gate = Gate::start(&application.file(file));
            assert_eq!(left_for_others(&gate, attack, others), 10, "{attack:?} and {others:?}");
        }
    }
}

/// L10: the second factor of gitea names no account, it goes by the session.
#[test]
fn one_client_with_wrong_second_factors_leaves_others_theirs() {
    let application = Upstream::start();
    let file = "[route.git]\npreset = \"gitea\"\n[limit.account]\nkey = \"user\"\nrate = \"10 per 1h\"\n";
    let gate = Gate::start(&application.file(file));
    let second = ("/user/two_factor", "passcode=000000");
    assert_eq!(left_for_others(&gate, second, second), 10);
    assert_eq!(posted(&gate, 8, second.0, second.1), 429, "its own are used up");
}

/// L10: the prefix that shares a bucket is that of the limit; a name that can be read is an account as ever.
#[test]
fn attempts_without_an_account_pay_from_the_bucket_of_their_prefix() {
    let application = application();
    let subnet = format!("{ACCOUNT}ipv4 = 24\n");
    let gate = Gate::start(&application.file(&format!("{ROUTE}{}", subnet.replace("10 per", "4 per"))));
    let from = |third, last, body: &str| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, third, last));
        client.send(format!(
            "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        client.answer().status
    };
    assert_eq!([1, 2, 3, 4, 5].map(|last| from(1, last, "pwd=x")), [200, 200, 200, 200, 429]);
    assert_eq!(from(2, 1, "pwd=x"), 200, "another subnet");
    assert_eq!([1, 2, 3, 4, 5].map(|third| from(third, 1, &form("alice", "x"))), [200, 200, 200, 200, 429]);
}

/// L10: a body that cannot be read is such an attempt, too.
#[test]
fn a_body_that_cannot_be_read_is_charged_to_its_own_client() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}")));
    let from = |last| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 0, last));
        client.send(
            post_with("/login", "Content-Type: application/x-www-form-urlencoded; charset=utf-16\r\n")
                .replace("Length: 0", "Length: 2")
                + "\u{1}\u{2}",
        );
        client.answer().status
    };
    assert_eq!((0..12).filter(|_| from(8) == 200).count(), 10);
    assert_eq!((0..12).filter(|_| from(9) == 200).count(), 10);
}
