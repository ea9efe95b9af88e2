//! Attack mode on a running gate: strangers pay more, known devices do not, and a webhook hears of it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use support::application::{ROUTE, application, cookie, form, right, sign_in, sign_in_with, status_from};
use support::{Gate, Launch, Reply, Upstream, eventually};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const TABLES: &str =
    "[limit.address]\nrate = \"12 per 1h\"\n[device]\nsecret = \"${file:{dir}/device.keys}\"\n";

fn launch(application: &Upstream, webhook: &str) -> (Gate, String) {
    let attack = format!(
        "[route.login.attack]\nfailures = \"20/min\"\nshare = 0.5\nscale = 0.3\nwebhook = \"{webhook}\"\n"
    );
    let launch = Launch::new(&application.file(&format!("{ROUTE}{attack}{TABLES}")));
    let without = application.file(&format!("{ROUTE}{TABLES}")).replace("{dir}/", "");
    (launch.beside("device.keys", KEY).start(), without)
}

fn is_on(gate: &Gate) -> bool {
    gate.metric("tollgate_attack_mode", "route=\"login\"") > 0.5
}

/// Failures from as many addresses.
fn attack(gate: &Gate, addresses: u8) {
    (0..addresses).for_each(|host| _ = status_from(gate, Ipv4Addr::new(127, 0, 8, host), "alice", "wrong"));
}

/// How many attempts of a new address are admitted.
fn admitted(gate: &Gate, address: Ipv4Addr) -> usize {
    (0..20).filter(|_| status_from(gate, address, "bob", "wrong") != 429).count()
}

#[test]
fn under_attack_strangers_get_a_share_and_known_devices_all_of_it() {
    let application = application();
    let (gate, _) = launch(&application, "");
    let signed_in = gate.ask(sign_in("alice", &right("alice")));
    let device = cookie(&signed_in, "tollgate_device").unwrap();
    attack(&gate, 19);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!is_on(&gate), "one failure less");
    attack(&gate, 1);
    assert!(eventually(Duration::from_secs(5), || is_on(&gate)));
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 7, 1)), 3, "12 tokens, 4 for each attempt");
    let known = sign_in_with(&format!("Cookie: tollgate_device={device}\r\n"), &form("alice", "wrong"));
    let attempts = (0..20).filter(|_| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 7, 2));
        client.send(&known);
        client.answer().status != 429
    });
    assert_eq!(attempts.count(), 12);
    let borrowed = sign_in_with(&format!("Cookie: tollgate_device={device}\r\n"), &form("bob", "wrong"));
    let borrowed = (0..20).filter(|_| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 7, 3));
        client.send(&borrowed);
        client.answer().status != 429
    });
    assert_eq!(borrowed.count(), 3, "a device is known for its own account only");
    assert_eq!(gate.messages().matches("attack mode begins").count(), 1);
}

#[test]
fn under_attack_networks_whose_attempts_fail_pay_more_than_those_of_people() {
    let application = application();
    let attack = "[route.login.attack]\nfailures = \"20/min\"\nshare = 0.5\nscale = 0.3\nworst = 0.1\n";
    let gate =
        Gate::start(&application.file(&format!("{ROUTE}{attack}[limit.address]\nrate = \"12 per 1h\"\n")));
    let person = |host: u8| Ipv4Addr::new(127, 0, 6, host);
    (0..25).for_each(|host| _ = status_from(&gate, person(host), "alice", &right("alice")));
    (0..3).for_each(|_| self::attack(&gate, 20));
    assert!(eventually(Duration::from_secs(5), || is_on(&gate)));
    assert_eq!(admitted(&gate, person(100)), 3, "four tokens each of twelve");
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 8, 100)), 1, "ten each");
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 5, 1)), 3, "a network that nothing is known of");
}

