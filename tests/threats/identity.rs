//! What clients say about themselves and what they pay for: long and broken chains of hops, headers that an
//! application takes for a verdict of its proxy, attempts without an account, addresses inside other addresses.
//!
//! Each attack is tried as often as it takes to count what gets through.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::net::Ipv4Addr;

use support::{Gate, ONE_AN_HOUR, Upstream, get_with, post_with};

/// Behind a proxy on 127.0.0.1, in a network that is trusted and, by its address, exempt.
const EXEMPT: &str = "[client]\ntrust = [\"127.0.0.1\", \"10.0.0.0/8\"]\n\
    [route.login]\nmatch = \"POST /login\"\n\
    [limit.address]\nrate = \"1 per 1h\"\nexempt = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n";

/// How many of 40 attempts with these header lines the application sees.
fn admitted(gate: &Gate, lines: impl Fn(usize) -> String) -> usize {
    (0..40).filter(|&number| gate.ask(post_with("/login", &lines(number))).status == 200).count()
}

fn status(gate: &Gate, lines: &str) -> u16 {
    gate.ask(post_with("/login", lines)).status
}

fn for_each_header(header: &str) -> (Upstream, Gate) {
    let upstream = Upstream::start();
    let gate =
        Gate::start(&upstream.file(&EXEMPT.replace("trust =", &format!("header = \"{header}\"\ntrust ="))));
    (upstream, gate)
}

/// L5: a chain that is longer than any honest one, with the trusted proxies' own network exempt.
#[test]
fn a_long_chain_never_makes_the_proxy_the_client() {
    let (_upstream, gate) = for_each_header("X-Forwarded-For");
    let chain = |hops: usize| format!("X-Forwarded-For: {}203.0.113.7\r\n", "9.9.9.9, ".repeat(hops));
    assert_eq!(admitted(&gate, |number| chain(31 + number * 50)), 1, "one client with one token");
    let (_upstream, gate) = for_each_header("Forwarded");
    let chain = |hops: usize| format!("Forwarded: {}for=203.0.113.7\r\n", "for=9.9.9.9, ".repeat(hops));
    assert_eq!(admitted(&gate, |number| chain(31 + number * 50)), 1, "one client with one token");
}

/// L5: more hops of our own than anybody has.
#[test]
fn a_chain_of_too_many_trusted_hops_is_refused_as_malformed() {
    let (upstream, gate) = for_each_header("X-Forwarded-For");
    let chain = |hops: usize| format!("X-Forwarded-For: 203.0.113.7{}\r\n", ", 10.0.0.1".repeat(hops));
    assert_eq!(status(&gate, &chain(33)), 400);
    assert_eq!(status(&gate, &chain(2_000)), 400);
    assert_eq!(upstream.bytes(), b"", "none of it reached the application");
    assert_eq!(status(&gate, &chain(32)), 200);
    assert_eq!(status(&gate, &chain(0)), 429, "and that was 203.0.113.7");
}

/// L5: what a trusted proxy did not say, or not so that anybody can read it.
#[test]
fn a_client_that_is_not_known_is_neither_exempt_nor_of_a_named_network() {
    for header in ["X-Forwarded-For", "Forwarded", "X-Real-IP"] {
        let (_upstream, gate) = for_each_header(header);
        let junk = if header == "Forwarded" { "for=unknown" } else { "unknown" };
        assert_eq!(admitted(&gate, |_| format!("{header}: {junk}\r\n")), 1, "{header}");
        assert_eq!(status(&gate, ""), 429, "nor without {header}");
    }
    let (_upstream, gate) = for_each_header("X-Forwarded-For");
    assert_eq!(
        admitted(&gate, |number| format!("X-Forwarded-For: 203.0.113.{number}, unknown, 10.0.0.9\r\n")),
        1
    );
    assert_eq!(
        admitted(&gate, |_| "X-Forwarded-For: 10.1.2.3\r\n".into()),
        40,
        "one that is known is exempt"
    );
    let rates = EXEMPT.replace("exempt = [\"127.0.0.0/8\", \"10.0.0.0/8\"]", "");
    let rates = format!("{rates}[limit.address.rates]\n\"127.0.0.0/8\" = \"off\"\n");
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&rates));
    assert_eq!(admitted(&gate, |_| "X-Forwarded-For: unknown\r\n".into()), 1);
}

