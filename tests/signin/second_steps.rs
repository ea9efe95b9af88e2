//! Second steps: a code after the password names no account, and pays from the account all the same.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use support::application::{cookie, form, post, right, sign_in_with};
use support::{Answer, Gate, Reply, Upstream};

const FILE: &str = r#"
[route.login]
match = "POST /login"
user = "form:log"
success = { status = 302, location = "/code" }

[route.code]
match = "POST /code"
step = "after"
success = { status = 302, location = "/home" }

[limit.account]
key = "user"
rate = "10 per 1h"
count = "failures"
"#;

const ADDRESSES: &str = "[device]\naddresses = true\n";
const HOME: Ipv4Addr = Ipv4Addr::new(127, 5, 0, 1);

/// Asks for a code after the right password, as gitea does: the session knows whose. It gives each right password a new
/// session, unless the path says that it keeps the one there is.
fn application() -> Upstream {
    let pending: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    Upstream::answering(move |request, _| {
        answer(&String::from_utf8_lossy(request), &mut pending.lock().unwrap())
    })
}

fn answer(request: &str, pending: &mut HashMap<String, String>) -> Reply {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let field = |name: &str| body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let mut words = head.split([' ', '\r', '\n', ';']).filter_map(|word| word.strip_prefix("sid="));
    let session = words.next().unwrap_or_default().to_owned();
    let (log, password) = (field("log").unwrap_or_default(), field("pwd").unwrap_or_default());
    match field("code") {
        Some(code) if pending.get(&session).is_some_and(|user| code == code_of(user)) => {
            redirect("/home", "")
        }
        Some(_) => text("wrong code"),
        None if password != right(log) => text("wrong password"),
        None if head.contains("?keep") => {
            pending.insert(session, log.to_owned());
            redirect("/code", "")
        }
        None => {
            let new = format!("{:032x}", pending.len() + 1);
            pending.insert(new.clone(), log.to_owned());
            redirect("/code", &format!("Set-Cookie: sid={new}; Path=/; HttpOnly\r\n"))
        }
    }
}

fn redirect(location: &str, line: &str) -> Reply {
    Reply::text(&format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n{line}Content-Length: 0\r\n\r\n"))
}

fn text(text: &str) -> Reply {
    Reply::text(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()))
}

fn code_of(user: &str) -> String {
    format!("code-of-{user}")
}

fn stranger(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x7f02_0001 + number)
}

fn ask_from(gate: &Gate, address: Ipv4Addr, request: String) -> Answer {
    let mut client = gate.connect_from(address);
    client.send(request);
    client.answer()
}

/// The session after the right password from there; `None` if it was refused.
fn session_from(gate: &Gate, address: Ipv4Addr, user: &str) -> Option<String> {
    let answer = ask_from(gate, address, sign_in_with("", &form(user, &right(user))));
    cookie(&answer, "sid")
}

/// The status of a code with these cookies.
fn code_from(gate: &Gate, address: Ipv4Addr, cookies: &str, code: &str) -> u16 {
    let line = format!("Cookie: {cookies}\r\n");
    ask_from(gate, address, post("/code", &line, &format!("code={code}"))).status
}

/// How many of so many wrong codes for this account reach the application, each in a new session and from a new address.
fn guesses_in_new_sessions(gate: &Gate, user: &str, guesses: u32) -> usize {
    let guess = |number: &u32| {
        let session = session_from(gate, stranger(*number), user)?;
        let status = code_from(gate, stranger(*number), &format!("lang=en; sid={session}"), "wrong");
        (status == 200).then_some(())
    };
    (0..guesses).filter_map(|number| guess(&number)).count()
}

/// The issue's own case: a code has a million values, and who knows the password has a million sessions.
#[test]
fn codes_guessed_over_many_sessions_and_addresses_are_refused_by_the_account() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    assert_eq!(guesses_in_new_sessions(&gate, "alice", 40), 10);
    assert_eq!(session_from(&gate, stranger(99), "alice"), None, "it is the account's own bucket");
    assert_eq!(guesses_in_new_sessions(&gate, "bob", 3), 3, "and no other's");
}

