//! Certificates that an authority issues to the gate itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustls::client::verify_server_name;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use serde_json::{Value, json};

use crate::pebble::{Front, Pebble, payload};
use support::authority::{careless, connect_by, encrypted, seen};
use support::{Gate, Launch, ONE_AN_HOUR, Upstream, check_file, eventually, get_with};

const YEARS: u32 = 100_000_000;

/// A gate that orders for these names, by these further keys.
fn gate(front: &Front, upstream: &Upstream, names: &str, keys: &str) -> Gate {
    launch(front, upstream, names, keys).start()
}

fn launch(front: &Front, upstream: &Upstream, names: &str, keys: &str) -> Launch {
    let domains = if names.is_empty() { String::new() } else { format!("domains = [{names}]") };
    let acme = format!(
        "{}\n[tls]\nredirect = true\n[tls.acme]\n{domains}\nemail = \"admin@example.org\"\n\
         directory = \"{}\"\ndirectory_ca = \"ca.pem\"\n{keys}\n",
        upstream.file(ONE_AN_HOUR),
        front.directory(),
    );
    Launch::new(&acme).on_tls_too().beside("ca.pem", front.roots())
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
fn a_profile_of_six_days_is_renewed_after_three() {
    let (front, upstream) = (Front::new(), Upstream::start());
    front.amend(with_profiles);
    let gate = gate(&front, &upstream, "\"app.test\"", "profile = \"shortlived\"");
    let _pebble = authority_for(&front, &gate, 6 * 86_400);
    let is_issued = || gate.messages().contains("the certificate of app.test was issued until 20");
    assert!(eventually(Duration::from_secs(60), is_issued), "{}", gate.messages());
    assert_eq!(front.orders()[0]["profile"], "shortlived");
    let (until, from) = issued(&gate);
    let hours = until.duration_since(from).as_secs_f64() / 3600.0;
    assert!((hours - 72.0).abs() < 1.0, "{hours} h before its end");
}

/// Debian's pebble is older than profiles, but its certificates can be as short.
fn with_profiles(request: &str, answer: &mut Value) {
    if request.starts_with("GET /dir") {
        answer["meta"]["profiles"] = json!({"classic": "90 days", "shortlived": "6 days"});
    }
}

/// When the last certificate ends, and when it is renewed.
fn issued(gate: &Gate) -> (Timestamp, Timestamp) {
    let said = gate.messages();
    let (_, rest) = said.rsplit_once("was issued until ").unwrap();
    let (until, rest) = rest.split_once(", and is renewed from ").unwrap();
    let from = rest.split(|c: char| c.is_whitespace() || c == '"').next().unwrap();
    (until.parse().unwrap(), from.parse().unwrap())
}

#[test]
fn a_profile_that_the_authority_does_not_have_is_named() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let gate = gate(&front, &upstream, "\"app.test\"", "profile = \"shortlived\"");
    let _pebble = authority_for(&front, &gate, YEARS);
    let is_told =
        || gate.messages().contains("the authority does not offer the profile `shortlived`: it has none");
    assert!(eventually(Duration::from_secs(60), is_told), "{}", gate.messages());
    assert_eq!(front.count("POST /order-plz"), 0);
}

#[test]
fn an_account_is_bound_to_the_one_that_the_authority_knows_by_a_key() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let other = "b10lLJs8l1GPIzsLP0s6pMt8O0XVGnfTaCeROxQM0BIt2XrJMDHJZBM5NuQmQJQH";
    let binding = "eab = { key_id = \"kid-1\", key = \"${file:eab.key}\" }";
    for (keys, own, said) in [
        (binding, format!("{key}\n"), "the certificate of app.test was issued until 20"),
        (binding, other.to_owned(), "no new certificate for app.test: the authority refuses: "),
        ("", key.to_owned(), "(urn:ietf:params:acme:error:externalAccountRequired)"),
    ] {
        let (front, upstream) = (Front::new(), Upstream::start());
        let gate = launch(&front, &upstream, "\"app.test\"", keys).beside("eab.key", &own).start();
        let known = format!(
            ", \"externalAccountBindingRequired\": true, \"externalAccountMACKeys\": {{\"kid-1\": \"{key}\"}}"
        );
        let _pebble = Pebble::start_with(&front, gate.address.port(), gate.tls.port(), YEARS, &known);
        assert!(
            eventually(Duration::from_secs(60), || gate.messages().contains(said)),
            "{}",
            gate.messages()
        );
        assert!(!gate.messages().contains(&own[..40]), "{}", gate.messages());
    }
}

