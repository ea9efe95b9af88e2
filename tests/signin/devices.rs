//! Known devices: the owner of an account gets in while strangers guess at it.

use std::fs;
use std::net::Ipv4Addr;

use support::application::{ROUTE, application, cookie, form, guesses, post, right, sign_in_with};
use support::{Gate, Launch, Reply, Upstream, get_with};

const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n";
const KEYS: &str = "[device]\nsecret = \"${file:{dir}/device.keys}\"\n";
const KEY: &str = "0123456789abcdef0123456789abcdef";
const OTHER_KEY: &str = "fedcba9876543210fedcba9876543210";

/// A gate with known devices, and these tables.
fn gate(application: &Upstream, tables: &str) -> Gate {
    let launch = Launch::new(&application.file(&format!("{ROUTE}{ACCOUNT}{KEYS}{tables}")));
    launch.beside("device.keys", KEY).start()
}

/// Signs in and keeps the cookie, as a browser does.
fn known_device(gate: &Gate, user: &str) -> String {
    let answer = gate.ask(sign_in_with("", &form(user, &right(user))));
    assert_eq!(answer.status, 302);
    format!("tollgate_device={}", cookie(&answer, "tollgate_device").unwrap())
}

fn status(gate: &Gate, cookie: &str, user: &str, password: &str) -> u16 {
    gate.ask(sign_in_with(&format!("Cookie: {cookie}\r\n"), &form(user, password))).status
}

/// F1: the lock-out.
#[test]
fn an_owner_with_a_known_device_signs_in_while_a_thousand_addresses_try_the_account() {
    let application = application();
    let gate = gate(&application, "");
    let device = known_device(&gate, "alice");
    let mut reached = 0;
    for number in 0..1000_u32 {
        let mut client = gate.connect_from(Ipv4Addr::from(0x7f02_0001 + number));
        client.send(sign_in_with("", &form("alice", &format!("wrong{number}"))));
        reached += usize::from(client.answer().status == 200);
        if number % 50 == 0 {
            assert_eq!(status(&gate, &device, "alice", &right("alice")), 302, "after {number} guesses");
        }
    }
    assert_eq!(reached, 5);
    assert_eq!(
        status(&gate, "a=b", "alice", &right("alice")),
        429,
        "a stranger, although the password is right"
    );
}

#[test]
fn a_known_device_has_a_budget_of_its_own_and_no_more() {
    let application = application();
    let gate = gate(&application, "");
    let device = known_device(&gate, "alice");
    let reached = (0..20).filter(|n| status(&gate, &device, "alice", &format!("wrong{n}")) == 200).count();
    assert_eq!(reached, 5, "a thief of the cookie has as many guesses as the limit says");
    assert_eq!(guesses(&gate, "alice"), 5, "and strangers still have theirs");
}

#[test]
fn a_limit_for_devices_is_what_known_devices_pay_from_instead() {
    let application = application();
    let gate = gate(
        &application,
        "[limit.device]\nkey = \"user+device\"\nrate = \"2 per 1h\"\ncount = \"failures\"\n",
    );
    let device = known_device(&gate, "alice");
    let reached = (0..20).filter(|n| status(&gate, &device, "alice", &format!("wrong{n}")) == 200).count();
    assert_eq!((reached, guesses(&gate, "alice")), (2, 5));
}

#[test]
fn a_device_is_known_for_its_own_account_only() {
    let application = application();
    let gate = gate(&application, "");
    let device = known_device(&gate, "mallory");
    assert_eq!(guesses(&gate, "alice"), 5);
    assert_eq!(status(&gate, &device, "alice", "wrong"), 429);
    // A second account in the same body does not borrow it.
    let both = sign_in_with(&format!("Cookie: {device}\r\n"), "log=mallory&log=alice&pwd=x");
    assert_eq!(gate.ask(both).status, 429);
}

/// An application that sends those who are signed in home, whatever they ask for.
fn generous_application() -> Upstream {
    let home = "HTTP/1.1 302 Found\r\nLocation: /home\r\nContent-Length: 0\r\n\r\n";
    let is_signed_in = |request: &[u8]| request.windows(11).any(|part| part == b"SESSION=own");
    Upstream::answering(move |request, _| match is_signed_in(request) {
        true => Reply::text(home),
        false => Reply::ok(),
    })
}

