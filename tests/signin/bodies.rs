//! Bodies of attempts: forms of both kinds, JSON, and unreadable ones.

use support::application::{ROUTE, form};
use support::{Gate, Upstream, get_with};

const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\n";

fn post(content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn multipart(parts: &[(&str, &str)]) -> Vec<u8> {
    let parts = parts.iter().map(|(name, value)| {
        format!("--b0undary\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    });
    (parts.collect::<String>() + "--b0undary--\r\n").into_bytes()
}

/// D17: the same field in every kind of body.
#[test]
fn an_account_is_the_same_in_every_kind_of_body() {
    let application = Upstream::start();
    let route = ROUTE.replace("\"form:log\"", "[\"form:log\", \"json:/user/name\"]");
    let gate = Gate::start(&application.file(&format!("{route}{ACCOUNT}")));
    let json = br#"{"user": {"name": "alice"}, "pwd": "x"}"#;
    let bodies = [
        post("application/x-www-form-urlencoded", form("alice", "x").as_bytes()),
        post("multipart/form-data; boundary=b0undary", &multipart(&[("log", "alice"), ("pwd", "x")])),
        post("application/json", json),
        // Who reads JSON does not always ask what it is called.
        post("text/plain", json),
    ];
    for (request, status) in bodies.iter().zip([200, 200, 200, 429]) {
        assert_eq!(gate.ask(request).status, status);
        if status == 200 {
            let body = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            assert!(application.last().body == request[body..], "byte for byte");
        }
    }
}

/// D17, D21: what cannot be read is a sign-in without an account, and its client pays for it.
#[test]
fn what_cannot_be_read_is_charged_to_an_account_of_its_own_and_counts_as_a_sign_in() {
    let application = Upstream::start();
    let when = ROUTE.replace("user =", "when = \"form:pwd\"\nuser =");
    let gate = Gate::start(&application.file(&format!("{when}{ACCOUNT}")));
    let charset = post("application/x-www-form-urlencoded; charset=utf-16", b"l\0o\0g\0");
    let broken = post("multipart/form-data; boundary=b0undary", b"--b0undary\r\nlog");
    for request in [&charset, &charset, &broken] {
        assert_eq!(gate.ask(request).status, 200);
    }
    for request in [&charset, &broken] {
        assert_eq!(gate.ask(request).status, 429);
    }
    let known = post("application/x-www-form-urlencoded", form("alice", "x").as_bytes());
    assert_eq!(gate.ask(known).status, 200);
}

/// D17: padding in front of the field.
#[test]
fn a_field_behind_more_than_the_route_reads_is_refused() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{ACCOUNT}")));
    let padded = format!("pad={}&log=alice&pwd=x", "x".repeat(1 << 20));
    assert_eq!(gate.ask(post("application/x-www-form-urlencoded", padded.as_bytes())).status, 413);
    assert_eq!(application.bytes(), b"");
    let padded = format!("pad={}&log=alice&pwd=x", "x".repeat(60_000));
    let padded = post("application/x-www-form-urlencoded", padded.as_bytes());
    assert_eq!([(); 4].map(|()| gate.ask(&padded).status), [200, 200, 200, 429]);
}

/// D16: an application that posts everything to one address.
#[test]
fn only_a_request_with_the_field_is_an_attempt() {
    let application = Upstream::start();
    let tables =
        "[route.login]\nmatch = \"POST /\"\nwhen = \"form:password\"\n[limit.address]\nrate = \"2 per 1h\"\n";
    let gate = Gate::start(&application.file(tables));
    let post = |body: &str| {
        let length = body.len();
        gate.ask(format!("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: {length}\r\n\r\n{body}"))
            .status
    };
    assert!((0..10).all(|_| post("search=password") == 200));
    assert_eq!(["p%61ssword=1", "a=b&password[]=2", "password=3"].map(post), [200, 200, 429]);
    assert_eq!(post("search=x"), 200, "the rest of the application is still there");
    assert_eq!(gate.ask(get_with("/", "")).status, 200);
    assert_eq!(gate.metric("tollgate_attempts_total", ""), 2.0);
}

#[test]
fn what_a_route_with_a_field_chooses_goes_where_that_route_says() {
    let (application, other) = (Upstream::start(), Upstream::start());
    let tables = format!(
        "[route.login]\nmatch = \"POST /\"\nwhen = \"form:password\"\nupstream = \"http://{}\"\n\
         [limit.address]\nrate = \"9 per 1h\"\n",
        other.address
    );
    let gate = Gate::start(&application.file(&tables));
    let post = |body: &str| {
        let length = body.len();
        gate.ask(format!("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: {length}\r\n\r\n{body}"))
            .status
    };
    assert_eq!([post("search=x"), post("password=x")], [200, 200]);
    assert!(application.saw("search=x") && !application.saw("password"));
    assert!(other.saw("password=x") && !other.saw("search"));
}
