//! `upstream_host`: an API of somebody else's, asked by its own name, wherever it listens.

use std::fs;
use std::time::{Duration, Instant};

use crate::tls::upstreams::Secure;
use support::authority::Authority;
use support::{Client, Gate, Launch, get_with};

const NAME: &str = "api.example.org";

fn gate(authority: &Authority, tables: &str) -> Gate {
    let file = format!("{tables}\n[tls]\nupstream_ca = \"roots.pem\"\n");
    Launch::new(&file).beside("roots.pem", &authority.pem).start()
}

/// `examples/outbound.toml` as it stands, but for where it listens and where the API is.
fn example(server: &Secure, changes: &[(&str, &str)]) -> String {
    let mut file = fs::read_to_string("examples/outbound.toml").unwrap();
    let tables = file.split_off(file.find("\n[").unwrap());
    let change = |file: String, (from, to): &(&str, &str)| {
        assert!(file.contains(from), "the example has no `{from}`");
        file.replace(from, to)
    };
    let tables = changes.iter().fold(tables, change);
    format!("upstream = \"https://127.0.0.1:{}\"\n{tables}", server.address.port())
}

#[test]
fn an_api_whose_certificate_bears_only_its_name_is_asked_by_it() {
    let authority = Authority::new();
    let server = Secure::start(&authority.issue(&[NAME]));
    let gate = gate(&authority, &example(&server, &[]));
    for _ in 0..2 {
        assert_eq!(gate.ask(get_with("/v1/things", "")).status, 200);
    }
    let seen = std::mem::take(&mut *server.seen.lock().unwrap());
    assert_eq!(seen.len(), 2);
    for (asked, _, request) in seen {
        assert_eq!(asked.as_deref(), Some(NAME));
        assert!(request.contains("\r\nHost: api.example.org\r\n"), "{request}");
        assert_eq!(
            request.to_ascii_lowercase().matches("host: ").count(),
            2,
            "its own and X-Forwarded-Host: {request}"
        );
        assert!(request.contains("\r\nX-Forwarded-Host: app.test\r\n"), "{request}");
    }
    assert_eq!(gate.metric("tollgate_upstream_up", &format!(" as {NAME}\"")), 1.0);
}

/// The connections of both routes lead to one address, and each was verified for one name alone.
#[test]
fn a_connection_serves_only_the_name_that_it_was_verified_for() {
    let authority = Authority::new();
    let server = Secure::start(&authority.issue(&[NAME]));
    let address = format!("https://127.0.0.1:{}", server.address.port());
    let route = |name: &str, host: &str| {
        format!("[route.{name}]\nmatch = \"ANY /{name}\"\nupstream_host = \"{host}\"\n")
    };
    let routes = format!("{}{}", route("right", NAME), route("wrong", "other.example.org"));
    let gate = gate(
        &authority,
        &format!("upstream = \"{address}\"\n{routes}[limit.all]\nkey = \"all\"\nrate = \"100/s\"\n"),
    );
    for _ in 0..4 {
        assert_eq!(gate.ask(get_with("/right", "")).status, 200);
        assert_eq!(gate.ask(get_with("/wrong", "")).status, 502);
        assert_eq!(gate.ask(get_with("/neither", "")).status, 502, "by the address, which it is not for");
    }
    let seen = server.seen.lock().unwrap();
    assert!(
        seen.iter().all(|(asked, _, request)| {
            asked.as_deref() == Some(NAME) && request.starts_with("GET /right ")
        })
    );
    assert_eq!(seen.len(), 4);
}

#[test]
fn calls_above_the_quota_wait_for_it_and_only_then_are_refused() {
    let authority = Authority::new();
    let server = Secure::start(&authority.issue(&[NAME]));
    let quota = [("60/min burst 10", "1/s burst 1"), ("wait = \"10s\"", "wait = \"2s\"")];
    let gate = gate(&authority, &example(&server, &quota));
    let started = Instant::now();
    let mut calls: Vec<Client> = (0..4).map(|_| gate.connect()).collect();
    calls.iter_mut().for_each(|call| call.send(get_with("/v1/things", "")));
    let answers: Vec<_> = calls.iter_mut().map(Client::answer).collect();
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert!(started.elapsed() >= Duration::from_millis(1900), "two of them waited: {:?}", started.elapsed());
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert!((1..=3).contains(&refused.retry_after()), "{}", refused.retry_after());
    assert_eq!(server.seen.lock().unwrap().len(), 3);
}
