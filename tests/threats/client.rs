//! Whose request it is: identity comes from one configured source, and is compared by bits.
//!
//! The gate under test trusts 127.0.0.1 in tests about headers of a proxy in front of it, and no address in tests about
//! headers of a client. A bucket of one token shows whether two requests are taken for one client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;

use support::{Gate, Launch, ONE_AN_HOUR, Upstream, get_with, post_with};

/// A gate that believes 127.0.0.1 (and 10.0.0.0/8 further down the chain) about who its clients are.
fn trusting() -> (Upstream, Gate) {
    trusting_with("")
}

fn trusting_with(client_keys: &str) -> (Upstream, Gate) {
    let upstream = Upstream::start();
    let client = format!("[client]\ntrust = [\"127.0.0.1\", \"10.0.0.0/8\"]\n{client_keys}\n");
    let gate = Gate::start(&upstream.file(&format!("{client}{ONE_AN_HOUR}")));
    (upstream, gate)
}

fn attempt(gate: &Gate, lines: &str) -> u16 {
    gate.ask(post_with("/login", lines)).status
}

fn attempt_as(gate: &Gate, forwarded_for: &str) -> u16 {
    attempt(gate, &format!("X-Forwarded-For: {forwarded_for}\r\n"))
}

/// Whether two values of X-Forwarded-For are one client: the first takes the only token.
fn are_one_client(first: &str, second: &str) -> bool {
    let (_upstream, gate) = trusting();
    assert_eq!(attempt_as(&gate, first), 200, "{first:?} is a new client");
    attempt_as(&gate, second) == 429
}

/// C1: a header from an untrusted peer.
#[test]
fn an_untrusted_peer_cannot_say_who_it_is() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    assert_eq!(attempt_as(&gate, "203.0.113.7"), 200);
    assert_eq!(upstream.last().only("x-forwarded-for"), "127.0.0.1", "what it said is overwritten");
    assert_eq!(attempt_as(&gate, "203.0.113.8"), 429, "and it is still the same client");
    let lines = "Forwarded: for=203.0.113.9\r\nX-Real-IP: 203.0.113.9\r\n";
    assert_eq!(attempt(&gate, lines), 429);
    let mut other = gate.connect_from(Ipv4Addr::new(127, 0, 0, 2));
    other.send(post_with("/login", ""));
    assert_eq!(other.answer().status, 200, "another address is another client");
}

/// C2: entries that the client itself wrote stand on the left.
#[test]
fn the_rightmost_untrusted_address_is_the_client() {
    assert!(are_one_client("198.51.100.1, 203.0.113.7", "198.51.100.2, 203.0.113.7"));
    assert!(are_one_client("203.0.113.7", "9.9.9.9, 203.0.113.7, 10.0.0.1, 10.0.0.2"));
    assert!(!are_one_client("203.0.113.7, 203.0.113.8", "203.0.113.7, 203.0.113.9"));
}

/// C2: towards the upstream the chain of a trusted peer is kept and the peer is added.
#[test]
fn a_trusted_peer_is_appended_to_its_own_chain() {
    let (upstream, gate) = trusting();
    assert_eq!(attempt_as(&gate, "203.0.113.7, 10.0.0.1"), 200);
    assert_eq!(upstream.last().all("x-forwarded-for").join(", "), "203.0.113.7, 10.0.0.1, 127.0.0.1");
}

/// C3: a chain of nothing but trusted hops.
#[test]
fn a_wholly_trusted_chain_is_its_leftmost_address() {
    assert!(are_one_client("10.0.0.1, 10.0.0.2", "10.0.0.1, 10.0.0.3"));
    assert!(!are_one_client("10.0.0.1, 10.0.0.2", "10.0.0.9, 10.0.0.2"), "one office is not another");
}

/// C4: several lines are one list; empty items are nothing.
#[test]
fn several_lines_are_read_as_one_list() {
    let (_upstream, gate) = trusting();
    let lines = "X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 203.0.113.7\r\n";
    assert_eq!(attempt(&gate, lines), 200);
    assert_eq!(attempt_as(&gate, "203.0.113.7"), 429);
    assert_eq!(attempt_as(&gate, "198.51.100.1"), 200, "the first line is not the client");
    assert_eq!(attempt_as(&gate, "198.51.100.3,, ,203.0.113.7"), 429);
}

