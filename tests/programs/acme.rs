//! Certificates that an authority issues to the gate itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;

use crate::pebble::{Front, Pebble};
use support::authority::{careless, connect_by, encrypted, seen};
use support::{Gate, Launch, ONE_AN_HOUR, Upstream, check_file, eventually, get_with};

const YEARS: u32 = 100_000_000;

/// A gate that orders for these names, by these further keys.
fn gate(front: &Front, upstream: &Upstream, names: &str, keys: &str) -> Gate {
    let acme = format!(
        "{}\n[tls]\nredirect = true\n[tls.acme]\ndomains = [{names}]\nemail = \"admin@example.org\"\n\
         directory = \"{}\"\ndirectory_ca = \"ca.pem\"\n{keys}\n",
        upstream.file(ONE_AN_HOUR),
        front.directory(),
    );
    Launch::new(&acme).on_tls_too().beside("ca.pem", front.roots()).start()
}

fn authority_for(front: &Front, gate: &Gate, seconds: u32) -> Pebble {
    Pebble::start(front, gate.address.port(), gate.tls.port(), seconds)
}

/// What the gate shows for this name; `None` while it has nothing.
fn shown(gate: &Gate, name: &str) -> Option<CertificateDer<'static>> {
    let mut stream = encrypted(&Arc::new(careless()), gate.tls, name);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    Some(stream.conn.peer_certificates()?[0].clone().into_owned())
}

fn has_certificate(gate: &Gate, name: &str) -> bool {
    gate.metric("tollgate_certificate_expiry_seconds", &format!("name=\"{name}\"")) > 0.0
}

#[test]
fn names_are_proved_by_handshakes_and_keys_are_for_the_gate_alone() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let gate = gate(&front, &upstream, "\"app.test\", \"WWW.app.test\"", "");
    assert!(shown(&gate, "app.test").is_none(), "nothing yet, and the gate serves all the same");
    let pebble = authority_for(&front, &gate, YEARS);
    let both = || has_certificate(&gate, "app.test") && has_certificate(&gate, "www.app.test");
    assert!(eventually(Duration::from_secs(60), both), "{}", gate.messages());
    assert!(seen(&gate, "app.test") != seen(&gate, "www.app.test"), "each has its own");
    let mut client = connect_by(&Arc::new(careless()), gate.tls, "app.test");
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    let is_told = || {
        let said = gate.messages();
        ["app.test", "www.app.test"]
            .iter()
            .all(|name| said.contains(&format!("the certificate of {name} was issued until 20")))
    };
    assert!(eventually(Duration::from_secs(10), is_told), "{}", gate.messages());
    assert!(!gate.messages().contains("PRIVATE"), "{}", gate.messages());
    assert_eq!(pebble.log().matches("accounts in memory").count(), 1, "one account for both");
    let state = fs::read_dir(gate.directory.join("acme")).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let files: Vec<_> = fs::read_dir(&state).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!((files.len(), files.iter().all(|file| mode(file) == 0o600)), (3, true), "{files:?}");
}

#[test]
fn names_are_proved_by_requests_that_no_application_sees() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let gate = gate(&front, &upstream, "\"app.test\"", "challenge = \"http-01\"");
    let _pebble = authority_for(&front, &gate, YEARS);
    let is_issued = || has_certificate(&gate, "app.test");
    assert!(eventually(Duration::from_secs(60), is_issued), "{}", gate.messages());
    assert!(upstream.requests().is_empty(), "neither a challenge nor anything else");
    let ask = |host: &str, path: &str| {
        gate.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    assert_eq!(ask("app.test", "/.well-known/acme-challenge/other"), 404, "before the redirect");
    assert_eq!(ask("other.test", "/.well-known/acme-challenge/other"), 308, "a name of somebody else");
    assert_eq!(ask("app.test", "/"), 308);
}

#[test]
fn a_renewal_under_load_fails_no_request() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let gate = gate(&front, &upstream, "\"app.test\"", "");
    let _pebble = authority_for(&front, &gate, 18);
    let is_issued = || has_certificate(&gate, "app.test");
    assert!(eventually(Duration::from_secs(60), is_issued), "{}", gate.messages());
    let first = seen(&gate, "app.test");
    let (stop, failed, served) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let config = Arc::new(careless());
                while !stop.load(Ordering::Relaxed) {
                    let mut client = connect_by(&config, gate.tls, "app.test");
                    client.send_what_goes(get_with("/", "Connection: close\r\n").as_ref());
                    let is_served = client.try_answer().is_some_and(|answer| answer.status == 200);
                    let count = if is_served { &served } else { &failed };
                    count.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let is_renewed = || shown(&gate, "app.test").is_some_and(|now| now != first);
        let renewed = eventually(Duration::from_secs(60), is_renewed);
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        assert!(renewed, "{}", gate.messages());
    });
    let (failed, served) = (failed.into_inner(), served.into_inner());
    eprintln!("{served} requests on connections of their own, {failed} failed");
    assert!(failed == 0 && served > 100, "{failed} of {served} failed");
}

