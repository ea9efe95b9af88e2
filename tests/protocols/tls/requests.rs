//! What a request over TLS is to the policy, to the application and to the browser.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

use support::authority::{Authority, BOTH, TABLE, connect_by};
use support::{Launch, ONE_AN_HOUR, Reply, Upstream, get_with, post, post_with};

#[test]
fn the_application_hears_how_its_client_speaks() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(get_with("/", "X-Forwarded-Proto: http\r\nForwarded: for=6.6.6.6;proto=http\r\n"));
    client.answer();
    let seen = upstream.last();
    assert_eq!(seen.all("x-forwarded-proto"), ["https"]);
    assert!(seen.all("forwarded").is_empty(), "a stranger's word about the way it came");
    gate.ask(get_with("/", "X-Forwarded-Proto: https\r\n"));
    assert_eq!(upstream.last().all("x-forwarded-proto"), ["http"]);
}

#[test]
fn a_trusted_proxy_in_front_knows_better_how_its_client_speaks() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority
        .gate(&["app.test"], &upstream.file(&format!("[client]\ntrust = \"127.0.0.1\"\n{ONE_AN_HOUR}")));
    let mut client = authority.connect(gate.tls, "app.test");
    for (said, told) in [("X-Forwarded-Proto: http\r\n", "http"), ("", "https")] {
        client.send(get_with("/", said));
        client.answer();
        assert_eq!(upstream.last().all("x-forwarded-proto"), [told]);
    }
}

#[test]
fn the_cookie_of_a_known_device_is_secure_and_bound_to_the_host() {
    let (upstream, authority) = (
        Upstream::answering(|_, _| {
            Reply::text("HTTP/1.1 302 Found\r\nLocation: /home\r\nContent-Length: 0\r\n\r\n")
        }),
        Authority::new(),
    );
    let tables = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\nsuccess = { status = 302 }\n\
                  [limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\n\
                  [device]\nsecret = \"${file:device.keys}\"\n";
    let pair = authority.issue(&["app.test"]);
    let launch = Launch::new(&format!("{}{TABLE}", upstream.file(tables))).on_tls_too().with(&pair, "server");
    let gate = launch.beside("device.keys", "0123456789abcdef0123456789abcdef0123456789ab\n").start();
    let form = "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                Content-Length: 6\r\n\r\nuser=a";
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(form);
    let cookie = client.answer().header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.starts_with("__Host-tollgate_device=") && cookie.contains("; Secure"), "{cookie}");
    let plain = gate.ask(form).header("set-cookie").expect("a cookie").to_owned();
    assert!(plain.starts_with("tollgate_device=") && !plain.contains("Secure"), "{plain}");
}

/// B14: what a stranger says about himself over TLS, in a header or by a certificate, counts as little as without it.
#[test]
fn tls_makes_no_client_more_believable() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let lines = |number: u8| {
        format!(
            "X-Forwarded-For: 198.51.100.{number}\r\nX-Real-IP: 198.51.100.{number}\r\nX-SSL-Client-Verify: SUCCESS\r\n\
             X-SSL-Client-Cert: {number}\r\nX-SSL-Client-S-DN: CN=198.51.100.{number}\r\n"
        )
    };
    let statuses: Vec<u16> = (1..=5)
        .map(|number| {
            let mut client = authority.connect(gate.tls, "app.test");
            client.send(post_with("/login", &lines(number)));
            client.answer().status
        })
        .collect();
    assert_eq!(statuses, [200, 429, 429, 429, 429], "each of them is 127.0.0.1");
    assert_eq!(gate.ask(post_with("/login", &lines(6))).status, 429, "also without TLS");
    let seen = upstream.requests();
    assert_eq!(
        (seen.len(), seen[0].all("x-forwarded-for"), seen[0].all("x-real-ip")),
        (1, vec!["127.0.0.1"], vec![])
    );
}

/// B14: the gate asks no client for a certificate, so none identifies a client.
#[test]
fn no_client_is_asked_for_a_certificate() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    for version in BOTH {
        let asked = Arc::new(Asked::default());
        let mut config = authority.client_config(&[version]);
        config.client_auth_cert_resolver = Arc::clone(&asked) as _;
        let mut client = connect_by(&Arc::new(config), gate.tls, "app.test");
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
        assert!(!asked.0.load(Ordering::Relaxed), "{version:?}");
    }
}

/// A client that would show a certificate, and notes whether it is asked for one.
#[derive(Debug, Default)]
struct Asked(AtomicBool);

