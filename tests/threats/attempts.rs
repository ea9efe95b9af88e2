//! Which requests are attempts: whatever their method, wherever they carry what they try, whatever host they name.
//!
//! Each guess goes through a running gate, as often as an attacker would send it, and the upstream counts those that
//! reach it. What an honest visitor sends is free beside it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::net::Ipv4Addr;

use support::{Gate, Upstream, check_file, get_with, post, post_with};

/// Guesses of each kind, before a bucket of five.
const GUESSES: usize = 60;
const FIVE_AN_HOUR: &str = "[limit.address]\nrate = \"5 per 1h\"\n";
const FORM: &str = "[route.form]\nmatch = \"POST /login\"\nuser = [\"form:login\", \"header:X-Api-User\", \"basic\"]\n\
                    password = \"form:geheim\"\nwhen = [\"form:login\", \"form:geheim\", \"basic\", \"header:X-Api-User\"]\n";

/// The same form, of which every request is an attempt.
fn form() -> String {
    FORM.lines().filter(|line| !line.starts_with("when")).map(|line| format!("{line}\n")).collect()
}

fn request(method: &str, target: &str, lines: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("{method} {target} HTTP/1.1\r\nHost: app.test\r\n{lines}{length}\r\n{body}")
}

/// Every way to carry a guess to the form that needs no POST.
fn guesses(method: &str) -> Vec<(&'static str, String)> {
    let urlencoded = "Content-Type: application/x-www-form-urlencoded\r\n";
    let json = "Content-Type: application/json\r\n";
    let with = |target: &str, lines: &str, body: &str| request(method, target, lines, body);
    vec![
        ("Basic", with("/login", "Authorization: Basic YTpi\r\n", "")),
        ("a form", with("/login", urlencoded, "login=a&geheim=b")),
        ("JSON", with("/login", json, r#"{"login":"a","geheim":"b"}"#)),
        (
            "chunks",
            format!(
                "{method} /login HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n\
                 10\r\nlogin=a&geheim=b\r\n0\r\n\r\n"
            ),
        ),
        ("a query", with("/login?login=a&pw=b", "", "")),
        ("an array in a query", with("/login?x=1;geheim%5b%5d=b", "", "")),
        ("a password in a query", with("/login?u=a&passwort=b", "", "")),
        ("a cookie", with("/login", "Cookie: sid=1; login=a; geheim=b\r\n", "")),
        ("a second line of cookies", with("/login", "Cookie: sid=1\r\nCookie: lang=de;GEHEIM[]=b\r\n", "")),
        ("an encoded cookie", with("/login", "Cookie: sid=1; %67eheim=b\r\n", "")),
        ("a cookie that sounds like it", with("/login", "Cookie: sid=1; user_passwd=b\r\n", "")),
        ("an empty one", with("/login", "Cookie: geheim=\r\n", "")),
        ("a header of its own", with("/login", "X-Api-User: a\r\n", "")),
        ("an override", with("/login", "X-HTTP-Method-Override: POST\r\n", "")),
        ("an overriding parameter", with("/login?_method=post", "", "")),
        ("an overriding cookie", with("/login", "Cookie: _method=POST\r\n", "")),
    ]
}

/// The kinds of guesses of which another number than the bucket holds reached the upstream, with that number.
fn not_counted(tables: &str, guesses: &[(&'static str, String)]) -> Vec<(&'static str, usize)> {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{tables}{FIVE_AN_HOUR}")));
    let mut wrong = Vec::new();
    for (number, (kind, guess)) in (1..).zip(guesses) {
        let source = Ipv4Addr::new(127, 0, 1, number);
        let passed = (0..GUESSES).filter(|_| {
            let mut client = gate.connect_from(source);
            client.send(guess);
            client.answer_to_head().status == 200
        });
        wrong.push((*kind, passed.count()));
    }
    wrong.retain(|(_, passed)| *passed != 5);
    wrong
}

/// L1: any OPTIONS but a true pre-flight is an attempt wherever POST is.
#[test]
fn guesses_by_options_pay_like_those_by_post() {
    let mut all = guesses("OPTIONS");
    all.push(("nothing", request("OPTIONS", "/login", "", "")));
    all.push(("half a pre-flight", request("OPTIONS", "/login", "Origin: https://a.test\r\n", "")));
    assert_eq!(not_counted(&form(), &all), []);
    let any = form().replace("POST /login", "ANY /login");
    assert_eq!(not_counted(&any, &all), []);
}

/// L1: Tomcat answers the right password by OPTIONS as it answers it by GET.
#[test]
fn options_with_basic_pay_at_every_path_of_a_preset() {
    let upstream = Upstream::start();
    let tables = format!("[route.app]\npreset = \"tomcat\"\n{FIVE_AN_HOUR}");
    let gate = Gate::start(&upstream.file(&tables));
    let guess = request("OPTIONS", "/manager/html", "Authorization: Basic YTpi\r\n", "");
    let passed = (0..300).filter(|_| gate.ask(&guess).status == 200).count();
    assert_eq!(passed, 5, "of 300");
    let asked = request("OPTIONS", "/webdav/folder", "", "");
    assert_eq!(gate.ask(asked).status, 200, "a client that asks what there is tries nothing");
}

/// L1: what browsers ask before a request from another origin is free, and nothing that is like it.
#[test]
fn a_true_preflight_is_free_and_one_that_carries_something_is_not() {
    let upstream = Upstream::start();
    for pattern in ["POST /login", "ANY /login"] {
        let form = form().replace("POST /login", pattern);
        let gate = Gate::start(&upstream.file(&format!("{form}[limit.address]\nrate = \"1 per 1h\"\n")));
        gate.drain("/login", "");
        let lines = "Origin: https://other.test\r\nAccess-Control-Request-Method: POST\r\n";
        let more = format!("{lines}Access-Control-Request-Headers: authorization, content-type\r\n");
        for free in [lines, &more] {
            assert_eq!(gate.ask(request("OPTIONS", "/login", free, "")).status, 200, "{pattern}");
            assert_eq!(gate.ask(request("OPTIONS", "/login?lang=de", free, "")).status, 200, "{pattern}");
        }
        let bearer = format!("{lines}Authorization: Bearer x\r\n");
        assert_eq!(gate.ask(request("OPTIONS", "/login", &bearer, "")).status, 429, "{pattern}");
        let remembered = format!("{lines}Cookie: login=a\r\n");
        assert_eq!(gate.ask(request("OPTIONS", "/login", &remembered, "")).status, 429, "{pattern}");
        for (kind, guess) in guesses("OPTIONS") {
            let guess = guess.replacen("\r\n", &format!("\r\n{lines}"), 1);
            assert_eq!(gate.ask(guess).status, 429, "{kind} at {pattern}");
        }
    }
}

/// L2: a GET or HEAD that carries an attempt is one.
#[test]
fn guesses_by_get_and_head_pay_like_those_by_post() {
    for method in ["GET", "HEAD"] {
        assert_eq!(not_counted(&form(), &guesses(method)), [], "{method}");
        assert_eq!(
            not_counted(&form().replace("POST /login", "PUT /login"), &guesses(method)),
            [],
            "{method}"
        );
    }
}

/// L2: who looks at the form tries nothing, whatever else is remembered.
#[test]
fn looking_at_the_form_is_free() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{}[limit.address]\nrate = \"1 per 1h\"\n", form())));
    gate.drain("/login", "");
    for method in ["GET", "HEAD"] {
        for (target, lines) in [
            ("/login", ""),
            ("/login?next=/home&lang=de&compact=1", ""),
            ("/login", "Cookie: login=alice; lang=de\r\n"),
            ("/login", "Cookie: passport.sid=1; compass=n; bypass_cache=1; connect.sid=x\r\n"),
            ("/login", "Cookie: csrftoken=a; XSRF-TOKEN=b; PHPSESSID=c; remember_token=d; spinner=e\r\n"),
            ("/login", "Authorization: Bearer x\r\n"),
            ("/login", "Content-Length: 0\r\n"),
            ("/other?login=a&geheim=b", "Cookie: geheim=b\r\n"),
        ] {
            let mut client = gate.connect();
            client.send(request(method, target, lines, ""));
            assert_eq!(client.answer_to_head().status, 200, "{method} {target} {lines}");
        }
    }
}