/// A crowd of wrong answers, each of which costs one try and nothing else.
#[test]
fn wrong_answers_and_refusals_are_told_of_and_leave_the_gate_as_it_is() {
    let answer = |status: &str, lines: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    };
    let limited = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many\nof them"}"#;
    let unknown = r#"{"type":"urn:ietf:params:acme:error:accountDoesNotExist","detail":"who?"}"#;
    let directory = r#"{"newNonce":"https://a b/","newAccount":"https://a/","newOrder":"https://a/"}"#;
    let endless = format!("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n{}", "x".repeat(2_000_000));
    for (at, with, says) in [
        ("GET /dir", answer("200 OK", "", "<html>"), "is not a directory of ACME"),
        ("GET /dir", answer("200 OK", "", directory), "is not a directory of ACME"),
        ("GET /dir", answer("500 Oh", "", ""), "is not a directory of ACME"),
        ("GET /dir", "nonsense\r\n\r\n".to_owned(), "the authority cannot be asked: it does not speak HTTP"),
        ("GET /dir", endless, "its answer is too long"),
        ("HEAD /nonce-plz", answer("503 No", "", ""), "the authority's answer is not"),
        ("POST /order-plz", answer("429 No", "Retry-After: 36000\r\n", limited), "refuses: too manyof them"),
        (
            "POST /order-plz",
            answer("429 No", "Retry-After: 18446744073709551615\r\n", limited),
            "refuses: too many",
        ),
        ("POST /order-plz", answer("400 No", "", unknown), "refuses: who?"),
        ("POST /order-plz", answer("201 Ok", "", "{}"), "cannot be read"),
        ("POST /finalize-order", answer("403 No", "", "what?"), "cannot be read"),
        ("POST /certZ", answer("200 OK", "", "no certificate"), "what the authority issued holds"),
    ] {
        let (front, upstream) = (Front::new(), Upstream::start());
        let gate = gate(&front, &upstream, "\"app.test\"", "");
        front.spoil(move |request| request.starts_with(at).then(|| with.clone()));
        let _pebble = authority_for(&front, &gate, YEARS);
        let is_told = || gate.messages().contains("no new certificate for app.test: ");
        assert!(eventually(Duration::from_secs(60), is_told), "{at}: {}", gate.messages());
        let said = gate.messages();
        assert!(said.contains(says), "{at}: {says}: {said}");
        assert!(said.contains("there is none yet, and the next try is 20"), "{at}: {said}");
        assert!(!said.contains("is down"), "no panic: {said}");
        let tries = front.count("GET /dir");
        std::thread::sleep(Duration::from_millis(2300));
        assert_eq!(front.count("GET /dir"), tries, "{at}: it waits");
        let answer = gate.ask(get_with("/", ""));
        assert_eq!(answer.status, 308, "it serves");
    }
}

#[test]
fn an_authority_that_is_away_or_finds_nobody_leaves_the_present_certificate() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let gate = gate(&front, &upstream, "\"app.test\"", "");
    let pebble = authority_for(&front, &gate, 15);
    let is_issued = || has_certificate(&gate, "app.test");
    assert!(eventually(Duration::from_secs(60), is_issued), "{}", gate.messages());
    let first = seen(&gate, "app.test");
    drop(pebble);
    let is_told = || gate.messages().contains("no new certificate for app.test: ");
    assert!(eventually(Duration::from_secs(30), is_told), "{}", gate.messages());
    assert!(gate.messages().contains("; the present one ends 20"), "{}", gate.messages());
    assert!(seen(&gate, "app.test") == first);
}

#[test]
fn the_authority_cannot_find_the_gate() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let gate = gate(&front, &upstream, "\"app.test\"", "");
    // Nobody listens there.
    let _pebble = Pebble::start(&front, 1, 1, YEARS);
    let is_told = || gate.messages().contains("the authority could not check the name: ");
    assert!(eventually(Duration::from_secs(60), is_told), "{}", gate.messages());
    assert!(gate.messages().contains("onnect"), "in its words: {}", gate.messages());
}

#[test]
fn mistakes_are_found_by_check() {
    let file = "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:8081\"\n[tls.acme]\n";
    let output = check_file(&format!("{file}domains = [\"*.app.test\", \"192.0.2.1\", \"app.test\"]\n"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    for words in ["no listener would use", "a wildcard can only be proved by DNS", "a name, not an address"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
