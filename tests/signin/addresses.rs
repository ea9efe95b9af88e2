//! Known addresses: the owner of an account gets in from where it signed in before, with a client that keeps no cookie.

use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use support::application::{ROUTE, application, form, right, sign_in_with, status_from};
use support::{Gate, eventually, new_directory};

const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"10 per 1h\"\ncount = \"failures\"\n";
const ADDRESSES: &str = "[device]\naddresses = true\n";
const HOME: Ipv4Addr = Ipv4Addr::new(127, 5, 0, 1);
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 5, 0, 2);

fn file(tables: &str) -> String {
    format!("{ROUTE}{ACCOUNT}{ADDRESSES}{tables}")
}

/// How many of so many wrong passwords reach the application, each from an address of its own.
fn foreign_guesses(gate: &Gate, user: &str, guesses: u32) -> usize {
    let guess = |number: &u32| status_from(gate, stranger(*number), user, &format!("wrong{number}")) == 200;
    (0..guesses).filter(guess).count()
}

fn stranger(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x7f02_0001 + number)
}

/// How many of 30 wrong passwords from one address reach the application.
fn guesses_from(gate: &Gate, address: Ipv4Addr, user: &str) -> usize {
    (0..30).filter(|number| status_from(gate, address, user, &format!("wrong{number}")) == 200).count()
}

/// The README says so.
#[test]
fn an_owner_signs_in_at_once_from_where_they_signed_in_before_whatever_strangers_do() {
    let application = application();
    let gate = Gate::start(&application.file(&file("")));
    for _ in 0..3 {
        assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302);
    }
    for (guesses, reach) in [(10, 10), (990, 0)] {
        assert_eq!(foreign_guesses(&gate, "alice", guesses), reach);
        assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302, "after {guesses} guesses");
    }
    assert_eq!(status_from(&gate, NEIGHBOUR, "alice", &right("alice")), 429, "a stranger");
    assert_eq!(status_from(&gate, HOME, "bob", &right("bob")), 302, "another account of the same address");
}

#[test]
fn who_shares_a_known_address_has_one_budget_there_and_takes_nothing_from_anybody_else() {
    let application = application();
    let gate = Gate::start(&application.file(&file("")));
    for address in [HOME, NEIGHBOUR] {
        assert_eq!(status_from(&gate, address, "alice", &right("alice")), 302);
    }
    assert_eq!(guesses_from(&gate, HOME, "alice"), 10, "an attacker behind the owner's address");
    assert_eq!(status_from(&gate, NEIGHBOUR, "alice", &right("alice")), 302, "the owner's other address");
    assert_eq!(foreign_guesses(&gate, "alice", 30), 10, "strangers have theirs");
    assert_eq!(
        guesses_from(&gate, HOME, "bob"),
        10,
        "and the address has no more than others at other accounts"
    );
}

#[test]
fn an_address_is_known_with_its_neighbours_as_far_as_the_file_says_and_they_share_its_budget() {
    let application = application();
    let gate = Gate::start(&application.file(&file("address_ipv4 = 24\n")));
    assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302);
    assert_eq!(foreign_guesses(&gate, "alice", 20), 10);
    assert_eq!(status_from(&gate, NEIGHBOUR, "alice", &right("alice")), 302);
    assert_eq!(status_from(&gate, Ipv4Addr::new(127, 5, 1, 1), "alice", &right("alice")), 429);
    assert_eq!(guesses_from(&gate, NEIGHBOUR, "alice"), 10);
    assert_eq!(guesses_from(&gate, HOME, "alice"), 0);
}

#[test]
fn a_failure_makes_no_address_known_and_neither_does_a_success_of_two_accounts() {
    let application = application();
    let gate = Gate::start(&application.file(&file("")));
    assert_eq!(guesses_from(&gate, HOME, "alice"), 10);
    let mut client = gate.connect_from(HOME);
    client.send(sign_in_with("", &format!("log=bob&log=carol&pwd={}", right("bob"))));
    assert_eq!(client.answer().status, 302);
    assert_eq!(foreign_guesses(&gate, "bob", 30), 10);
    for user in ["alice", "bob"] {
        assert_eq!(status_from(&gate, HOME, user, &right(user)), 429, "{user}");
    }
}

#[test]
fn sixteen_addresses_of_an_account_are_known_and_the_next_takes_the_place_of_the_oldest() {
    let application = application();
    let gate = Gate::start(&application.file(&file("")));
    let home = |number: u8| Ipv4Addr::new(127, 6, 0, number);
    for number in 1..=17 {
        assert_eq!(status_from(&gate, home(number), "alice", &right("alice")), 302);
    }
    assert_eq!(foreign_guesses(&gate, "alice", 20), 10);
    let known = (1..=17).filter(|&number| status_from(&gate, home(number), "alice", &right("alice")) == 302);
    assert_eq!(known.collect::<Vec<u8>>(), (2..=17).collect::<Vec<u8>>());
}

#[test]
fn clients_behind_a_proxy_that_names_none_of_them_are_not_known_by_its_address() {
    let application = application();
    let gate = Gate::start(&application.file(&file("[client]\ntrust = [\"127.0.0.1\"]\n")));
    let status = |lines: &str, password: &str| gate.ask(sign_in_with(lines, &form("alice", password))).status;
    let (named, none) = ("X-Forwarded-For: 192.0.2.7\r\n", "");
    assert_eq!([status(named, &right("alice")), status(none, &right("alice"))], [302, 302]);
    assert_eq!(foreign_guesses(&gate, "alice", 20), 10);
    assert_eq!(status(none, &right("alice")), 429);
    assert_eq!(status(named, &right("alice")), 302);
}