/// L19: a quote behind a backslash does not end a quoted string (RFC 9110, 5.6.4).
#[test]
fn a_quoted_pair_in_forwarded_does_not_make_another_client() {
    let (_upstream, gate) = for_each_header("Forwarded");
    let spoofed =
        |number: usize| format!("Forwarded: for=203.0.113.7;host=\"a\\\", for=8.8.8.{number};x=\\\"b\"\r\n");
    assert_eq!(admitted(&gate, spoofed), 1, "it is 203.0.113.7 each time");
    assert_eq!(status(&gate, "Forwarded: for=203.0.113.7\r\n"), 429);
}

/// L19: what does not fit the grammar of RFC 7239 is not guessed at.
#[test]
fn a_broken_forwarded_header_is_refused_as_malformed() {
    let (upstream, gate) = for_each_header("Forwarded");
    let broken = [
        "for=\"203.0.113.7",
        "for=203.0.113.7\"",
        "for",
        "for=",
        "=203.0.113.7",
        "for =203.0.113.7",
        "for= 203.0.113.7",
        "for=203.0.113.7:80",
        "for=[2001:db8::1]",
        "for=\"203.0.113.7\"x",
        "for=203.0.113.7 proto=https",
        "for=203.0.113.7;for=203.0.113.8",
        "for=203.0.113.7;For=\"203.0.113.8\"",
        "f(or=203.0.113.7",
        "for=\"203.0.113.7\\",
    ];
    for value in broken {
        assert_eq!(status(&gate, &format!("Forwarded: {value}\r\n")), 400, "{value}");
        let behind = format!("Forwarded: {value}\r\nForwarded: for=203.0.113.7\r\n");
        assert_eq!(status(&gate, &behind), 400, "{value} in a line of its own");
    }
    assert_eq!(upstream.bytes(), b"", "none of it reached the application");
}

/// L3: names that CGI and WSGI turn into variables of their own.
#[test]
fn header_names_that_are_no_plain_words_do_not_reach_the_application() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let names = [
        "SCRIPT_NAME",
        "PATH_INFO",
        "REMOTE_USER",
        "REMOTE_ADDR",
        "HTTP_X_FORWARDED_FOR",
        "HTTP_HOST",
        "wsgi.url_scheme",
        "X_Original_URL",
        "X.Anything",
        "A_B",
        "Content_Type",
        "Au_thorization",
        "$WSRU",
        "X!Y",
        "X~Y",
        "X'Y",
        "X|Y",
    ];
    let mut passed = Vec::new();
    for name in names {
        assert_eq!(gate.ask(get_with("/", &format!("{name}: /planted\r\n"))).status, 200, "{name}");
        if upstream.last().headers.iter().any(|(_, value)| value.contains("/planted")) {
            passed.push(name);
        }
    }
    assert!(passed.is_empty(), "{} of {} passed: {passed:?}", passed.len(), names.len());
    assert_eq!(gate.ask(get_with("/", "X-Plain-Word: /planted\r\n")).status, 200);
    assert_eq!(upstream.last().only("x-plain-word"), "/planted");
}

/// L13: what proxies that sign people in tell the application.
#[test]
fn identity_headers_are_believed_from_trusted_proxies_alone() {
    let (upstream, trusted) = (Upstream::start(), "[client]\ntrust = \"127.0.0.2\"\n");
    let gate = Gate::start(&upstream.file(trusted));
    let names = [
        "Remote-User",
        "Remote-Groups",
        "X-Remote-User",
        "X-Remote-Extra-Scopes",
        "X-WEBAUTH-USER",
        "X-Auth-Request-Email",
        "X-Auth-Request-User",
        "X-Forwarded-User",
        "X-Forwarded-Email",
        "X-Forwarded-Groups",
        "X-Forwarded-Preferred-Username",
        "X-Forwarded-Prefix",
        "X-Forwarded-Access-Token",
        "X-Authenticated-User",
        "X-SSL-Client-S-DN",
        "X-SSL-Client-Verify",
        "SSL-Client-Cert",
        "X-Client-Cert",
        "X-Client-Cert-DN",
        "X-Forwarded-Client-Cert",
        "X-Forwarded-Tls-Client-Cert",
        "X-Authentik-Username",
        "X-Pomerium-Jwt-Assertion",
        "Cf-Access-Jwt-Assertion",
        "X-Amzn-Oidc-Identity",
        "X-MS-Client-Principal-Name",
        "X-Goog-IAP-JWT-Assertion",
        "X-Goog-Authenticated-User-Email",
        "Shib-Session-ID",
        "eppn",
        "Tailscale-User-Login",
        "X-Vouch-User",
        "Iv-User",
        "OIDC-Claim-Sub",
        "X-Consumer-Username",
        "Client-Cert",
    ];
    let passes = |name: &str, from: Ipv4Addr| {
        let mut client = gate.connect_from(from);
        client.send(get_with("/", &format!("{name}: planted\r\n")));
        assert_eq!(client.answer().status, 200, "{name}");
        upstream.last().headers.iter().any(|(_, value)| value == "planted")
    };
    let stranger = Ipv4Addr::LOCALHOST;
    let passed: Vec<_> = names.iter().filter(|name| passes(name, stranger)).collect();
    assert!(passed.is_empty(), "{} of {} passed: {passed:?}", passed.len(), names.len());
    assert!(
        names.iter().all(|name| passes(name, Ipv4Addr::new(127, 0, 0, 2))),
        "a trusted proxy has said them"
    );
    for name in ["WL-Proxy-Client-IP", "X-ProxyUser-Ip", "X-Original-URL", "X-Rewrite-URL", "X-Script-Name"] {
        assert!(!passes(name, stranger) && !passes(name, Ipv4Addr::new(127, 0, 0, 2)), "{name} from anybody");
    }
}