#[test]
fn codes_guessed_in_one_session_from_many_addresses_are_refused_by_the_account() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let session = session_from(&gate, HOME, "alice").unwrap();
    let guess = |number: &u32| code_from(&gate, stranger(*number), &format!("sid={session}"), "wrong") == 200;
    assert_eq!((0..40).filter(guess).count(), 10);
    let own = session_from(&gate, HOME, "bob").unwrap();
    assert_eq!(code_from(&gate, HOME, &format!("sid={own}"), &code_of("bob")), 302);
}

#[test]
fn a_session_that_was_there_before_the_sign_in_is_followed_as_well() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let line = "Cookie: sid=0123456789abcdef\r\n";
    let kept = ask_from(&gate, HOME, post("/login?keep", line, &form("alice", &right("alice"))));
    assert_eq!((kept.status, cookie(&kept, "sid")), (302, None));
    let guess = |number: &u32| code_from(&gate, stranger(*number), "sid=0123456789abcdef", "wrong") == 200;
    assert_eq!((0..40).filter(guess).count(), 10);
}

#[test]
fn right_codes_cost_nothing_and_end_no_row_of_failures_of_an_account_that_did_not_sign_in() {
    let application = application();
    let gate = Gate::start(&application.file(&FILE.replace("rate = \"10", "max_failures = 5\nrate = \"100")));
    let (alice, bob) =
        (session_from(&gate, HOME, "alice").unwrap(), session_from(&gate, HOME, "bob").unwrap());
    let guess = |number: &u32| {
        // The application reads bob's session, which is right; the gate sees that of alice as well.
        let both = format!("sid={bob}; sid={alice}");
        assert_ne!(code_from(&gate, HOME, &both, &code_of("bob")), 200);
        code_from(&gate, stranger(*number), &format!("sid={alice}"), "wrong") == 200
    };
    assert_eq!((0..20).filter(guess).count(), 5);
    for _ in 0..30 {
        assert_eq!(code_from(&gate, HOME, &format!("sid={bob}"), &code_of("bob")), 302);
    }
}

#[test]
fn a_cookie_of_several_accounts_charges_each_and_one_of_more_than_three_is_no_session() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let line = "Cookie: sid=0123456789abcdef\r\n";
    let sign_in = |user: &str| {
        assert_eq!(ask_from(&gate, HOME, post("/login?keep", line, &form(user, "wrong"))).status, 200);
    };
    ["alice", "bob"].iter().for_each(|user| sign_in(user));
    let guess = |number: &u32| code_from(&gate, stranger(*number), "sid=0123456789abcdef", "wrong") == 200;
    assert_eq!((0..20).filter(guess).count(), 9, "each has paid for a wrong password");
    for user in ["alice", "bob"] {
        assert_eq!(session_from(&gate, HOME, user), None, "{user}");
    }
    (0..8).for_each(|number| sign_in(&format!("user{number}")));
    assert_eq!((60..160).filter(guess).count(), 40, "now it is a stranger's");
    let own = session_from(&gate, HOME, "carol").unwrap();
    assert_eq!(code_from(&gate, HOME, &format!("sid={own}"), &code_of("carol")), 302);
}

/// M4: applications decode cookies in as many ways as they have frameworks.
#[test]
fn a_session_in_any_spelling_and_place_pays_from_its_account() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let session = session_from(&gate, HOME, "alice").unwrap();
    let (first, rest) = session.split_at(1);
    let byte = first.as_bytes()[0];
    let spellings = [
        format!("%{byte:02x}{rest}"),
        format!("%25{byte:02X}{rest}"),
        format!("\"{session}\""),
        format!("\"\\{byte:03o}{rest}\""),
        session.to_ascii_uppercase(),
        format!("{session},x"),
        format!("x; sid={session}"),
    ];
    let in_cookies = (0..40).zip(spellings.iter().cycle()).filter(|(number, spelling)| {
        code_from(&gate, stranger(*number), &format!("sid={spelling}"), "wrong") == 200
    });
    assert_eq!(in_cookies.count(), 10);
    for target in [format!("/code;jsessionid={session}"), format!("/code?PHPSESSID={session}")] {
        assert_eq!(ask_from(&gate, stranger(50), post(&target, "", "code=wrong")).status, 429, "{target}");
    }
    let own = session_from(&gate, HOME, "bob").unwrap();
    assert_eq!(code_from(&gate, HOME, &format!("sid=\"{own}\""), "wrong"), 200, "no other's");
}

