//! Callers over TCP, without sockets.

use super::super::token::AdminToken;
use super::*;
use crate::time::Time;

const TOKEN: &str = "0123456789abcdef";
const AT: Time = Time::from_nanos(1_000_000_000_000);

fn access(token: Option<&str>) -> (AdminAccess, Clock) {
    let token = token.and_then(|text| NamedToken::of_all(AdminToken::new(text)));
    let tokens = AdminTokens::new(token.into_iter().collect());
    let hosts = vec!["gate.example.org".to_owned(), "*.gates.example.org".to_owned()];
    let settings =
        Arc::new(ArcSwap::from_pointee(AdminSettings { tokens, hosts, ..AdminSettings::default() }));
    let clock = Clock::manual(AT);
    (AdminAccess::new(settings, &clock, Events::default()), clock)
}

fn caller(to: &str) -> TcpCaller {
    TcpCaller { peer: "192.0.2.99".parse().unwrap(), to: to.parse().unwrap(), is_encrypted: false }
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    lines.iter().fold(HeaderMap::new(), |mut headers, (name, value)| {
        headers.append(*name, value.parse().unwrap());
        headers
    })
}

/// The status of a refused request for operators, or 200.
fn ask(access: &AdminAccess, caller: TcpCaller, method: Method, lines: &[(&'static str, &str)]) -> u16 {
    let refused = access.admit(caller, &method, &headers(lines), true).err();
    refused.map_or(200, |response| response.status().as_u16())
}

fn status(host: &[&str], origin: &[&str], to: &str) -> StatusCode {
    let hosts = host.iter().map(|host| ("host", *host));
    let lines: Vec<_> = hosts.chain(origin.iter().map(|origin| ("origin", *origin))).collect();
    let refused = access(None).0.admit(caller(to), &Method::GET, &headers(&lines), false).err();
    refused.map_or(StatusCode::OK, |response| response.status())
}

const HOST: (&str, &str) = ("host", "127.0.0.1:9180");
const RIGHT: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");
const WRONG: (&str, &str) = ("authorization", "Bearer 0123456789abcdeg");

#[test]
fn loopback_names_and_the_address_itself_are_welcome_with_any_port() {
    for host in ["127.0.0.1", "127.0.0.1:9180", "[::1]", "[::1]:1", "localhost", "LOCALHOST:80"] {
        assert_eq!(status(&[host], &[], "192.0.2.7"), StatusCode::OK, "{host}");
    }
    assert_eq!(status(&["192.0.2.7:9180"], &[], "192.0.2.7"), StatusCode::OK);
    assert_eq!(status(&["192.0.2.7:9180"], &[], "::ffff:192.0.2.7"), StatusCode::OK);
    assert_eq!(status(&["[2001:db8::7]"], &[], "2001:db8::7"), StatusCode::OK);
}

#[test]
fn names_of_the_certificates_are_welcome() {
    for host in ["gate.example.org", "GATE.example.org:9443", "a.gates.example.org"] {
        assert_eq!(status(&[host], &[], "192.0.2.7"), StatusCode::OK, "{host}");
    }
    for host in ["x.gate.example.org", "a.b.gates.example.org", "gates.example.org", "example.org"] {
        assert_eq!(status(&[host], &[], "192.0.2.7"), StatusCode::FORBIDDEN, "{host}");
    }
}

/// K2: DNS rebinding.
#[test]
fn a_name_that_was_rebound_to_us_is_refused() {
    for host in [
        "evil.example",
        "evil.example:9180",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil@127.0.0.1",
        "192.0.2.8",
        "0.0.0.0",
        "",
        "[::1",
    ] {
        assert_eq!(status(&[host], &[], "192.0.2.7"), StatusCode::FORBIDDEN, "{host}");
    }
    assert_eq!(status(&[], &[], "192.0.2.7"), StatusCode::FORBIDDEN);
    assert_eq!(status(&["localhost", "evil.example"], &[], "192.0.2.7"), StatusCode::FORBIDDEN);
}

#[test]
fn a_page_of_another_origin_is_refused() {
    let host = ["127.0.0.1:9180"];
    assert_eq!(status(&host, &["http://127.0.0.1:9180"], "127.0.0.1"), StatusCode::OK);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:8080", "127.0.0.1:9180", ""] {
        assert_eq!(status(&host, &[origin], "127.0.0.1"), StatusCode::FORBIDDEN, "{origin}");
    }
    let two = ["http://127.0.0.1:9180", "http://evil.example"];
    assert_eq!(status(&host, &two, "127.0.0.1"), StatusCode::FORBIDDEN);
    let (access, _) = access(Some(TOKEN));
    let site =
        |site| ask(&access, caller("127.0.0.1"), Method::GET, &[HOST, RIGHT, ("sec-fetch-site", site)]);
    assert_eq!([site("cross-site"), site("same-origin"), site("none")], [403, 200, 200]);
}

#[test]
fn without_a_token_in_the_file_no_token_helps() {
    let (access, _) = access(None);
    assert_eq!(ask(&access, caller("127.0.0.1"), Method::GET, &[HOST, RIGHT]), 403);
    assert_eq!(ask(&access, caller("127.0.0.1"), Method::GET, &[HOST]), 403);
}

#[test]
fn only_the_right_token_in_one_bearer_header_is_taken() {
    let (access, _) = access(Some(TOKEN));
    let get = |lines: &[(&'static str, &str)]| {
        ask(&access, caller("127.0.0.1"), Method::GET, &[&[HOST], lines].concat())
    };
    assert_eq!(get(&[RIGHT]), 200);
    assert_eq!(get(&[("authorization", "bearer  0123456789abcdef ")]), 200);
    assert_eq!([get(&[]), get(&[WRONG]), get(&[RIGHT, RIGHT]), get(&[RIGHT, WRONG])], [401; 4]);
    assert_eq!([get(&[("authorization", "Basic 0123")]), get(&[("authorization", "Bearer")])], [401; 2]);
}

#[test]
fn a_token_is_not_taken_from_an_unencrypted_connection_of_another_machine() {
    let (access, _) = access(Some(TOKEN));
    let host = ("host", "192.0.2.7");
    assert_eq!(ask(&access, caller("192.0.2.7"), Method::GET, &[host, RIGHT]), 403);
    let encrypted = TcpCaller { is_encrypted: true, ..caller("192.0.2.7") };
    assert_eq!(ask(&access, encrypted, Method::GET, &[host, RIGHT]), 200);
}

/// L16: guessing the token.
#[test]
fn who_guesses_too_often_waits_and_others_do_not() {
    let (access, clock) = access(Some(TOKEN));
    let get = |caller, token| ask(&access, caller, Method::GET, &[HOST, token]);
    let guesser = caller("127.0.0.1");
    assert!((0..MAX_GUESSES).all(|_| get(guesser, WRONG) == 401));
    let refused = access.admit(guesser, &Method::GET, &headers(&[HOST, WRONG]), true).unwrap_err();
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(get(guesser, RIGHT), 429, "not even the right one");
    assert_eq!(get(TcpCaller { peer: "192.0.2.98".parse().unwrap(), ..guesser }, RIGHT), 200);
    let health = access.admit(guesser, &Method::GET, &headers(&[HOST]), false);
    assert!(health.is_ok(), "health needs no token");
    clock.set(AT.after(Span::from_secs(1)));
    assert_eq!([get(guesser, RIGHT), get(guesser, WRONG), get(guesser, RIGHT)], [200, 401, 429]);
}

/// K1: what a form or a simple POST of a browser can send changes nothing.
#[test]
fn a_request_that_a_form_can_send_is_refused() {
    let (access, _) = access(Some(TOKEN));
    let post = |lines: &[(&'static str, &str)]| {
        ask(&access, caller("127.0.0.1"), Method::POST, &[&[HOST, RIGHT], lines].concat())
    };
    let (own, length) = (("x-tollgate-request", "1"), ("content-length", "2"));
    let kind = |kind| ("content-type", kind);
    assert_eq!(
        [post(&[]), post(&[("x-tollgate-request", "0")]), post(&[length, kind("text/plain")])],
        [403; 3]
    );
    assert_eq!([post(&[own]), post(&[own, ("content-length", "0")])], [200; 2]);
    for good in ["application/json", "Application/JSON; charset=utf-8", "application/toml"] {
        assert_eq!(post(&[own, length, kind(good)]), 200, "{good}");
    }
    let forms =
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx"];
    for form in forms {
        assert_eq!(post(&[own, length, kind(form)]), 415, "{form}");
    }
    assert_eq!(post(&[own, ("transfer-encoding", "chunked")]), 415);
    assert_eq!(post(&[own, length]), 415);
}