/// C4: more proxies than any honest chain has; what stands on the left of the client is not looked at.
#[test]
fn a_chain_of_too_many_proxies_is_malformed_and_anything_may_stand_before_the_client() {
    let (_upstream, gate) = trusting();
    let chain = |first: &str| format!("{first}{}", ", 10.0.0.1".repeat(60));
    assert_eq!(attempt_as(&gate, &chain("203.0.113.1")), 400);
    let longest = format!("{}203.0.113.7", "1,".repeat(10_000));
    assert_eq!(attempt_as(&gate, &longest), 200);
    assert_eq!(attempt_as(&gate, "203.0.113.7"), 429);
    assert_eq!(attempt_as(&gate, &"1,".repeat(10_000)), 200, "the peer's own bucket paid");
    assert_eq!(attempt(&gate, ""), 429);
}

/// C5: ports, brackets and quotes around an address.
#[test]
fn a_port_or_brackets_do_not_make_another_client() {
    assert!(are_one_client("203.0.113.7", "203.0.113.7:5678"));
    assert!(are_one_client("2001:db8::1", "[2001:db8::1]"));
    assert!(are_one_client("2001:db8::1", "[2001:db8::1]:80"));
}

/// C5: what is no address is the peer, and never a key of its own.
#[test]
fn what_is_not_an_address_counts_as_the_peer() {
    let (_upstream, gate) = trusting();
    assert_eq!(attempt(&gate, ""), 200);
    let junk = [
        "unknown",
        "_hidden",
        "_hidden2",
        "fe80::1%eth0",
        "fe80::2%25eth0",
        "203.0.113.7:port",
        "[203.0.113.7",
        "203.0.113.256",
        "203.0.113",
        "localhost",
        "::g",
        "'203.0.113.9'",
        "203.0.113.9/32",
        "-",
        "\u{661}.2.3.4",
        "203.0.113.9:99999",
    ];
    for value in junk {
        assert_eq!(attempt_as(&gate, value), 429, "{value:?}");
    }
}

/// C5: the same for `Forwarded`, with its own grammar.
#[test]
fn forwarded_is_read_by_its_own_grammar() {
    let (_upstream, gate) = trusting_with("header = \"Forwarded\"");
    let spellings = [
        "for=203.0.113.7",
        "For=\"203.0.113.7:80\"",
        "proto=https;for=203.0.113.7;by=10.0.0.1",
        "for=198.51.100.1, for=203.0.113.7",
        "for=198.51.100.2;host=\"a,b;c\", FOR=203.0.113.7 , for=10.0.0.1",
    ];
    let statuses = spellings.map(|value| attempt(&gate, &format!("Forwarded: {value}\r\n")));
    assert_eq!(statuses, [200, 429, 429, 429, 429]);
    assert_eq!(attempt(&gate, "Forwarded: for=\"[2001:db8::1]:80\"\r\n"), 200);
    assert_eq!(attempt(&gate, "Forwarded: for=\"[2001:db8::1]\"\r\n"), 429);
    assert_eq!(attempt_as(&gate, "203.0.113.99"), 200, "the other header says nothing: this is the peer");
    for (value, status) in [
        ("for=unknown", 429),
        ("for=_x", 429),
        ("by=1.2.3.4", 429),
        ("for=", 400),
        ("for=\"1.2.3.4", 400),
        ("x", 400),
    ] {
        assert_eq!(
            attempt(&gate, &format!("Forwarded: {value}\r\n")),
            status,
            "{value:?}: the peer, or broken"
        );
    }
}

/// C5: a header that holds a single address.
#[test]
fn a_single_address_header_is_believed_from_trusted_peers() {
    let (_upstream, gate) = trusting_with("header = \"CF-Connecting-IP\"");
    assert_eq!(attempt(&gate, "CF-Connecting-IP: 203.0.113.7\r\n"), 200);
    assert_eq!(attempt(&gate, "CF-Connecting-IP: 203.0.113.7\r\nX-Forwarded-For: 9.9.9.9\r\n"), 429);
    assert_eq!(attempt(&gate, "CF-Connecting-IP: 203.0.113.8\r\n"), 200);
    let twice = "CF-Connecting-IP: 203.0.113.20\r\nCF-Connecting-IP: 203.0.113.21\r\n";
    let again = "CF-Connecting-IP: 203.0.113.22\r\nCF-Connecting-IP: 203.0.113.21\r\n";
    assert_eq!(attempt(&gate, "CF-Connecting-IP: 203.0.113.21\r\n"), 200);
    let _ = attempt(&gate, twice);
    assert_ne!(attempt(&gate, again), 200, "two such headers are not a way to a fresh bucket");
}