/// M4: a session that the gate does not know may be anybody's.
#[test]
fn codes_in_sessions_that_are_not_known_pay_together_wherever_they_come_from() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let own = session_from(&gate, HOME, "alice").unwrap();
    let guess = |number: &u32| {
        let cookies = format!("sid={number:032x}; other={number}");
        code_from(&gate, stranger(*number), &cookies, "wrong") == 200
    };
    assert_eq!((100..300).filter(guess).count(), 40, "four clients' worth");
    for _ in 0..20 {
        assert_eq!(code_from(&gate, HOME, &format!("sid={own}"), &code_of("alice")), 302, "who is known");
    }
}

/// M5: a balancer gives all browsers the same long cookie.
#[test]
fn a_cookie_that_everybody_has_shuts_nobody_out_of_the_second_step() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let all = "route=balancer-0123456789";
    for number in 0..10 {
        let line = format!("Cookie: {all}\r\n");
        ask_from(&gate, stranger(0), post("/login", &line, &form(&format!("user{number}"), "wrong")));
    }
    for number in 0..20 {
        let (user, home) = (format!("user{number}"), stranger(100 + number));
        let line = format!("Cookie: {all}\r\n");
        let answer = ask_from(&gate, home, post("/login", &line, &form(&user, &right(&user))));
        let session = cookie(&answer, "sid").unwrap();
        let cookies = format!("{all}; sid={session}");
        assert_eq!(code_from(&gate, home, &cookies, "wrong"), 200, "{user}");
        assert_eq!(code_from(&gate, home, &cookies, &code_of(&user)), 302, "{user}");
    }
}

/// M5: where the file names the session's cookie, no other pays.
#[test]
fn with_step_cookie_only_the_named_cookie_is_followed() {
    let application = application();
    let gate = Gate::start(&application.file(&FILE.replace("step = ", "step_cookie = \"sid\"\nstep = ")));
    let line = "Cookie: visitor=0123456789abcdef\r\n";
    for user in ["alice", "bob"] {
        ask_from(&gate, HOME, post("/login", line, &form(user, "wrong")));
    }
    let own = session_from(&gate, HOME, "bob").unwrap();
    let guess = |number: &u32| {
        code_from(&gate, stranger(*number), &format!("visitor=0123456789abcdef; sid={own}"), "wrong") == 200
    };
    assert_eq!((0..20).filter(guess).count(), 9, "one went to the password");
    assert!(session_from(&gate, HOME, "alice").is_some(), "the other cookie is nobody's");
}

/// M4: an application may read the second of two cookies, whose session the gate does not know.
#[test]
fn a_known_session_in_front_of_an_unknown_one_buys_no_further_codes() {
    let application = application();
    let gate = Gate::start(&application.file(&FILE.replace("step = ", "step_cookie = \"sid\"\nstep = ")));
    let guess = |number: &u32| {
        let own = session_from(&gate, stranger(*number), &format!("user{number}")).unwrap();
        let cookies = format!("sid={own}; sid=fedcba9876543210fedcba9876543210");
        code_from(&gate, stranger(*number), &cookies, "wrong") == 200
    };
    assert_eq!((0..60).filter(guess).count(), 40, "as many as without a known one");
}

/// The README says that strangers lock no owner out: not at the second step either.
#[test]
fn an_owner_at_a_known_address_passes_both_steps_whatever_strangers_do() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{FILE}{ADDRESSES}")));
    assert!(session_from(&gate, HOME, "alice").is_some());
    for number in 0..30 {
        ask_from(&gate, stranger(number), sign_in_with("", &form("alice", "wrong")));
    }
    assert_eq!(session_from(&gate, stranger(30), "alice"), None, "strangers have used up theirs");
    let session = session_from(&gate, HOME, "alice").unwrap();
    assert_eq!(code_from(&gate, HOME, &format!("sid={session}"), &code_of("alice")), 302);
}