/// L2: PHP without a php.ini takes what stands in a cookie for a field, before what was posted.
#[test]
fn an_account_and_a_password_in_cookies_are_found() {
    let upstream = Upstream::start();
    let gate =
        Gate::start(&upstream.file(&format!("{FORM}[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\n")));
    let mut passed = 0;
    for number in 0..GUESSES {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 2, u8::try_from(number).unwrap()));
        // A decoy in the body, and nothing of the victim.
        let cookie = ["login=victim", "LOGIN[]=Victim", "%6cogin=vict%69m"][number % 3];
        let body = format!("login=decoy{number}&geheim=x");
        let lines = format!("Cookie: sid=1; {cookie}\r\n");
        client.send(request("POST", "/login", &lines, &body));
        passed += usize::from(client.answer().status == 200);
    }
    assert_eq!(passed, 5, "of {GUESSES} at one account");
    let body = "login=victim&geheim=x";
    assert_eq!(gate.ask(post("/login", body)).status, 429, "it is the same bucket");
}

/// L2: a field that makes an attempt of a request does so in a cookie too.
#[test]
fn what_makes_an_attempt_may_stand_in_a_cookie() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{FORM}[limit.address]\nrate = \"1 per 1h\"\n")));
    gate.drain("/login", "X-Api-User: a\r\n");
    for free in ["", "Cookie: sid=1\r\n", "Cookie: login=alice\r\n"] {
        assert_eq!(gate.ask(post_with("/login", free)).status, 200, "{free}");
        assert_eq!(gate.ask(get_with("/login", free)).status, 200, "{free}");
    }
    for (lines, body) in [
        ("Cookie: geheim=b\r\n", ""),
        ("Cookie: login=a; geheim=b\r\n", ""),
        ("Cookie: login=a\r\n", "geheim=b"),
        ("Cookie: login=a; pass=b\r\n", ""),
    ] {
        assert_eq!(gate.ask(request("POST", "/login", lines, body)).status, 429, "{lines}{body}");
    }
}