/// C6: spellings that only old C libraries take for addresses.
#[test]
fn an_octal_or_short_address_is_not_an_address() {
    let (_upstream, gate) = trusting();
    assert_eq!(attempt(&gate, ""), 200);
    for value in
        ["0177.0.0.1", "127.1", "0x7f.0.0.1", "2130706433", "010.0.0.1", "1.2.3.04", "1.2.3.4.", "1.2.3.4 5"]
    {
        assert_eq!(attempt_as(&gate, value), 429, "{value:?} is the peer");
    }
}

/// C7: an IPv4 address mapped into IPv6 is that IPv4 address, however it is written.
#[test]
fn a_mapped_address_is_the_same_client() {
    let (_upstream, gate) = trusting();
    assert_eq!(attempt_as(&gate, "203.0.113.7"), 200);
    let spellings =
        ["::ffff:203.0.113.7", "::ffff:cb00:7107", "0:0:0:0:0:ffff:203.0.113.7", "[::FFFF:CB00:7107]:80"];
    for value in spellings {
        assert_eq!(attempt_as(&gate, value), 429, "{value:?}");
    }
    assert_eq!(attempt_as(&gate, "::ffff:203.0.113.8"), 200, "and they are not all one");
}

/// C7: trust is by bits as well.
#[test]
fn a_mapped_hop_is_trusted_like_the_address_it_holds() {
    assert!(are_one_client("203.0.113.7", "203.0.113.7, ::ffff:10.0.0.1"));
}

/// C8: a client behind a translator is the IPv4 client that it translates.
#[test]
fn a_nat64_address_is_the_ipv4_address_it_holds() {
    assert!(are_one_client("203.0.113.7", "64:ff9b::203.0.113.7"));
    assert!(!are_one_client("64:ff9b::203.0.113.8", "64:ff9b::203.0.113.7"));
    assert!(
        !are_one_client("203.0.113.7", "64:ff9b:1::203.0.113.7"),
        "a network's own prefix may hold anything"
    );
}

/// C8: a client with an IPv4 address has a whole 2002::/48 (6to4).
#[test]
fn one_6to4_site_is_one_client() {
    assert!(are_one_client("2002:cb00:7107:1::1", "2002:cb00:7107:2::1"));
}

/// C9: a dotted tail in ordinary IPv6.
#[test]
fn a_dotted_tail_is_an_ordinary_ipv6_address() {
    assert!(are_one_client("2001:db8::1.2.3.4", "2001:db8::5"), "they share a /64");
    assert!(!are_one_client("2001:db8::1.2.3.4", "1.2.3.4"));
}

/// C10: addresses that one household can choose from.
#[test]
fn addresses_of_one_prefix_share_a_bucket() {
    assert!(are_one_client("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"));
    assert!(!are_one_client("2001:db8::1", "2001:db8:0:1::1"));
}

/// C10: a client that changes prefixes meets the wider limit.
#[test]
fn a_wider_limit_catches_who_hops_prefixes() {
    let upstream = Upstream::start();
    let limits =
        "[client]\ntrust = \"127.0.0.1\"\n[limit.subnet]\nrate = \"5 per 1h\"\nipv4 = 24\nipv6 = 48\n";
    let gate = Gate::start(&upstream.file(&format!("{limits}{ONE_AN_HOUR}")));
    let statuses: Vec<u16> = (0..8).map(|net| attempt_as(&gate, &format!("2001:db8:1:{net:x}::1"))).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(attempt_as(&gate, "2001:db8:2::1"), 200, "a neighbour further away is not caught");
    let statuses: Vec<u16> = (0..7).map(|host| attempt_as(&gate, &format!("203.0.113.{host}"))).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
}

/// C11: identity headers that the upstream might believe, and their aliases under CGI.
#[test]
fn no_other_identity_header_reaches_the_upstream() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let names = [
        "X_Forwarded_For",
        "X.Forwarded.For",
        "X-Forwarded_For",
        "X_Forwarded-For",
        "X-Real-IP",
        "X_Real_IP",
        "X.Real.IP",
        "True-Client-IP",
        "True_Client_IP",
        "CF-Connecting-IP",
        "CF_Connecting_IP",
        "Forwarded",
        "Client-IP",
        "Client_IP",
        "X-Forwarded_Proto",
        "X_Forwarded_Host",
        "X.Forwarded.Proto",
    ];
    for name in names {
        assert_eq!(gate.ask(get_with("/", &format!("{name}: 203.0.113.66\r\n"))).status, 200, "{name}");
        let request = upstream.last();
        assert!(
            request.headers.iter().all(|(_, value)| !value.contains("203.0.113.66")),
            "{name} got through: {:?}",
            request.headers
        );
        let ours = request.names_as_cgi().iter().filter(|name| *name == "X_FORWARDED_FOR").count();
        assert_eq!(ours, 1, "exactly one header that CGI calls X_FORWARDED_FOR");
    }
}