#[test]
fn successes_keep_a_busy_route_at_peace() {
    let application = application();
    let (gate, _) = launch(&application, "");
    (0..25).for_each(|host| _ = status_from(&gate, Ipv4Addr::new(127, 0, 8, host), "alice", &right("alice")));
    attack(&gate, 22);
    std::thread::sleep(Duration::from_millis(2200));
    assert!(!is_on(&gate), "22 of 47 fail");
}

/// M9: 494 failures at 395 a minute never began it, with one sign-in of the attacker's own for three of them.
#[test]
fn an_account_of_their_own_does_not_keep_it_off() {
    let (application, table) = (application(), "[route.login.attack]\nfailures = \"20/min\"\nshare = 0.8\n");
    let file = application.file(&format!("{ROUTE}{table}[limit.address]\nrate = \"60 per 1h\"\n"));
    for own_addresses in [1, 9] {
        let gate = Gate::start(&file);
        for round in 0..9 {
            for guess in 0..3 {
                let stranger = Ipv4Addr::new(127, 0, 8, 3 * round + guess);
                let _ = status_from(&gate, stranger, &format!("user{}", 3 * round + guess), "wrong");
            }
            let own = Ipv4Addr::new(127, 0, 7, round % own_addresses);
            assert_ne!(status_from(&gate, own, "mallory", &right("mallory")), 429);
        }
        assert!(eventually(Duration::from_secs(5), || is_on(&gate)), "from {own_addresses} addresses");
    }
}

/// Any client can add what `when` asks for, and have its attempts counted by an earlier route as well.
#[test]
fn an_earlier_route_that_counts_the_attempts_too_does_not_keep_it_off() {
    let (application, table) = (application(), "[route.login.attack]\nfailures = \"20/min\"\nshare = 0.5\n");
    let early = ROUTE.replace("[route.login]", "[route.early]\nwhen = \"header:X-Early\"");
    let gate = Gate::start(
        &application.file(&format!("{early}{ROUTE}{table}[limit.address]\nrate = \"60 per 1h\"\n")),
    );
    for guess in 0..25 {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 8, guess));
        client.send(sign_in_with("X-Early: 1\r\n", &form("alice", "wrong")));
        assert_ne!(client.answer().status, 429);
    }
    assert!(eventually(Duration::from_secs(5), || is_on(&gate)));
}

#[test]
fn a_webhook_hears_of_begin_and_end_although_it_fails_at_first() {
    let application = application();
    let calls = AtomicU32::new(0);
    let receiver = Upstream::answering(move |_, _| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::text("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
        1 => Reply::BytesAndClose(b"no HTTP at all".to_vec()),
        _ => Reply::text("HTTP/1.1 204 No Content\r\n\r\n"),
    });
    let (gate, without) = launch(&application, &format!("http://{}/hook?key=planted", receiver.address));
    attack(&gate, 20);
    assert!(eventually(Duration::from_secs(5), || is_on(&gate)));
    receiver.wait_for(3);
    let [.., last] = &receiver.requests()[..] else { panic!("requests") };
    assert_eq!((&*last.method, &*last.target), ("POST", "/hook?key=planted"));
    assert_eq!(last.all("host"), [receiver.address.to_string()]);
    let said: Value = serde_json::from_slice(&last.body).unwrap();
    assert_eq!(
        (&said["event"], &said["route"], &said["share"]),
        (&"attack_begin".into(), &"login".into(), &1.0.into())
    );
    assert!(said["failures_per_minute"].as_u64().unwrap() >= 20, "{said}");
    assert!(
        said["time"].as_str().unwrap().ends_with('Z') && !said["gate"].as_str().unwrap().is_empty(),
        "{said}"
    );
    assert!(gate.reload(&without), "without the table the mode ends");
    receiver.wait_for(4);
    let said: Value = serde_json::from_slice(&receiver.last().body).unwrap();
    assert_eq!(said["event"], "attack_end");
    assert!(!is_on(&gate));
    let messages = gate.messages();
    assert_eq!(messages.matches("a webhook was not reached").count(), 2, "{messages}");
    assert!(!messages.contains("planted"), "its address may hold a secret");
}