/// L3, L13: what the file takes from the lists, and what it adds.
#[test]
fn the_file_says_which_headers_pass_besides() {
    let upstream = Upstream::start();
    let proxy =
        "[proxy]\nunderscores = \"pass\"\nstrip = [\"X-Staff\", \"X-Acme-*\"]\nkeep = \"Remote-Name\"\n";
    let gate = Gate::start(&upstream.file(proxy));
    let passes = |name: &str| {
        assert_eq!(gate.ask(get_with("/", &format!("{name}: planted\r\n"))).status, 200, "{name}");
        upstream.last().headers.iter().any(|(_, value)| value == "planted")
    };
    for name in ["Remote-Name", "REMOTE_NAME", "App_Token", "SCRIPT.NAMES", "X-Staffer"] {
        assert!(passes(name), "{name}");
    }
    let stripped =
        ["X-Staff", "x_staff", "X-Acme-User", "X.Acme.User", "Remote-User", "REMOTE_USER", "SCRIPT_NAME"];
    for name in stripped.into_iter().chain(["Content_Length", "X_Forwarded_For"]) {
        assert!(!passes(name), "{name}");
    }
}

/// C8: an IPv4 client behind a translator is that client, and the others behind it are others.
#[test]
fn ipv4_inside_ipv6_is_that_ipv4_client() {
    let upstream = Upstream::start();
    let client = "[client]\ntrust = \"127.0.0.1\"\n";
    let office = "exempt = [\"198.51.100.0/24\", \"10.0.0.0/8\"]\n";
    let gate = Gate::start(&upstream.file(&format!("{client}{ONE_AN_HOUR}{office}")));
    let nat64 = |host: usize| format!("X-Forwarded-For: 64:ff9b::203.0.113.{host}\r\n");
    assert_eq!(admitted(&gate, nat64), 40, "forty clients with a token each");
    assert_eq!(status(&gate, "X-Forwarded-For: 203.0.113.7\r\n"), 429, "the same client");
    assert_eq!(status(&gate, "X-Forwarded-For: 2002:cb00:7107:5::9\r\n"), 429, "the same client by 6to4");
    assert_eq!(
        admitted(&gate, |_| "X-Forwarded-For: 64:ff9b::198.51.100.1\r\n".into()),
        40,
        "of a named network"
    );
    let forged = |number: usize| format!("X-Forwarded-For: 2002:a00:1:{number}::1\r\n");
    assert_eq!(admitted(&gate, forged), 1, "10.0.0.1 has no 6to4");
    assert_eq!(
        admitted(&gate, |_| "X-Forwarded-For: 64:ff9b::10.0.0.1\r\n".into()),
        1,
        "nor through a translator"
    );
}

/// C8: a client at 2002:7f00:1:: is not the proxy on 127.0.0.1.
#[test]
fn ipv4_inside_ipv6_is_not_trusted() {
    let upstream = Upstream::start();
    let client = "[client]\ntrust = [\"127.0.0.1\", \"198.51.100.0/24\"]\n";
    let gate = Gate::start(&upstream.file(&format!("{client}{ONE_AN_HOUR}")));
    for hop in ["2002:7f00:1::1", "64:ff9b::127.0.0.1", "2002:c633:6401::1", "64:ff9b::198.51.100.2"] {
        let varied = |number: usize| format!("X-Forwarded-For: 203.0.113.{number}, {hop}\r\n");
        assert_eq!(admitted(&gate, varied), 1, "{hop} is the client and no hop of ours");
    }
}