impl ResolvesClientCert for Asked {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// B11: a name for the certificate and another for the request. One policy holds for all hosts and no certificate allows
/// anything, so a client gains nothing by two different names.
#[test]
fn a_host_other_than_the_name_of_the_handshake_changes_nothing() {
    let (upstream, other, authority) = (Upstream::start(), Upstream::start(), Authority::new());
    let tables = format!(
        "[route.login]\nmatch = \"POST /login\"\nhost = \"a.test\"\nupstream = \"http://{}\"\n\
         [limit.address]\nrate = \"1 per 1h\"\n",
        other.address
    );
    let gate = authority.gate(&["a.test", "b.test"], &upstream.file(&tables));
    let attempt = |name: &str, host: &str| {
        let mut client = authority.connect(gate.tls, name);
        client.send(format!("POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
        client.answer().status
    };
    assert_eq!(attempt("b.test", "a.test"), 200);
    assert_eq!(other.requests().len(), 1, "routed by its Host");
    assert_eq!(attempt("b.test", "a.test"), 429, "and counted by it");
    assert_eq!(attempt("a.test", "a.test"), 429);
    assert_eq!(attempt("a.test", "b.test"), 200, "no attempt by its Host, whatever the handshake said");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn bodies_of_any_size_pass_both_ways() {
    let big = "x".repeat(3 << 20);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{big}", big.len());
    let upstream = Upstream::answering(move |_, _| Reply::text(&answer));
    let authority = Authority::new();
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut client = authority.connect(gate.tls, "app.test");
    for _ in 0..2 {
        client.send(post("/upload", &big));
        assert_eq!(client.answer().body.len(), big.len());
    }
    assert!(upstream.requests().iter().all(|request| request.body.len() == big.len()));
}

/// A26: a refusal over TLS, of a body that is not read.
#[test]
fn a_refusal_is_not_taken_back_by_a_reset() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let mut client = authority.connect(gate.tls, "app.test");
    client.send("POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 200000\r\n\r\n");
    for _ in 0..4 {
        // Each piece arrives after the gate has said all it has to say.
        std::thread::sleep(Duration::from_millis(30));
        client.send([b'x'; 10_000]);
    }
    let answer = client.answer();
    assert!(answer.status == 429 && answer.closes(), "{answer:?}");
    client.finish();
    assert!(client.ends_well_within(Duration::from_secs(5)), "and TLS is ended as it should be");
}

#[test]
fn a_page_of_ours_answers_what_is_no_request() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority
        .gate(&["app.test"], &upstream.file(&format!("{ONE_AN_HOUR}[proxy]\nheader_timeout = \"1s\"\n")));
    for (sent, status) in [("GARBAGE\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a", 408)] {
        let mut client = authority.connect(gate.tls, "app.test");
        client.send(sent);
        let answer = client.answer();
        assert_eq!(answer.status, status);
        assert!(!answer.body.is_empty());
        assert!(client.ends_well_within(Duration::from_secs(5)));
    }
}

#[test]
fn a_websocket_passes() {
    let upstream = Upstream::answering(|_, _| {
        Reply::Echo(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec(),
        )
    });
    let authority = Authority::new();
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(get_with("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    assert_eq!(client.answer().status, 101);
    client.send("there and back");
    assert_eq!(client.take(14).unwrap(), b"there and back");
}

#[test]
fn a_client_without_tls_is_sent_to_the_same_place_with_it() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let config = upstream.file(ONE_AN_HOUR);
    let gate = authority.gate(&["app.test"], &config);
    let with = |redirect: bool| format!("{config}{TABLE}redirect = {redirect}\n");
    assert!(gate.reload(&with(true)));
    let (http, https) = (gate.address.port(), gate.tls.port());
    let ask = |method: &str, host: &str, target: &str| {
        gate.ask(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"))
    };
    for (host, target, location) in [
        (format!("app.test:{http}"), "/login?a=%2f&b", format!("https://app.test:{https}/login?a=%2f&b")),
        ("app.test".to_owned(), "//a", "https://app.test//a".to_owned()),
        (format!("[::1]:{http}"), "/", format!("https://[::1]:{https}/")),
    ] {
        for method in ["GET", "POST"] {
            let answer = ask(method, &host, target);
            assert_eq!((answer.status, answer.header("location")), (308, Some(location.as_str())));
            assert!(answer.closes());
        }
    }
    assert_eq!(ask("GET", "a b", "/").status, 400, "a host that is none is sent nowhere");
    assert_eq!(gate.ask("GET / HTTP/1.0\r\n\r\n").status, 400, "nor is one that is not named");
    assert!(upstream.requests().is_empty(), "none of them goes further");
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(post("/login", ""));
    assert_eq!(client.answer().status, 200, "and none of them has cost a token");
    assert!(gate.reload(&with(false)));
    assert_eq!(ask("GET", "app.test", "/").status, 200);
}

#[test]
fn whom_a_proxy_of_ours_speaks_tls_with_is_not_sent_round() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let pair = authority.issue(&["app.test"]);
    let config = upstream.file(&format!(
        "[client]\ntrust = [\"127.0.0.1\", \"unix:\"]\n{ONE_AN_HOUR}{TABLE}redirect = true\n"
    ));
    let gate = Launch::new(&config).on_tls_too().with(&pair, "server").start();
    assert_eq!(gate.ask(get_with("/", "X-Forwarded-Proto: https\r\n")).status, 200);
    assert_eq!(gate.ask(get_with("/", "X-Forwarded-Proto: http\r\n")).status, 308);
}
