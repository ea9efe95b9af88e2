//! The same wrong password costs once: `repeats = "free"`.

use std::net::Ipv4Addr;

use support::application::{FIVE, ROUTE, application, form, post, right, sign_in, sign_in_with, status_from};
use support::{Gate, Reply, Upstream};

fn route(route: &str) -> String {
    route.replace("[route.login]\n", "[route.login]\nrepeats = \"free\"\n")
}

fn gate() -> (Upstream, Gate) {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{}{FIVE}", route(ROUTE))));
    (application, gate)
}

#[test]
fn two_hundred_repeats_of_a_wrong_password_cost_one_token_and_others_what_they_cost() {
    let (_application, gate) = gate();
    for _ in 0..200 {
        assert_eq!(gate.ask(sign_in("alice", "old")).status, 200);
    }
    let others = ["one", "two", "three", "four", "five"].map(|word| gate.ask(sign_in("alice", word)).status);
    assert_eq!(others, [200, 200, 200, 200, 429]);
    assert_eq!(gate.ask(sign_in("alice", "old")).status, 429, "of an empty bucket nothing is taken first");
}

#[test]
fn a_phone_that_moves_pays_once_and_a_right_password_is_none_of_the_known() {
    let (_application, gate) = gate();
    for host in 1..40 {
        assert_eq!(status_from(&gate, Ipv4Addr::new(127, 0, 0, 50 + host), "alice", "old"), 200);
    }
    assert_eq!(gate.ask(sign_in("alice", &right("alice"))).status, 302);
}

/// What differs anywhere may be another guess, wherever the application takes its password from.
#[test]
fn a_request_that_differs_in_anything_but_what_proxies_write_pays() {
    let (_application, gate) = gate();
    let ask = |lines: &str, body: &str| gate.ask(sign_in_with(lines, body)).status;
    let body = form("alice", "old");
    let first =
        [ask("", &body), ask("X-Request-Id: 1\r\n", &body), ask("Via: 1.1 a\r\n", &body), ask("", &body)];
    assert_eq!(first, [200; 4], "cost one token of five");
    let others = [
        ask("Cookie: pwd=guess\r\n", &body),
        ask("X-Password: guess\r\n", &body),
        ask("Authorization: Basic YWxpY2U6Z3Vlc3M=\r\n", &body),
        ask("", &format!("{body}&pwd2=guess")),
        ask("", &form("ALICE", "old")),
    ];
    assert_eq!(others, [200, 200, 200, 200, 429]);
}

#[test]
fn limits_that_count_attempts_count_each() {
    let application = application();
    let limit = FIVE.replace("failures", "attempts");
    let gate = Gate::start(&application.file(&format!("{}{limit}", route(ROUTE))));
    let all: Vec<u16> = (0..7).map(|_| gate.ask(sign_in("alice", "old")).status).collect();
    assert_eq!(all, [200, 200, 200, 200, 200, 429, 429]);
}

#[test]
fn a_reload_forgets_none_and_a_body_that_was_not_read_is_never_the_same() {
    let application = application();
    let text = application.file(&format!("{}{FIVE}", route(ROUTE).replace("user", "body = \"1KiB\"\nuser")));
    let gate = Gate::start(&text);
    assert_eq!(gate.ask(sign_in("alice", "old")).status, 200);
    assert!(gate.reload(&text.replace("5 per 1h", "5 per 2h")));
    assert!((0..9).all(|_| gate.ask(sign_in("alice", "old")).status == 200), "four tokens are left");
    let long = form("alice", &"x".repeat(2_000));
    let all: Vec<u16> = (0..5).map(|_| gate.ask(sign_in_with("", &long)).status).collect();
    assert_eq!(all, [200, 200, 200, 200, 429]);
}

/// Otherwise a client that does not wait could make the application hash as fast as it can send.
#[test]
fn who_hangs_up_or_gets_an_error_pays_each_time() {
    let (_application, gate) = gate();
    for _ in 0..2 {
        assert_eq!(gate.ask(sign_in("alice", "crash")).status, 500);
    }
    for _ in 0..2 {
        let mut client = gate.connect();
        client.send(sign_in("alice", "silence"));
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(["one", "two"].map(|word| gate.ask(sign_in("alice", word)).status), [200, 429]);
}

/// Basic stands in each request of a calendar on a phone, and its route reads no body for itself.
#[test]
fn basic_beside_a_body_is_the_same_only_with_the_same_body() {
    let application = Upstream::answering(|_, _| Reply::text("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"));
    let tables = "[route.dav]\nmatch = \"ANY /dav\"\nuser = \"basic\"\npassword = \"basic\"\nfailure = { status = 401 }\n\
                  repeats = \"free\"\n";
    let gate = Gate::start(&application.file(&format!("{tables}{FIVE}")));
    let ask = |body: &str| {
        let length = body.len();
        gate.ask(format!(
            "PROPFIND /dav HTTP/1.1\r\nHost: app.test\r\nAuthorization: Basic YWxpY2U6b2xk\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .status
    };
    assert!((0..20).all(|_| ask("<propfind/>") == 401));
    let others: Vec<u16> = (0..5).map(|number| ask(&format!("<propfind{number}/>"))).collect();
    assert_eq!(others, [401, 401, 401, 401, 429]);
}

/// A client can add Basic to any request, and a wrong code may be right in the next half minute.
#[test]
fn a_route_that_forgives_does_not_forgive_for_another_one_that_counts_the_request() {
    let application = Upstream::answering(|_, _| Reply::text("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"));
    let tables = "[route.code]\nmatch = \"POST /code\"\nwhen = \"form:code\"\nfailure = { status = 401 }\n\
                  [route.basic]\nmatch = \"ANY /**\"\nuser = \"basic\"\npassword = \"basic\"\nfailure = { status = 401 }\n\
                  repeats = \"free\"\n";
    let gate = Gate::start(&application.file(&format!("{tables}{FIVE}")));
    let ask = || gate.ask(post("/code", "Authorization: Basic YWxpY2U6b2xk\r\n", "code=123456")).status;
    let mut seen = vec![401_u16];
    while seen.len() < 20 && *seen.last().unwrap() == 401 {
        seen.push(ask());
    }
    assert_eq!(seen.last(), Some(&429), "{seen:?}");
}