/// C14: a peer on a Unix socket has no address.
#[test]
fn a_peer_on_a_unix_socket_is_one_client_unless_it_is_trusted() {
    for (trust, second) in [("", 429), ("[client]\ntrust = \"unix:\"\n", 200)] {
        let upstream = Upstream::start();
        let file = upstream.file(&format!("{trust}{ONE_AN_HOUR}"));
        let gate = Launch::new(&file).on_unix_socket_too().start();
        let socket = gate.directory.join("gate.sock");
        let ask = |forwarded_for: &str| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let lines = format!("X-Forwarded-For: {forwarded_for}\r\nConnection: close\r\n");
            stream.write_all(post_with("/login", &lines).as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer[9..12].parse::<u16>().unwrap()
        };
        assert_eq!(ask("203.0.113.7"), 200);
        assert_eq!(ask("203.0.113.8"), second, "with {trust:?}");
        assert_eq!(ask("203.0.113.7"), 429);
    }
}

/// C15: an office behind one address: an own rate, an exemption, or a dry run first.
#[test]
fn an_office_behind_one_address_can_have_its_own_rate() {
    let upstream = Upstream::start();
    let limit = "exempt = [\"127.0.1.0/24\"]\n[limit.address.rates]\n\"127.0.2.0/24\" = \"3 per 1h\"\n";
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{limit}")));
    let statuses = |third: u8| -> Vec<u16> {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, third, 1));
        let attempts = (0..5).map(|_| {
            client.send(post_with("/login", ""));
            client.answer().status
        });
        attempts.collect()
    };
    assert_eq!(statuses(1), [200, 200, 200, 200, 200]);
    assert_eq!(statuses(2), [200, 200, 200, 429, 429]);
    assert_eq!(statuses(3), [200, 429, 429, 429, 429]);
}

/// C15: a limit that only observes counts what it would have refused.
#[test]
fn an_observing_limit_refuses_no_attempt_and_counts_which_it_would_have() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}mode = \"observe\"\n")));
    assert!((0..4).all(|_| attempt(&gate, "") == 200));
    assert!((gate.metric("tollgate_decisions_total", "decision=\"observe\"") - 3.0).abs() < 0.1);
}

/// C16: the Host is not part of who the client is.
#[test]
fn another_host_is_not_another_bucket() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    for host in ["b.test", "APP.TEST", "app.test.", "app.test:8080", "[::1]", "127.0.0.1"] {
        let request = format!("POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(gate.ask(request).status, 429, "{host}");
    }
}

/// C16: a route for one host is not left by spelling the host differently.
#[test]
fn a_route_of_one_host_covers_every_spelling_of_it() {
    let upstream = Upstream::start();
    let host =
        "[route.login]\nmatch = \"POST /login\"\nhost = \"app.test\"\n[limit.address]\nrate = \"1 per 1h\"\n";
    let gate = Gate::start(&upstream.file(host));
    gate.drain("/login", "");
    for host in ["APP.test", "app.test.", "app.test:8080", "App.Test.:80"] {
        let request = format!("POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(gate.ask(request).status, 429, "{host}");
    }
    let absolute = "POST http://app.test/login HTTP/1.1\r\nHost: other.test\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(gate.ask(absolute).status, 400 | 429), "the target's host counts");
}

/// C17: parts of a key are not one long string.
#[test]
fn parts_of_a_key_cannot_be_shifted_into_each_other() {
    let upstream = Upstream::start();
    let limit = "[route.login]\nmatch = \"POST /login\"\n[limit.pair]\nkey = \"header:X-A+header:X-B\"\nrate = \"1 per 1h\"\n";
    let gate = Gate::start(&upstream.file(limit));
    let pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("ab+", "c"), ("ab", "+c")];
    for (a, b) in pairs {
        let lines = format!("X-A: {a}\r\nX-B: {b}\r\n");
        assert_eq!(attempt(&gate, &lines), 200, "{a:?} and {b:?} are a pair of their own");
        assert_eq!(attempt(&gate, &lines), 429);
    }
}
