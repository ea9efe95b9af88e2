//! Names, passwords and cookies go through the gate and stay nowhere: planted ones are searched for in everything that it
//! writes, says and keeps.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use memchr::memmem;
use tollgate::bucket::{Continuous, Spec};
use tollgate::engine::Engine;
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::field::Field;
use tollgate::policy::key::KeyPart;
use tollgate::policy::{Limit, Policy, Route, RouteReading};
use tollgate::time::{Clock, Span, Time};

use support::application::{application, form, post, right, sign_in, sign_in_with, status_from};
use support::{Client as Connection, Launch, Stdout, eventually};

const SECRETS: [&str; 5] = [
    "planted-user",
    "planted-password",
    "planted-cookie",
    "planted-key-planted-key-planted-key",
    "127.86.75.64",
];
/// The last of them: the address that all requests come from, and that becomes known.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 86, 75, 64);

const FILE: &str = r#"
[route.login]
match = "POST /login"
user = ["form:log", "query:log", "json:/log", "basic"]
password = ["form:pwd", "query:pwd", "json:/pwd", "basic"]
success = [{ status = 302 }]
failure = [{ body = "Login failed" }]

[route.code]
match = "POST /code"
step = "after"

[limit.address]
key = "ip+cookie:sid"
rate = "1000 per 1h"
unit = "users"

[limit.account]
key = "user"
rate = "3 per 1h"
unit = "passwords"
count = "failures"
max_failures = 50

[limit.account.escalate]
after = 2
wait = "1s"

[limit.pair]
key = "user+ip"
rate = "5 per 1h"

[limit.spray]
key = "password"
rate = "9 per 1d"
unit = "users"

[device]
secret = "${file:{dir}/device.keys}"
addresses = true

[store]
snapshot = "{dir}/snapshot"
capacity = 1000

[log]
level = "trace"
clients = "hash"
access = "{dir}/access.log"
"#;

const BROKEN_OFF: &[u8] = b"broken=off&log=planted-user";

fn hides(text: &str, place: &str) {
    for secret in SECRETS {
        let alias = secret.replace('-', "%2D");
        assert!(!text.contains(secret) && !text.contains(&alias), "{secret} in {place}: {text}");
    }
}

fn attempts() -> Vec<Vec<u8>> {
    let cookies =
        "Cookie: sid=planted-cookie; tollgate_device=planted-cookie; long=planted-cookie-of-a-session\r\n";
    let mut all = vec![sign_in_with(cookies, &form("planted-user", &right("planted-user")))];
    for number in 0..6 {
        let password = format!("planted-password{number}");
        all.push(sign_in_with(cookies, &form("planted-user", &password)));
        all.push(post("/code", cookies, "code=planted-password"));
        all.push(sign_in_with(cookies, &format!("{{\"log\":\"planted-user\",\"pwd\":\"{password}\"}}")));
    }
    all.push(sign_in_with("Content-Encoding: gzip\r\n", "planted-user planted-password"));
    all.push(sign_in_with("", &"log=planted-user&".repeat(3_000)));
    all.push(sign_in_with(
        "",
        &format!("log={}", (0..20).map(|n| format!("planted-user{n}&log=")).collect::<String>()),
    ));
    all.push("GET /login?log=planted-user&pwd=planted-password HTTP/1.1\r\nHost: a\r\n\r\n".into());
    all.push("POST /login?log=planted%2Duser&p%77d=planted-password HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nReferer: http://a/login?log=planted-user&pwd=planted-password\r\n\r\n".into());
    // planted-user:planted-password
    all.push("GET /login HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGxhbnRlZC11c2VyOnBsYW50ZWQtcGFzc3dvcmQ=\r\n\r\n".into());
    all.push(
        "POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nbroken=off&log=planted-user".into(),
    );
    all.into_iter().map(String::into_bytes).collect()
}

/// F5, F9: everything that leaves the gate for its operators.
#[test]
fn no_planted_value_is_in_any_log_metric_page_or_file() {
    for (style, decisions) in [("combined", "summary"), ("json", "{dir}/decisions.log")] {
        let application = application();
        let lines = format!("style = \"{style}\"\ndecisions = \"{decisions}\"\n");
        let file = application.file(&format!("{FILE}{lines}"));
        let launch = Launch::new(&file).beside("device.keys", "planted-key-planted-key-planted-key");
        let gate = launch.stdout(Stdout::Discarded).start();
        for request in attempts() {
            let mut client = gate.connect_from(ADDRESS);
            client.send_what_goes(&request);
            if request.ends_with(BROKEN_OFF) {
                client.finish();
            }
            drop(client.try_answer());
        }
        hides(&gate.metrics(), "the metrics");
        for path in ["/", "/livez", "/readyz", "/api/v1/status", "/api/v1/limits", "/api/v1/clients"] {
            let mut page = Connection::connect(gate.admin);
            page.send(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"));
            hides(
                &page.try_answer().map(|answer| format!("{answer:?} {}", answer.text())).unwrap_or_default(),
                path,
            );
        }
        gate.write("listen = 1");
        gate.signal("HUP");
        gate.signal("TERM");
        let mut gate = gate;
        assert!(gate.exit_status(Duration::from_secs(10)).is_some());
        hides(&gate.messages(), "the messages");
        let is_summary = decisions == "summary";
        assert_eq!(gate.messages().contains("refuses an account"), is_summary, "{}", gate.messages());
        let decided = fs::read_to_string(gate.directory.join("decisions.log")).unwrap_or_default();
        assert_eq!(decided.is_empty(), is_summary, "{decided}");
        let log = fs::read_to_string(gate.directory.join("access.log")).unwrap();
        assert!(log.lines().count() >= attempts().len() - 1, "{log}");
        hides(&log, "the access log");
        hides_in_files(&gate.directory);
        let snapshot = fs::read(gate.directory.join("snapshot")).unwrap();
        let has = |text: &[u8]| snapshot.windows(text.len()).any(|window| window == text);
        assert!(
            has(b"device.addresses") && !has(&ADDRESS.octets()),
            "the address is known, and not by its bytes"
        );
    }
}

fn hides_in_files(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name != "device.keys") {
            hides(&String::from_utf8_lossy(&fs::read(&path).unwrap()), &path.display().to_string());
        }
    }
}