/// Tells pebble's resolver of records, and keeps its arguments and variables.
const CHANGE_DNS: &str = r#"
while [ ! -s "$DIR/port" ]; do sleep 0.1; done
echo "$@" >>"$DIR/calls"
env >>"$DIR/variables"
case $1 in
present) curl -s -d "{\"host\":\"$2\",\"value\":\"$3\"}" "http://127.0.0.1:$(cat "$DIR/port")/set-txt" ;;
cleanup) curl -s -d "{\"host\":\"$2\"}" "http://127.0.0.1:$(cat "$DIR/port")/clear-txt" ;;
esac
"#;

/// A wildcard by DNS, and a host by a handshake.
#[test]
fn wildcards_are_proved_by_a_command_that_sees_no_secret_of_the_gate() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let keys = "dns_hook = [\"/bin/sh\", \"{dir}/change-dns\"]";
    let launch = launch(&front, &upstream, "\"*.app.test\", \"app.test\"", keys);
    let launch = launch.environment("A_SECRET", "hunter2").environment("DIR", "/nowhere");
    let gate = launch.beside("change-dns", &CHANGE_DNS.replace("$DIR", "${0%/*}")).start();
    let pebble = authority_for(&front, &gate, YEARS);
    fs::write(gate.directory.join("port"), pebble.records.to_string()).unwrap();
    let both = || has_certificate(&gate, "app.test") && has_certificate(&gate, "*.app.test");
    assert!(eventually(Duration::from_secs(120), both), "{}", gate.messages());
    let one = seen(&gate, "one.app.test");
    assert!(one == seen(&gate, "two.app.test") && one != seen(&gate, "app.test"));
    let calls = || fs::read_to_string(gate.directory.join("calls")).unwrap();
    let is_cleaned = || calls().lines().last().is_some_and(|last| last.starts_with("cleanup "));
    assert!(eventually(Duration::from_secs(10), is_cleaned), "{}", calls());
    let calls = calls();
    let last: Vec<&str> = calls.lines().rev().take(2).collect();
    let (cleanup, present) = (last[0].strip_prefix("cleanup "), last[1].strip_prefix("present "));
    assert!(cleanup.is_some_and(|rest| rest.starts_with("_acme-challenge.app.test. ")), "{calls}");
    assert_eq!(present, cleanup, "what is put there is removed");
    let variables = fs::read_to_string(gate.directory.join("variables")).unwrap();
    assert!(variables.contains("TOLLGATE_ACME_DOMAIN=*.app.test"), "{variables}");
    assert!(!variables.contains("hunter2"), "{variables}");
    let state = fs::read_dir(gate.directory.join("acme")).unwrap().next().unwrap().unwrap().path();
    assert!(state.join("_.app.test.pem").is_file());
}

#[test]
fn a_command_that_fails_is_quoted_and_the_next_try_waits() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let keys = "challenge = \"dns-01\"\ndns_hook = [\"/bin/sh\", \"-c\", \"echo no such zone; exit 3\"]";
    let gate = gate(&front, &upstream, "\"app.test\"", keys);
    let _pebble = authority_for(&front, &gate, YEARS);
    let words = "no new certificate for app.test: `dns_hook` ended with exit status: 3: no such zone; there is none yet";
    assert!(eventually(Duration::from_secs(60), || gate.messages().contains(words)), "{}", gate.messages());
    let unremoved =
        "the record _acme-challenge.app.test. was not removed: `dns_hook` ended with exit status: 3";
    assert!(gate.messages().contains(unremoved), "{}", gate.messages());
}