#[test]
fn after_too_many_failures_in_a_row_a_known_address_gets_in_and_ends_the_row() {
    let application = application();
    let file = file("").replace("[device]", "max_failures = 5\n[device]");
    let gate = Gate::start(&application.file(&file));
    assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302);
    assert_eq!(foreign_guesses(&gate, "alice", 20), 5);
    assert_eq!(status_from(&gate, NEIGHBOUR, "alice", &right("alice")), 429);
    assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302);
    assert_eq!(status_from(&gate, NEIGHBOUR, "alice", &right("alice")), 302, "the row is over");
}

/// The answer of the admin API about an account.
fn operator(gate: &Gate, method: &str, below: &str) -> (String, Value) {
    let target = format!("/api/v1/buckets/user:Alice{below}");
    let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut stream = UnixStream::connect(gate.admin_socket()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.to_owned(), serde_json::from_str(body).unwrap())
}

#[test]
fn an_operator_sees_how_many_addresses_are_known_and_has_them_forgotten() {
    let application = application();
    let gate = Gate::start(&application.file(&file("")));
    for address in [HOME, NEIGHBOUR] {
        assert_eq!(status_from(&gate, address, "alice", &right("alice")), 302);
    }
    assert_eq!(foreign_guesses(&gate, "alice", 20), 10);
    let (status, shown) = operator(&gate, "GET", "");
    let known = &shown["addresses"];
    assert_eq!((&*status, &known[0]["application"], &known[0]["known"]), ("200", &"login".into(), &2.into()));
    assert!(known[0]["until"].as_str().unwrap().ends_with('Z'), "{shown}");
    let (status, shown) = operator(&gate, "DELETE", "/addresses");
    assert_eq!((&*status, shown.get("addresses")), ("200", None), "{shown}");
    assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 429, "a stranger again");
    let is_told = || gate.messages().contains("an operator removed the known addresses of an account");
    assert!(eventually(Duration::from_secs(5), is_told), "{}", gate.messages());
    assert!(!gate.messages().to_lowercase().contains("alice"), "{}", gate.messages());
}

#[test]
fn an_address_is_still_known_after_a_restart_and_no_name_or_address_stands_in_the_snapshot() {
    let application = application();
    let directory = new_directory();
    let path = directory.join("buckets");
    let file = file(&format!("[store]\nsnapshot = \"{}\"\n", path.display()));
    let gate = Gate::start(&application.file(&file));
    assert_eq!(status_from(&gate, HOME, "planted-user", &right("planted-user")), 302);
    assert_eq!(foreign_guesses(&gate, "planted-user", 20), 10);
    stop(gate);
    hides(&path);
    let gate = Gate::start(&application.file(&file));
    assert_eq!(status_from(&gate, NEIGHBOUR, "planted-user", &right("planted-user")), 429);
    assert_eq!(status_from(&gate, HOME, "planted-user", &right("planted-user")), 302);
    stop(gate);
    // Another time to live keeps them, too.
    let gate = Gate::start(
        &application.file(&file.replace("addresses = true", "addresses = true\naddress_ttl = \"1d\"")),
    );
    assert_eq!(status_from(&gate, HOME, "planted-user", &right("planted-user")), 302);
    stop(gate);
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn a_reload_keeps_the_addresses_and_turning_them_off_forgets_them() {
    let application = application();
    let gate = Gate::start(&application.file(&file("")));
    assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302);
    assert_eq!(foreign_guesses(&gate, "alice", 20), 10);
    let is_home_known = || status_from(&gate, HOME, "alice", &right("alice")) == 302;
    let longer = file("").replace("addresses = true", "addresses = true\naddress_ttl = \"60d\"");
    for (file, is_known) in [(longer, true), (file(""), true), (format!("{ROUTE}{ACCOUNT}"), false)] {
        assert!(gate.reload(&application.file(&file)));
        assert_eq!(is_home_known(), is_known, "{file}");
    }
    assert!(gate.reload(&application.file(&file(""))));
    assert!(!is_home_known());
}

fn stop(mut gate: Gate) {
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(10)).is_some());
}

fn hides(snapshot: &Path) {
    let bytes = fs::read(snapshot).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"device.addresses"), "the sets are there");
    for planted in [&b"planted"[..], b"127.5.0.1", &HOME.octets()] {
        assert!(!has(planted), "{planted:?}");
    }
}

/// Nobody waits for what a success writes.
#[test]
fn a_device_cookie_and_an_address_are_known_side_by_side() {
    let application = application();
    let keys = "secret = \"0123456789abcdef0123456789abcdef\"\n";
    let gate = Gate::start(&application.file(&file(keys)));
    let mut client = gate.connect_from(HOME);
    client.send(sign_in_with("", &form("alice", &right("alice"))));
    let device = support::application::cookie(&client.answer(), "tollgate_device").unwrap();
    assert!(eventually(Duration::from_secs(5), || foreign_guesses(&gate, "alice", 12) == 0));
    assert_eq!(status_from(&gate, HOME, "alice", &right("alice")), 302, "without the cookie, from home");
    let elsewhere =
        sign_in_with(&format!("Cookie: tollgate_device={device}\r\n"), &form("alice", &right("alice")));
    assert_eq!(gate.ask(elsewhere).status, 302, "with the cookie, from elsewhere");
}