/// L6: another Host, or none at all, leads to the same application.
#[test]
fn a_route_for_some_hosts_may_take_every_other_one_too() {
    let upstream = Upstream::start();
    let tables = "[route.app]\nmatch = \"POST /login\"\nhost = [\"app.test\", \"[::1]\"]\nhost_default = true\nlimits = \"few\"\n\
                  [route.other]\nmatch = \"POST /login\"\nhost = [\"other.test\", \"*.other.test\"]\nlimits = \"many\"\n\
                  [limit.few]\nrate = \"1 per 1h\"\n[limit.many]\nrate = \"1000 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    gate.drain("/login", "");
    let to = |host: &str| format!("POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
    for host in [
        "APP.test:80",
        "app.test.",
        "elsewhere.test",
        "app.test.elsewhere",
        "localhost:8080",
        "127.0.0.1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]:80",
        "xn--pp-eka.test",
        "test",
        "nother.test",
        "other.test.example",
    ] {
        assert_eq!(gate.ask(to(host)).status, 429, "{host}");
    }
    for bare in [
        "POST /login HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
        "POST http://elsewhere.test/login HTTP/1.1\r\nHost: elsewhere.test\r\nContent-Length: 0\r\n\r\n",
    ] {
        assert_eq!(gate.ask(bare).status, 429, "{bare}");
    }
    for host in ["other.test", "Other.Test:8080", "other.test.", "a.b.other.test"] {
        assert_eq!(gate.ask(to(host)).status, 200, "{host} has a route of its own");
    }
}

/// L6: a client that makes hosts up has no bucket for each.
#[test]
fn hosts_that_no_route_names_share_a_bucket() {
    let upstream = Upstream::start();
    let tables = "[route.app]\nmatch = \"POST /login\"\nhost = \"app.test\"\nhost_default = true\n\
                  [limit.address]\nkey = \"ip+host\"\nrate = \"5 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    let passed = (0..GUESSES).filter(|number| {
        let host = format!("Host: x{number}.test\r\n");
        let guess = post_with("/login", "").replace("Host: app.test\r\n", &host);
        gate.ask(guess).status == 200
    });
    assert_eq!(passed.count(), 5, "of {GUESSES}");
    assert_eq!(gate.ask(post_with("/login", "")).status, 200, "a host that a route names has its own");
}

/// L14: a pattern with a mistyped method protects nothing, and `check` says so.
#[test]
fn an_unknown_method_is_warned_about() {
    let upstream = Upstream::start();
    let tables = "[route.form]\nmatch = \"PSOT /login\"\n[limit.address]\nrate = \"1 per 1h\"\n";
    let said = check_file(&upstream.file(&format!("listen = \"http://127.0.0.1:1\"\n{tables}")));
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && told.contains("did you mean `POST`?"), "{told}");
}