/// By a handshake for the name of the reverse look-up, and by a request whose `Host` is the address.
#[test]
fn an_address_is_proved_and_its_certificate_is_for_clients_that_ask_for_no_name() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let (front, upstream) = (Front::new(), Upstream::start());
        let keys = format!("challenge = \"{challenge}\"\nprofile = \"shortlived\"");
        front.amend(with_profiles);
        let gate = gate(&front, &upstream, "\"app.test\", \"127.0.0.1\"", &keys);
        let _pebble = authority_for(&front, &gate, 6 * 86_400);
        let both = || has_certificate(&gate, "app.test") && has_certificate(&gate, "127.0.0.1");
        assert!(eventually(Duration::from_secs(60), both), "{challenge}: {}", gate.messages());
        let by_address = seen(&gate, "127.0.0.1");
        let parsed = ParsedCertificate::try_from(&by_address).unwrap();
        let is_for = |name: &str| verify_server_name(&parsed, &ServerName::try_from(name).unwrap()).is_ok();
        assert!(is_for("127.0.0.1") && !is_for("app.test"), "{challenge}");
        assert!(seen(&gate, "app.test") != by_address && seen(&gate, "else.test") != by_address);
        let asked = front.orders().iter().map(|order| order["identifiers"][0].clone()).collect::<Vec<_>>();
        assert_eq!(asked[1], json!({"type": "ip", "value": "127.0.0.1"}), "{asked:?}");
    }
}

/// An authority with RFC 9773, which Debian's pebble is older than.
fn with_suggestions(front: &Front, suggestion: String) {
    let page = front.page("/renewal-info");
    front.amend(move |request, answer| {
        if request.starts_with("GET /dir") {
            answer["renewalInfo"] = json!(page);
        } else if request.starts_with("POST /order-plz") && !payload(request)["replaces"].is_null() {
            answer["replaces"] = payload(request)["replaces"].clone();
        }
    });
    front.spoil(move |request| {
        let length = suggestion.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nRetry-After: 3600\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{suggestion}"
        );
        request.starts_with("GET /renewal-info/").then_some(answer)
    });
}

#[test]
fn a_renewal_that_the_authority_suggests_names_the_certificate_that_it_replaces() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let window = r#"{"suggestedWindow": {"start": "2021-01-03T00:00:00Z", "end": "2021-01-07T00:00:00Z"}}"#;
    with_suggestions(&front, window.to_owned());
    let gate = gate(&front, &upstream, "\"app.test\"", "");
    let _pebble = authority_for(&front, &gate, 60);
    let is_renewed = || front.orders().len() == 2;
    assert!(eventually(Duration::from_secs(60), is_renewed), "{}", gate.messages());
    let asked = front.asked("GET /renewal-info/");
    assert_eq!(asked.len(), 1, "it is asked again after an hour");
    let id = asked[0].split(['/', ' ']).nth(3).unwrap();
    assert!(front.orders()[0]["replaces"].is_null());
    assert_eq!(front.orders()[1]["replaces"], id);
    // By its own time it had been renewed after 30 s.
    let is_taken = || gate.messages().matches("the certificate of app.test was issued").count() == 2;
    assert!(eventually(Duration::from_secs(14), is_taken), "{}", gate.messages());
}

#[test]
fn suggestions_that_are_none_leave_the_time_of_the_certificate_itself() {
    std::thread::scope(|scope| {
        for nonsense in [
            "",
            "{}",
            r#"{"suggestedWindow": {"start": "soon", "end": "later"}}"#,
            r#"{"suggestedWindow": {"start": "2021-01-03T00:00:00Z", "end": "2021-01-03T00:00:00Z"}}"#,
            r#"{"suggestedWindow": {"start": "2021-01-03T00:00:00Z", "end": "9999-01-03T00:00:00Z"}}"#,
        ] {
            scope.spawn(move || suggests_nothing(nonsense));
        }
    });
}

fn suggests_nothing(nonsense: &str) {
    let (front, upstream) = (Front::new(), Upstream::start());
    with_suggestions(&front, nonsense.to_owned());
    let gate = gate(&front, &upstream, "\"app.test\"", "");
    let _pebble = authority_for(&front, &gate, 80);
    let is_asked = || front.count("GET /renewal-info/") == 1;
    assert!(eventually(Duration::from_secs(60), is_asked), "{nonsense}: {}", gate.messages());
    // A suggestion of the past would be followed after a quarter of the time, after 20 s.
    std::thread::sleep(Duration::from_secs(22));
    assert_eq!(front.orders().len(), 1, "{nonsense}");
    let is_renewed = || front.orders().len() >= 2;
    assert!(eventually(Duration::from_secs(60), is_renewed), "{nonsense}: {}", gate.messages());
    assert!(front.orders()[1]["replaces"].is_null(), "{nonsense}");
}

