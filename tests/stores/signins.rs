//! Sign-ins at two gates that share a store: what came of one at one of them counts at the other.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use serde_json::Value;

use crate::two_gates;
use support::application::{
    FIVE, ROUTE, application, cookie, form, refused_of_500_at_once, right, sign_in, sign_in_with, status_from,
};
use support::servers::redis::Redis;
use support::{Gate, Reply, Server, Upstream, binary, eventually, started};

const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n";
const MANY: &str = "[limit.account]\nkey = \"user\"\nrate = \"100 per 1h\"\ncount = \"failures\"\n";

fn status(gate: &Gate, user: &str, password: &str) -> u16 {
    gate.ask(sign_in(user, password)).status
}

/// What the store has of this key, asked for at this gate.
fn shown(gate: &Gate, key: &str) -> Value {
    let mut command = Command::new(binary());
    command.args(["buckets", "show", key, "--format", "json", "--socket"]).arg(gate.admin_socket());
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The bucket that the store has of this key under its first limit.
fn bucket(gate: &Gate, key: &str) -> Value {
    shown(gate, key)["buckets"][0].clone()
}

/// How many guesses at both gates by turns reach the application before one is refused; at most 100.
fn guesses(gates: &[Gate; 2], user: &str) -> usize {
    let guess = |&number: &usize| status(&gates[number % 2], user, &format!("wrong{number}")) != 429;
    (0..100).take_while(guess).count()
}

#[test]
fn of_500_right_sign_ins_in_a_row_at_two_gates_none_is_refused() {
    let server = started::<Redis>();
    let application = application();
    let gates = two_gates(&server, &application.file(&format!("{ROUTE}{FIVE}")));
    let mut clients = [gates[0].connect(), gates[1].connect()];
    for number in 0..500 {
        let client = &mut clients[number % 2];
        client.send(sign_in("alice", &right("alice")));
        assert_eq!(client.answer().status, 302, "sign-in {number}");
    }
    let is_settled = || bucket(&gates[0], "ip:127.0.0.1")["tokens"] == 5;
    assert!(eventually(Duration::from_secs(5), is_settled), "{}", bucket(&gates[0], "ip:127.0.0.1"));
    assert_eq!(guesses(&gates, "alice"), 5, "nothing was lost and nothing won");
}

#[test]
fn of_500_wrong_passwords_at_once_at_two_gates_exactly_five_reach_the_application() {
    let server = started::<Redis>();
    let application = application();
    let gates = two_gates(&server, &application.file(&format!("{ROUTE}{FIVE}")));
    let refused = refused_of_500_at_once(&gates);
    assert_eq!((refused, application.requests().len()), (495, 5));
}

#[test]
fn a_device_that_one_gate_knows_is_known_at_the_other_with_one_budget() {
    let server = started::<Redis>();
    let application = application();
    let keys = "[device]\nsecret = \"${file:{dir}/device.keys}\"\n";
    let gates = two_gates(&server, &application.file(&format!("{ROUTE}{ACCOUNT}{keys}")));
    let answer = gates[0].ask(sign_in_with("", &form("alice", &right("alice"))));
    assert_eq!(answer.status, 302);
    let device = format!("Cookie: tollgate_device={}\r\n", cookie(&answer, "tollgate_device").unwrap());
    let known =
        |gate: &Gate, password: &str| gate.ask(sign_in_with(&device, &form("alice", password))).status;
    assert_eq!(guesses(&gates, "alice"), 5);
    for gate in &gates {
        assert_eq!(status(gate, "alice", &right("alice")), 429, "a stranger");
        assert_eq!(known(gate, &right("alice")), 302, "the owner");
    }
    let reached =
        (0..20).filter(|number| known(&gates[number % 2], &format!("wrong{number}")) == 200).count();
    assert_eq!(reached, 5, "a thief of the cookie has as many guesses as the limit says, at both gates");
}

#[test]
fn an_address_that_one_gate_knows_is_known_at_the_other_with_one_budget() {
    let server = started::<Redis>();
    let application = application();
    let tables = format!("{ROUTE}{ACCOUNT}[device]\naddresses = true\n");
    let gates = two_gates(&server, &application.file(&tables));
    let home = Ipv4Addr::new(127, 5, 0, 1);
    let at_home = |gate: &Gate, password: &str| status_from(gate, home, "planted-user", password);
    assert_eq!(at_home(&gates[0], &right("planted-user")), 302);
    assert_eq!(guesses(&gates, "planted-user"), 5);
    for gate in &gates {
        let right = right("planted-user");
        assert_eq!(status(gate, "planted-user", &right), 429, "a stranger");
        assert_eq!(at_home(gate, &right), 302, "the owner");
    }
    let reached =
        (0..20).filter(|number| at_home(&gates[number % 2], &format!("wrong{number}")) == 200).count();
    assert_eq!(reached, 5, "a neighbour has as many guesses as the limit says, at both gates");
    let keys = server.cli(&["KEYS", "*"]);
    let content: String = keys.lines().map(|key| server.cli(&["GET", key])).collect();
    assert!(keys.lines().count() >= 3, "{keys}");
    for planted in ["planted", "127.5.0.1"] {
        assert!(!keys.contains(planted) && !content.contains(planted), "{keys} {content}");
    }
}

/// Ten failures lock an account in the directory; one more cannot be risked while nobody knows what the other gate forwards.
#[test]
fn two_gates_together_stay_below_the_threshold_of_a_directory_and_deny_without_the_store() {
    let mut server = started::<Redis>();
    let application = application();
    let tables =
        format!("{ROUTE}[limit.directory]\ndirectory = \"10 per 30m\"\n[device]\naddresses = true\n");
    let gates = two_gates(&server, &application.file(&tables));
    let home = Ipv4Addr::new(127, 5, 0, 1);
    let at_home = |gate: &Gate, password: &str| status_from(gate, home, "alice", password);
    assert_eq!(at_home(&gates[0], &right("alice")), 302);
    // A token that one bucket gave and another refused is back a moment later, and short of that moment.
    let strangers = 500 - refused_of_500_at_once(&gates);
    assert!((1..=4).contains(&strangers), "{strangers}");
    let reached = (0..20).filter(|number| at_home(&gates[number % 2], &format!("wrong{number}")) == 200);
    let owner = reached.count();
    assert!((1..=6 - strangers).contains(&owner), "{strangers} and {owner}");
    server.kill();
    assert!(eventually(Duration::from_secs(10), || status(&gates[0], "bob", "wrong") == 503));
}

/// The owner's first attempt at a gate that does not know them is charged once, to the owner.
#[test]
fn a_gate_that_learns_of_an_address_from_the_store_takes_nothing_from_strangers() {
    let server = started::<Redis>();
    let application = application();
    let tables = format!("{ROUTE}{ACCOUNT}[device]\naddresses = true\n");
    let gates = two_gates(&server, &application.file(&tables));
    let home = Ipv4Addr::new(127, 5, 0, 1);
    assert_eq!(status_from(&gates[0], home, "alice", &right("alice")), 302);
    // The gate remembers an address after the client has its answer.
    let is_known = || shown(&gates[0], "user:alice")["addresses"][0]["known"] == 1;
    assert!(eventually(Duration::from_secs(5), is_known), "{}", shown(&gates[0], "user:alice"));
    let wrong = |number: &usize| status_from(&gates[1], home, "alice", &format!("wrong{number}")) == 200;
    assert_eq!((0..20).filter(wrong).count(), 5);
    assert_eq!(guesses(&gates, "alice"), 5, "strangers have all of theirs");
}

#[test]
fn waits_grow_for_failures_at_both_gates_and_a_success_at_one_ends_the_row_at_both() {
    let server = started::<Redis>();
    let application = application();
    let tables = format!("{ROUTE}{MANY}[limit.account.escalate]\nafter = 3\nwait = \"30m\"\nmax = \"4h\"\n");
    let gates = two_gates(&server, &application.file(&tables));
    // The gate writes a strike to the store when the answer is there and does not wait for it, so the test waits.
    let left = |user: &str| bucket(&gates[1], &format!("user:{user}"))["escalate"]["left"].as_u64();
    let becomes = |user: &str, count| {
        assert!(eventually(Duration::from_secs(5), || left(user) == Some(count)), "{:?}", left(user));
    };
    for (number, gate) in [&gates[0], &gates[1], &gates[0]].into_iter().enumerate() {
        assert_eq!(status(gate, "alice", "wrong"), 200);
        becomes("alice", 2 - number as u64);
    }
    for gate in &gates {
        let answer = gate.ask(sign_in("alice", "wrong"));
        let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert_eq!(answer.status, 429);
        assert!((1700..=1800).contains(&wait), "{wait}");
    }
    for (number, gate) in [&gates[0], &gates[1]].into_iter().enumerate() {
        assert_eq!(status(gate, "bob", "wrong"), 200);
        becomes("bob", 2 - number as u64);
    }
    assert_eq!(status(&gates[0], "bob", &right("bob")), 302);
    becomes("bob", 3);
}

#[test]
fn failures_in_a_row_are_capped_over_both_gates() {
    let server = started::<Redis>();
    let application = application();
    let tables = format!("{ROUTE}{MANY}max_failures = 6\n");
    let gates = &two_gates(&server, &application.file(&tables));
    let ready = &Barrier::new(20);
    let reached: usize = std::thread::scope(|scope| {
        let guess = move |thread: usize| {
            let address = Ipv4Addr::new(127, 1, 0, u8::try_from(thread).unwrap() + 1);
            let mut client = gates[thread % 2].connect_from(address);
            ready.wait();
            client.send(sign_in("alice", &format!("wrong{thread}")));
            usize::from(client.answer().status == 200)
        };
        let threads: Vec<_> = (0..20).map(|thread| scope.spawn(move || guess(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(reached, 6);
    for gate in gates {
        assert_eq!(status(gate, "alice", &right("alice")), 429);
    }
}

/// A success comes while the store does not answer: the token comes back when it does, once.
#[test]
fn a_token_that_cannot_be_given_back_at_once_is_given_back_later() {
    let mut server = started::<Redis>();
    let application = Upstream::answering(|request, _| {
        let is_right = request.windows(9).any(|window| window == b"pwd=right");
        let home = "HTTP/1.1 302 Found\r\nLocation: /home\r\nContent-Length: 0\r\n\r\n";
        let failed = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if is_right { Reply::text(home).after(Duration::from_millis(500)) } else { Reply::text(failed) }
    });
    let file = application.file(&format!("{ROUTE}{FIVE}"));
    let [one, other] = two_gates(&server, &file);
    let tokens = || bucket(&other, "ip:127.0.0.1")["tokens"].as_u64();
    assert_eq!([status(&one, "alice", "wrong"), status(&other, "alice", "wrong")], [200, 200]);
    let mut client = one.connect();
    client.send(sign_in("alice", "right"));
    application.wait_for(3);
    server.pause();
    assert_eq!(client.answer().status, 302);
    // Longer than the time-out, so that it is not only late.
    std::thread::sleep(Duration::from_secs(7));
    server.resume();
    assert!(eventually(Duration::from_secs(30), || tokens() == Some(3)), "{:?}", tokens());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(tokens(), Some(3), "once");
}

/// A store's reader learns nothing of passwords, and two gates have twice the accounts.
#[test]
fn passwords_are_counted_by_each_gate_for_itself_and_never_in_the_store() {
    let server = started::<Redis>();
    let application = application();
    let spray = "[limit.spray]\nkey = \"password\"\nunit = \"users\"\nrate = \"9 per 1d\"\n";
    let gates = two_gates(&server, &application.file(&format!("{ROUTE}{spray}{ACCOUNT}")));
    for gate in &gates {
        let tried =
            (0..30).filter(|number| status(gate, &format!("account{number}"), "planted-winter") != 429);
        assert_eq!(tried.count(), 9);
        assert_eq!(status(gate, "account1", "planted-winter"), 200, "the same account again");
    }
    gates.iter().for_each(|gate| assert_eq!(status(gate, "other", "planted-summer"), 200));
    let is_settled = || server.cli(&["KEYS", "*"]).lines().count() >= 12;
    assert!(eventually(Duration::from_secs(5), is_settled));
    let keys = server.cli(&["KEYS", "*"]);
    assert!(!keys.contains("spray") && !keys.contains("planted"), "{keys}");
    let what = "a bucket for each account that was tried, the marker and the list of gates";
    assert_eq!(keys.lines().count(), 12, "{what}: {keys}");
}