#[test]
fn who_knows_the_password_makes_any_number_of_known_addresses_and_has_two_budgets() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{FILE}{ADDRESSES}")));
    let twice = |number: u32| {
        // The first right password makes the address known, the second comes from a known one.
        session_from(&gate, stranger(number), "alice");
        let session = session_from(&gate, stranger(number), "alice")?;
        (code_from(&gate, stranger(number), &format!("sid={session}"), "wrong") == 200).then_some(())
    };
    let by_known = (0..40).filter_map(twice).count();
    let by_strangers = guesses_in_new_sessions(&gate, "alice", 40);
    assert_eq!(by_known, 10);
    assert!(by_strangers <= 10, "{by_strangers}");
}

#[test]
fn a_step_that_follows_no_sign_in_pays_for_its_client_and_leaves_others_theirs() {
    let application = application();
    let gate = Gate::start(&application.file(FILE));
    let guesses =
        |from| (0..20).filter(|_| code_from(&gate, from, "sid=fedcba9876543210", "wrong") == 200).count();
    assert_eq!([guesses(stranger(1)), guesses(stranger(2))], [10, 10]);
}

/// An account that a client names beside the code hides nobody: GitLab goes by the session then.
#[test]
fn the_presets_charge_codes_to_the_account_of_the_session() {
    let application = Upstream::answering(|_, _| {
        Reply::text("HTTP/1.1 200 OK\r\nSet-Cookie: session=0123456789abcdef\r\nContent-Length: 0\r\n\r\n")
    });
    let (keycloak, code) = ("/realms/a/login-actions/authenticate", "/login/challenge/totp");
    let executor = "/api/v3/flows/executor/a/";
    let cases = [
        ("gitea", "/user/login", "user_name", "/user/two_factor", "passcode=1"),
        (
            "gitlab",
            "/users/sign_in",
            "user[login]",
            "/users/sign_in",
            "user[otp_attempt]=1&user[login]=other",
        ),
        ("keycloak", keycloak, "username", keycloak, "otp=1"),
        ("nextcloud", "/login", "user", code, "challenge=1"),
        ("nextcloud", "/login/webauthn/start", "loginName", "/login/webauthn/finish", "data=1"),
        ("gitea", "/user/login", "user_name", "/user/webauthn/assertion", "id=1"),
        ("gitea", "/user/login", "user_name", "/login/oauth/device", "user_code=1"),
        ("gitlab", "/users/sign_in", "user[login]", "/users/sign_in", "user[device_response]=1"),
        ("gitlab", "/users/sign_in", "user[login]", "/oauth/device/confirm", "user_code=1"),
        ("allauth", "/accounts/login/", "login", "/identity/o/device?code=1", ""),
        ("authelia", "/api/firstfactor", "username", "/api/secondfactor/totp", "token=1"),
        ("authelia", "/api/firstfactor", "username", "/api/oidc/consent", "user_code=1"),
        ("authentik", executor, "uid_field", executor, "password=1"),
        ("authentik", executor, "uid_field", executor, "code=1"),
    ];
    for (preset, sign_in, user, code, form) in cases {
        let limit = "[limit.account]\nkey = \"user\"\nrate = \"10 per 1h\"\n";
        let gate = Gate::start(&application.file(&format!("[route.site]\npreset = \"{preset}\"\n{limit}")));
        assert_eq!(ask_from(&gate, HOME, post(sign_in, "", &format!("{user}=alice"))).status, 200);
        let guess = |number: &u32| {
            let request = post(code, "Cookie: session=0123456789abcdef\r\n", form);
            ask_from(&gate, stranger(*number), request).status == 200
        };
        assert_eq!((0..20).filter(guess).count(), 9, "{preset}");
    }
}