/// The first client waits for the order; a name that is not allowed costs none.
#[test]
fn a_certificate_is_ordered_when_a_client_first_asks_for_an_allowed_name() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let (front, upstream) = (Front::new(), Upstream::start());
        let keys = format!(
            "challenge = \"{challenge}\"\n[tls.acme.on_demand]\nallow = [\"*.app.test\", \"@names.txt\"]\nmax = 2\nwait = \"9s\"\n"
        );
        let launch = launch(&front, &upstream, "\"own.test\"", &keys);
        let gate = launch.beside("names.txt", "# of customers\nshop.test\n").start();
        let _pebble = authority_for(&front, &gate, YEARS);
        assert!(
            eventually(Duration::from_secs(60), || has_certificate(&gate, "own.test")),
            "{}",
            gate.messages()
        );
        let orders =
            |expected| assert_eq!(front.orders().len(), expected, "{challenge}: {}", gate.messages());
        let own = seen(&gate, "own.test");
        orders(1);
        for name in ["A.app.test", "shop.test"] {
            assert!(eventually(Duration::from_secs(60), || seen(&gate, name) != own), "{}", gate.messages());
        }
        let (a, shop) = (seen(&gate, "A.app.test"), seen(&gate, "shop.test"));
        assert!(a != own && shop != own && a != shop, "{challenge}: {}", gate.messages());
        orders(3);
        for name in ["b.app.test", "a.a.app.test", "app.test", "other.test"] {
            assert!(seen(&gate, name) == own, "{name}: too many, or not allowed");
        }
        let reloads = gate.reloads().0;
        gate.signal("HUP");
        assert!(eventually(Duration::from_secs(10), || gate.reloads().0 > reloads), "{}", gate.messages());
        assert!(seen(&gate, "a.app.test") == a && seen(&gate, "shop.test") == shop);
        orders(3);
        assert!(!has_certificate(&gate, "a.app.test"), "no label of a metric comes from clients");
        restarted(&front, &upstream, &gate, &a);
    }
}

/// A gate that finds the files of another one needs no authority.
fn restarted(front: &Front, upstream: &Upstream, gate: &Gate, certificate: &CertificateDer<'_>) {
    let state = fs::read_dir(gate.directory.join("acme")).unwrap().next().unwrap().unwrap();
    let file = fs::read_to_string(state.path().join("a.app.test.pem")).unwrap();
    let keys = "[tls.acme.on_demand]\nallow = [\"*.app.test\"]\n";
    let orders = front.orders().len();
    let launch = launch(front, upstream, "", keys);
    let name = format!("acme/{}/a.app.test.pem", state.file_name().to_str().unwrap());
    let other = launch.beside(&name, &file).start();
    assert!(&seen(&other, "a.app.test") == certificate);
    assert_eq!(front.orders().len(), orders);
}

#[test]
fn a_handshake_waits_a_bounded_time_and_new_names_have_a_rate() {
    let (front, upstream) = (Front::new(), Upstream::start());
    let keys = "[tls.acme.on_demand]\nallow = \"*.app.test\"\nrate = \"1 per 1h\"\nwait = \"1s\"\n";
    let gate = gate(&front, &upstream, "", keys);
    let begin = Instant::now();
    // The authority is not there yet.
    assert!(shown(&gate, "a.app.test").is_none());
    let waited = begin.elapsed();
    assert!(waited > Duration::from_millis(900) && waited < Duration::from_secs(6), "{waited:?}");
    let _pebble = authority_for(&front, &gate, YEARS);
    let is_there = || shown(&gate, "a.app.test").is_some();
    assert!(eventually(Duration::from_secs(60), is_there), "{}", gate.messages());
    assert!(shown(&gate, "b.app.test").is_none());
    let words = "no certificate is ordered for b.app.test, because its rate is used up";
    assert!(eventually(Duration::from_secs(10), || gate.messages().contains(words)), "{}", gate.messages());
    assert!(shown(&gate, "c.app.test").is_none());
    assert_eq!(front.orders().len(), 1);
    assert_eq!(gate.messages().matches("its rate is used up").count(), 1, "{}", gate.messages());
}

#[test]
fn mistakes_are_found_by_check() {
    let file = "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:8081\"\n[tls.acme]\n";
    let output = check_file(&format!("{file}domains = [\"*.app.test\", \"0.0.0.0\", \"app.test\"]\n"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    for words in ["no listener would use", "only DNS can prove `*.app.test`", "not the address of a host"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