/// F5: what a dump of the running gate shows. Buffers are used again, so other requests come after, by the same worker.
#[test]
fn no_planted_name_or_password_stays_in_memory() {
    let application = application();
    let file = application.file(&format!("{FILE}[proxy]\nthreads = 1\n"));
    let launch = Launch::new(&file).beside("device.keys", SECRETS[3]);
    let gate = launch.stdout(Stdout::Discarded).start();
    for password in [right("planted-user"), "planted-password".to_owned()] {
        let answered = status_from(&gate, ADDRESS, "planted-user", &password);
        assert_eq!(answered, if password == "planted-password" { 200 } else { 302 });
    }
    for number in 0..200 {
        gate.ask(sign_in(&format!("other-u{number:05}"), "another-password"));
        gate.ask(sign_in(&format!("other-u{number:05}"), "another-one-of-other"));
    }
    let has = |memory: &[Vec<u8>], text: &str| {
        memory.iter().any(|part| memmem::find(part, text.as_bytes()).is_some())
    };
    let mut memory = Vec::new();
    // A part that the gate gives back while it is read is left out.
    let is_whole = || {
        memory = memory_of(gate.process_id());
        has(&memory, SECRETS[3])
    };
    assert!(eventually(Duration::from_secs(10), is_whole), "what it has to keep is found");
    for planted in ["planted-user", "planted-password"] {
        assert!(!has(&memory, planted), "{planted}");
    }
}

/// All that a process can write to.
fn memory_of(process: u32) -> Vec<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let range = |line: &str| {
        let (from, rest) = line.split_once('-')?;
        let (to, rights) = rest.split_once(' ')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        rights.starts_with("rw").then_some(address(from)?..address(to)?)
    };
    let read = |range: Range<u64>| {
        let mut part = vec![0; usize::try_from(range.end - range.start).unwrap()];
        memory.read_exact_at(&mut part, range.start).ok().map(|()| part)
    };
    maps.lines().filter_map(range).filter_map(read).collect()
}

/// F5: everything that the core could be asked to show.
#[test]
fn no_planted_value_is_in_what_the_core_shows_of_itself() {
    let spec = Spec::Continuous(Continuous::new(2, Span::from_secs(3600), 2).unwrap());
    let fields = vec![Field::Form("log".into())];
    let route = Route {
        reading: RouteReading {
            user: fields.clone(),
            password: vec![Field::Form("pwd".into())],
            ..RouteReading::default()
        },
        limits: vec![0, 1],
        ..Route::new("login", vec!["POST /login".parse().unwrap()])
    };
    let account = Limit { key: vec![KeyPart::User], ..Limit::new("account", spec) };
    let policy = Policy::new(vec![route], vec![Limit::new("address", spec), account]);
    let now = Time::from_nanos(1_800_000_000_000_000_000);
    let engine = Engine::new(policy, 100, Clock::manual(now), Events::default()).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("cookie", HeaderValue::from_static("sid=planted-cookie"));
    headers.insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded"));
    let attempt = Attempt {
        method: &Method::POST,
        path: "/login",
        query: Some("log=planted-user"),
        host: "a",
        client: Client::from_ip([127, 0, 0, 1].into()),
        headers: &headers,
        body: AttemptBody::Whole(b"log=planted-user&pwd=planted-password"),
        descriptor: None,
        tls: None,
    };
    hides(&format!("{attempt:?}"), "an attempt");
    let rules = engine.rules();
    for _ in 0..4 {
        hides(&format!("{:?}", engine.peek(&rules, &attempt).unwrap()), "the charges");
        let ruling = engine.decide_in_memory(&rules, &attempt, now).unwrap();
        hides(&format!("{ruling:?}"), "a ruling");
    }
    let values = tollgate::policy::field::values(&fields, tollgate::policy::field::Half::User, &attempt);
    hides(&format!("{values:?}"), "values");
    let account = tollgate::policy::account::Account::fold(b"planted-user");
    hides(&format!("{account:?}"), "an account");
    hides(&format!("{engine:?} {rules:?}"), "the engine");
}