/// Who was signed in to an account of their own became the known device of any other one.
#[test]
fn who_is_signed_in_already_becomes_no_device_of_another_account() {
    let application = generous_application();
    let gate = gate(&application, "");
    let session = "Cookie: SESSION=own\r\n";
    let is_given = |request: &str| {
        let answer = gate.ask(request);
        assert_eq!(answer.status, 302, "{request}");
        cookie(&answer, "tollgate_device").is_some()
    };
    for beside_the_form in [
        get_with("/login?log=alice&pwd=x", session),
        get_with("/login?log=alice&pwd=x&_method=POST", session),
        post("/login?log=alice&pwd=x", session, ""),
        post("/login?log=alice&pwd=x", session, "code=123456"),
        post("/login", &format!("{session}Cookie: log=alice\r\n"), "pwd=x"),
    ] {
        assert!(!is_given(&beside_the_form), "{beside_the_form}");
    }
    assert!(
        is_given(&sign_in_with(session, &form("alice", "x"))),
        "the form itself is what the rules are about"
    );
    assert!(is_given(&post("/login?log=alice", session, &form("alice", "x"))), "and may be doubled");
}

#[test]
fn a_cookie_never_reaches_the_application_and_the_others_do() {
    let application = application();
    let gate = gate(&application, "");
    let device = known_device(&gate, "alice");
    assert_eq!(status(&gate, &format!("a=1; {device};b=2"), "alice", &right("alice")), 302);
    let sent = String::from_utf8_lossy(&application.bytes()).into_owned();
    assert!(!sent.contains("tollgate_device"), "{sent}");
    assert!(sent.contains("a=1") && sent.contains("b=2"), "{sent}");
}

#[test]
fn a_cookie_says_as_much_as_it_has_to_and_is_only_given_for_a_success() {
    let application = application();
    let gate = gate(&application, "");
    let answer = gate.ask(sign_in_with("", &form("alice", &right("alice"))));
    let line = answer.headers.iter().find(|(_, value)| value.starts_with("tollgate_device=")).unwrap();
    let attributes: Vec<&str> = line.1.split("; ").skip(1).collect();
    for wanted in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=15552000"] {
        assert!(attributes.contains(&wanted), "{line:?}");
    }
    assert!(!attributes.contains(&"Secure"), "plain HTTP: {line:?}");
    assert!(answer.headers.iter().any(|(_, value)| value.starts_with("SESSION=")), "the application's stays");
    let failed = gate.ask(sign_in_with("", &form("alice", "wrong")));
    assert_eq!(cookie(&failed, "tollgate_device"), None);
    let ambiguous = gate.ask(sign_in_with("", &format!("log=alice&log=bob&pwd={}", right("alice"))));
    assert_eq!(
        (ambiguous.status, cookie(&ambiguous, "tollgate_device")),
        (302, None),
        "whose device would it be?"
    );
}

#[test]
fn behind_tls_the_cookie_is_secure_and_bound_to_the_host() {
    let application = application();
    let gate = gate(&application, "[client]\ntrust = [\"127.0.0.1\"]\n");
    let secure = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
    let answer = gate.ask(sign_in_with(secure, &form("alice", &right("alice"))));
    let token = cookie(&answer, "__Host-tollgate_device").unwrap();
    assert!(
        answer.headers.iter().any(|(_, value)| value.starts_with("__Host-") && value.contains("; Secure"))
    );
    assert_eq!(guesses(&gate, "alice"), 5);
    let cookie = format!("{secure}Cookie: __Host-tollgate_device={token}\r\n");
    assert_eq!(gate.ask(sign_in_with(&cookie, &form("alice", &right("alice")))).status, 302);
    assert!(!application.saw("__Host-"));
}

/// F6: the secret is rotated.
#[test]
fn a_new_key_knows_the_devices_of_the_old_one_until_that_is_taken_out() {
    let application = application();
    let gate = gate(&application, "");
    let file = application
        .file(&format!("{ROUTE}{ACCOUNT}{KEYS}"))
        .replace("{dir}", gate.directory.to_str().unwrap());
    let device = known_device(&gate, "alice");
    assert_eq!(guesses(&gate, "alice"), 5);
    fs::write(gate.directory.join("device.keys"), format!("{OTHER_KEY}\n{KEY}\n")).unwrap();
    assert!(gate.reload(&file));
    assert_eq!(status(&gate, &device, "alice", &right("alice")), 302);
    fs::write(gate.directory.join("device.keys"), format!("{OTHER_KEY}\n")).unwrap();
    assert!(gate.reload(&file));
    assert_eq!(status(&gate, &device, "alice", &right("alice")), 429);
}
