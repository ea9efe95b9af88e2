//! What operators see of single buckets of a running gate, and do to them: over its admin socket and by
//! `tollgate buckets`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use support::application;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use application::{application, right};
use serde_json::{Value, json};
use support::{Client, Clocks, Gate, binary, eventually, new_directory};

const LIMITS: &str = r#"
[route.login]
match = "POST /login"
user = "form:log"
password = "form:pwd"
success = { status = 302 }

[limit.address]
rate = "4 per 1h"
[limit.address.escalate]
after = 2
wait = "1h"

[limit.subnet]
rate = "100 per 1h"
ipv4 = 24
exempt = ["127.0.0.9"]

[limit.account]
key = "user"
rate = "1000/s"
count = "failures"
max_failures = 3

[limit.pair]
key = "user+ip"
rate = "50 per 1h"
"#;

fn sign_in(gate: &Gate, user: &str, password: &str) -> u16 {
    gate.ask(application::sign_in(user, password)).status
}

/// How many attempts are admitted, each on another account.
fn drained(gate: &Gate) -> usize {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let user = || format!("user{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    (0..1000).take_while(|_| sign_in(gate, &user(), "wrong") != 429).count()
}

/// Status, head and body of the answer on the admin socket.
pub(crate) fn raw(gate: &Gate, request: &[u8]) -> (u16, String, String) {
    let mut stream = UnixStream::connect(gate.admin_socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    // An answer may come before all of it is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head[9..12].parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
}

pub(crate) fn ask(gate: &Gate, method: &str, path: &str, body: &str) -> (u16, Value) {
    let path = format!("/api/v1/buckets/{path}");
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (status, head, body) = raw(gate, request.as_bytes());
    let kind = if status == 200 { "application/json" } else { "application/problem+json" };
    assert!(head.contains(&format!("content-type: {kind}\r\n")), "{head}");
    (status, serde_json::from_str(&body).unwrap())
}

pub(crate) fn limit<'a>(shown: &'a Value, name: &str) -> &'a Value {
    let buckets = shown["buckets"].as_array().unwrap();
    buckets.iter().find(|bucket| bucket["limit"] == name).unwrap_or_else(|| panic!("{name} in {shown}"))
}

/// `tollgate buckets` with these words, over the gate's socket.
pub(crate) fn tollgate(gate: &Gate, words: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("buckets").args(words).arg("--socket").arg(gate.admin_socket());
    command.env_remove("TOLLGATE_CONFIG").output().unwrap()
}

pub(crate) fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const ME: &str = "ip:127.0.0.1";

#[test]
fn a_bucket_is_shown_without_taking_from_it() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    assert_eq!(sign_in(&gate, "alice", "wrong"), 200);
    for _ in 0..20 {
        let (status, shown) = ask(&gate, "GET", ME, "");
        assert_eq!(status, 200);
        let address = limit(&shown, "address");
        assert_eq!((&address["tokens"], &address["burst"]), (&json!(3), &json!(4)));
        assert_eq!((&address["network"], &address["mode"]), (&json!("127.0.0.1/32"), &json!("enforce")));
        let next = address["next"].as_f64().unwrap();
        assert!(next > 800.0 && next <= 900.0, "{next}");
        assert!(address["full_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(address["escalate"]["left"], 2);
        assert_eq!(limit(&shown, "subnet")["tokens"], 99);
        assert_eq!(limit(&shown, "subnet")["network"], "127.0.0.0/24");
        assert_eq!((&shown["exempt"], &shown["not_shown"]), (&json!([]), &json!(["pair"])));
    }
    let (_, neighbour) = ask(&gate, "GET", "ip:127.0.0.2", "");
    assert_eq!(
        (&limit(&neighbour, "address")["tokens"], &limit(&neighbour, "address")["next"]),
        (&json!(4), &json!(0.0))
    );
    assert_eq!(limit(&neighbour, "subnet")["tokens"], 99, "neighbours share that one");
    assert_eq!(ask(&gate, "GET", "ip:127.0.0.9", "").1["exempt"], json!(["subnet"]));
    let (_, head, body) = raw(&gate, b"HEAD /api/v1/buckets/ip:127.0.0.1 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("http/1.1 200") && body.is_empty());
}

#[test]
fn tokens_that_are_given_are_taken_and_no_more() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    assert_eq!(drained(&gate), 4);
    let (status, shown) = ask(&gate, "POST", "ip:127.0.0.1/credit", r#"{"tokens":2,"limit":"address"}"#);
    assert_eq!((status, &limit(&shown, "address")["tokens"]), (200, &json!(2)));
    assert_eq!(shown["buckets"].as_array().unwrap().len(), 1, "what was done is what is shown");
    assert_eq!(drained(&gate), 2);
    let (_, shown) = ask(&gate, "POST", "ip%3A127.0.0.1/credit", r#"{"tokens":4000000000}"#);
    assert_eq!(limit(&shown, "address")["tokens"], 4, "never above its size");
}

#[test]
fn a_reset_forgets_debts_and_waits() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    assert_eq!(drained(&gate), 4);
    assert_eq!(sign_in(&gate, "alice", "wrong"), 429);
    let (_, waiting) = ask(&gate, "GET", ME, "");
    assert!(limit(&waiting, "address")["escalate"]["wait"].as_f64().unwrap() > 3500.0, "{waiting}");
    // Tokens alone do not end a wait.
    ask(&gate, "POST", "ip:127.0.0.1/credit", r#"{"tokens":4,"limit":"address"}"#);
    assert_eq!(sign_in(&gate, "alice", "wrong"), 429);
    let (status, shown) = ask(&gate, "DELETE", "ip:127.0.0.1?limit=address", "");
    let escalate = &limit(&shown, "address")["escalate"];
    assert_eq!((status, &escalate["wait"], &escalate["left"]), (200, &json!(0.0), &json!(2)));
    assert_eq!(drained(&gate), 4);
    assert_eq!(limit(&ask(&gate, "GET", ME, "").1, "subnet")["tokens"], 92, "that one was not meant");
    ask(&gate, "DELETE", ME, "");
    assert_eq!(limit(&ask(&gate, "GET", ME, "").1, "subnet")["tokens"], 100);
}

/// L10: the address stands for what it is charged without an account, so that an operator can lift that, too.
#[test]
fn an_address_is_shown_with_the_bucket_of_its_attempts_without_an_account() {
    let application = application();
    let gate = Gate::start(
        &application.file(&LIMITS.replace("4 per 1h", "400 per 1h").replace("after = 2", "after = 9")),
    );
    let attempts = || [(); 4].map(|()| gate.ask(application::sign_in_with("", "pwd=x")).status);
    assert_eq!(attempts(), [200, 200, 200, 429]);
    assert_eq!(limit(&ask(&gate, "GET", ME, "").1, "account")["max_failures"], json!({"left": 0, "most": 3}));
    let (_, neighbour) = ask(&gate, "GET", "ip:127.0.0.2", "");
    assert_eq!(limit(&neighbour, "account")["max_failures"]["left"], 3);
    let (status, shown) = ask(&gate, "DELETE", "ip:127.0.0.1?limit=account", "");
    assert_eq!((status, &limit(&shown, "account")["network"]), (200, &json!("127.0.0.1/32")));
    assert_eq!(attempts(), [200, 200, 200, 429]);
}

#[test]
fn a_bucket_that_begins_empty_can_be_given_tokens() {
    let application = application();
    let gate = Gate::start(&application.file(&format!(
        "{}[limit.late]\nrate = \"9 per 1h\"\ninitial = 0\nkey = \"user\"\n",
        LIMITS.split("[limit.address]").next().unwrap()
    )));
    let (_, shown) = ask(&gate, "POST", "user:alice/credit", r#"{"tokens":2}"#);
    assert_eq!(limit(&shown, "late")["tokens"], 2);
    assert_eq!([(); 3].map(|()| sign_in(&gate, "alice", "wrong")), [200, 200, 429]);
}

/// NIST SP 800-63B: after so many failures only a known device or an operator helps.
#[test]
fn an_operator_lifts_the_cap_of_an_account_whichever_way_its_name_is_spelt() {
    let application = application();
    let limits = LIMITS.replace("4 per 1h", "1000/s");
    let gate = Gate::start(&application.file(&limits));
    let guesses = |user: &str| (0..50).take_while(|_| sign_in(&gate, user, "wrong") != 429).count();
    assert_eq!((guesses("alice"), guesses("bob")), (3, 3));
    assert_eq!(sign_in(&gate, "alice", &right("alice")), 429, "whatever the password");
    let (_, shown) = ask(&gate, "GET", "user:alice", "");
    assert_eq!(limit(&shown, "account")["max_failures"], json!({"left": 0, "most": 3}));
    assert!(limit(&shown, "account").get("network").is_none());
    // Tokens are no use here; and giving them is no way around the cap.
    ask(&gate, "POST", "user:alice/credit", r#"{"tokens":100}"#);
    assert_eq!(sign_in(&gate, "alice", &right("alice")), 429);
    let (status, shown) = ask(&gate, "DELETE", "user:%20ALICE", "");
    assert_eq!((status, &limit(&shown, "account")["max_failures"]["left"]), (200, &json!(3)));
    assert_eq!(sign_in(&gate, "alice", &right("alice")), 302);
    assert_eq!(sign_in(&gate, "bob", &right("bob")), 429, "that was the bucket of another account");
}

#[test]
fn a_rate_of_its_own_lasts_to_its_end_and_survives_a_change_of_the_limit() {
    let application = application();
    let clocks = Clocks::frozen(
        &application.file(&LIMITS.replace("[limit.address.escalate]\nafter = 2\nwait = \"1h\"", "")),
    );
    let gate = &clocks.gate;
    assert_eq!(drained(gate), 4);
    let body = r#"{"limit":"address","rate":"60/min burst 8","for":"1h"}"#;
    let (status, shown) = ask(gate, "PUT", "ip:127.0.0.1/rate", body);
    let address = limit(&shown, "address");
    assert_eq!((status, &address["tokens"], &address["burst"]), (200, &json!(0), &json!(8)), "{shown}");
    assert_eq!((&address["own"]["burst"], &address["own"]["seconds_per_token"]), (&json!(8), &json!(1.0)));
    clocks.pass(Duration::from_secs(5));
    assert_eq!(drained(gate), 5);
    let changed = LIMITS.replace("4 per 1h", "2 per 1h").replace("after = 2", "after = 900");
    assert!(gate.reload(&application.file(&changed)));
    clocks.pass(Duration::from_secs(100));
    assert_eq!(drained(gate), 8, "as before");
    clocks.pass(Duration::from_secs(3599));
    assert_eq!(drained(gate), 8);
    clocks.pass(Duration::from_secs(3600));
    let (_, shown) = ask(gate, "GET", ME, "");
    let address = limit(&shown, "address");
    assert!(address.get("own").is_none(), "{address}");
    // One of eight was there at the end: a quarter of one of two.
    assert_eq!((&address["tokens"], &address["next"]), (&json!(0), &json!(1350.0)));
    clocks.pass(Duration::from_secs(3600 + 1350));
    assert_eq!(drained(gate), 1);
}

#[test]
fn a_rate_of_its_own_can_be_ended_before_its_end() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    let put = |limit: &str| {
        let body = format!(r#"{{"limit":"{limit}","rate":"400 per 1h","for":"1d"}}"#);
        ask(&gate, "PUT", "ip:127.0.0.1/rate", &body).0
    };
    assert_eq!((put("address"), put("subnet")), (200, 200));
    assert_eq!(limit(&ask(&gate, "GET", ME, "").1, "address")["tokens"], 400);
    let (status, shown) = ask(&gate, "DELETE", "ip:127.0.0.1/rate", r#"{"limit":"address"}"#);
    assert_eq!((status, &limit(&shown, "address")["tokens"]), (200, &json!(4)));
    let (_, shown) = ask(&gate, "GET", ME, "");
    assert!(limit(&shown, "address").get("own").is_none() && limit(&shown, "subnet").get("own").is_some());
}

#[test]
fn an_impossible_request_is_a_problem_and_changes_nothing() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    assert_eq!(drained(&gate), 4);
    let (credit, rate) = ("ip:127.0.0.1/credit", "ip:127.0.0.1/rate");
    let exempt = r#"{"limit":"subnet","rate":"1/s","for":"1d"}"#;
    let cases = [
        ("GET", "alice", "", 404),
        ("GET", "", "", 404),
        ("GET", "ip:127.0.0.1/", "", 404),
        ("GET", "ip:127.0.0.1/credit/x", "", 404),
        ("GET", "ip:127.0.0.0%2F24", "", 422),
        ("GET", "ip:nowhere", "", 422),
        ("GET", "user:", "", 422),
        ("GET", "user:%zz", "", 422),
        ("GET", "ip:127.0.0.1?limit=address", "", 422),
        ("DELETE", "ip:127.0.0.1?limit=adress", "", 404),
        ("DELETE", "ip:127.0.0.1?limt=address", "", 422),
        ("DELETE", "ip:127.0.0.1?limit=address&limit=subnet", "", 422),
        ("DELETE", "ip:127.0.0.1?limit=pair", "", 404),
        ("DELETE", "user:alice?limit=address", "", 404),
        ("DELETE", "ip:127.0.0.1", r#"{"limit":7}"#, 422),
        ("DELETE", "ip:127.0.0.1", r#"{"limits":"address"}"#, 422),
        ("POST", "ip:127.0.0.1", r#"{"tokens":5}"#, 405),
        ("PUT", credit, r#"{"tokens":5}"#, 405),
        ("GET", rate, "", 405),
        ("PATCH", "ip:127.0.0.1", "", 405),
        ("POST", credit, "", 422),
        ("POST", credit, "{", 422),
        ("POST", credit, "[5]", 422),
        ("POST", credit, "5", 422),
        ("POST", credit, r#"{"tokens":5} {}"#, 422),
        ("POST", credit, r#"{"tokens":0}"#, 422),
        ("POST", credit, r#"{"tokens":-1}"#, 422),
        ("POST", credit, r#"{"tokens":1.5}"#, 422),
        ("POST", credit, r#"{"tokens":"5"}"#, 422),
        ("POST", credit, r#"{"tokens":4294967296}"#, 422),
        ("POST", credit, r#"{"tokens":5,"limit":"address","x":1}"#, 422),
        ("PUT", rate, r#"{"rate":"1/s","for":"1d"}"#, 422),
        ("PUT", rate, r#"{"limit":"address","for":"1d"}"#, 422),
        ("PUT", rate, r#"{"limit":"address","rate":"1/s"}"#, 422),
        ("PUT", rate, r#"{"limit":"address","rate":"lots","for":"1d"}"#, 422),
        ("PUT", rate, r#"{"limit":"address","rate":"1 per 100d burst 4000000000","for":"1d"}"#, 422),
        ("PUT", rate, r#"{"limit":"address","rate":"1/s","for":"0s"}"#, 422),
        ("PUT", rate, r#"{"limit":"address","rate":"1/s","for":1}"#, 422),
        ("PUT", rate, r#"{"limit":"nothing","rate":"1/s","for":"1d"}"#, 404),
        ("PUT", "ip:127.0.0.9/rate", exempt, 404),
    ];
    for (method, path, body, expected) in cases {
        let (status, problem) = ask(&gate, method, path, body);
        assert_eq!(status, expected, "{method} {path} {body}: {problem}");
        assert_eq!(problem["status"], expected);
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    }
    let (_, shown) = ask(&gate, "GET", ME, "");
    assert_eq!(limit(&shown, "address")["tokens"], 0);
    assert!(!gate.messages().contains("operator"), "nothing was done: {}", gate.messages());
}

#[test]
fn a_body_is_bounded_and_methods_are_named() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    let long = format!(r#"{{"tokens":5,"limit":"{}"}}"#, "x".repeat(64 * 1024));
    assert_eq!(ask(&gate, "POST", "ip:127.0.0.1/credit", &long).0, 413);
    let chunked = format!(
        "POST /api/v1/buckets/{ME}/credit HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        format!("4000\r\n{}\r\n", " ".repeat(0x4000)).repeat(5)
    );
    assert_eq!(raw(&gate, chunked.as_bytes()).0, 413, "before its end");
    let (_, head, _) = raw(&gate, b"OPTIONS /api/v1/buckets/user:a/rate HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("http/1.1 405") && head.contains("allow: put, delete\r\n"), "{head}");
}

#[test]
fn over_tcp_buckets_are_neither_shown_nor_changed() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    assert_eq!(sign_in(&gate, "alice", "wrong"), 200);
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("POST", "/credit"), ("PUT", "/rate"), ("DELETE", "/rate")]
    {
        let mut client = Client::connect(gate.admin);
        let body = r#"{"tokens":4}"#;
        client.send(format!(
            "{method} /api/v1/buckets/{ME}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("content-type")), (403, Some("application/problem+json")));
        assert!(answer.text().contains("needs admin.token, or a Unix socket"), "{}", answer.text());
    }
    assert_eq!(limit(&ask(&gate, "GET", ME, "").1, "address")["tokens"], 3);
    let mode = std::fs::metadata(gate.admin_socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn every_change_is_told_once_with_who_made_it_and_never_with_an_accounts_name() {
    let application = application();
    let gate = Gate::start(
        &application.file(&format!("{LIMITS}[log]\nclients = \"prefix\"\n[client]\nipv4 = 24\n")),
    );
    ask(&gate, "GET", ME, "");
    ask(&gate, "POST", "ip:127.0.0.1/credit", r#"{"tokens":5}"#);
    let mut answers = String::new();
    for (method, path, body) in [
        ("DELETE", "user:planted-name", ""),
        ("DELETE", "user:Planted-Name", ""),
        ("DELETE", "user:somebody", ""),
        ("PUT", "user:planted-name/rate", r#"{"limit":"account","rate":"1/s","for":"1d"}"#),
        ("DELETE", "user:planted-name/rate", ""),
    ] {
        let (status, answer) = ask(&gate, method, path, body);
        assert_eq!(status, 200);
        answers.push_str(&answer.to_string());
    }
    assert!(
        eventually(Duration::from_secs(5), || gate.messages().contains("ended a temporary rate")),
        "{}",
        gate.messages()
    );
    let messages = gate.messages();
    assert!(!format!("{messages}{answers}").to_lowercase().contains("planted"), "{messages}{answers}");
    let lines: Vec<Value> = messages
        .lines()
        .filter(|line| line.contains("an operator"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 6, "{messages}");
    assert_eq!((&lines[0]["bucket"], &lines[0]["tokens"]), (&json!("ip:127.0.0.0"), &json!(5)));
    assert_eq!(lines[0]["limits"], "address, subnet, account");
    let uid = Command::new("id").arg("-u").output().unwrap().stdout;
    for line in &lines {
        assert_eq!(line["uid"].to_string(), String::from_utf8_lossy(&uid).trim());
        assert_eq!((&line["pid"], &line["level"]), (&json!(std::process::id()), &json!("INFO")));
    }
    let bucket = |line: usize| lines[line]["bucket"].as_str().unwrap();
    assert!(bucket(1).starts_with("user:#") && bucket(1).len() == 18, "{}", bucket(1));
    assert_eq!(bucket(1), bucket(2), "one account, however it is spelt");
    assert_ne!(bucket(1), bucket(3));
}

#[test]
fn the_command_shows_gives_resets_and_changes_rates() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    assert_eq!(drained(&gate), 4);
    let (code, out, err) = said(&tollgate(&gate, &["show", ME]));
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.starts_with("LIMIT    TOKENS"), "{out}");
    assert!(
        out.contains("\naddress  0 of 4") && out.contains("127.0.0.1/32; 1 of 2 strikes until a wait"),
        "{out}"
    );
    assert!(out.ends_with("pair have other parts in their keys, so their buckets are not shown\n"), "{out}");
    let (code, out, _) = said(&tollgate(&gate, &["credit", ME, "1", "--limit", "address"]));
    assert!(code == Some(0) && out.contains("\naddress  1 of 4"), "{out}");
    let (_, out, _) = said(&tollgate(&gate, &["rate", ME, "address", "400 per 1h", "--for", "1d"]));
    assert!(out.contains("\naddress  100 of 400") && out.contains("own rate: one every 9s, until "), "{out}");
    let (_, out, _) = said(&tollgate(&gate, &["rate", ME, "address", "--end"]));
    assert!(out.contains("\naddress  1 of 4"), "{out}");
    let (_, out, _) = said(&tollgate(&gate, &["reset", ME, "--format", "json"]));
    assert_eq!(limit(&serde_json::from_str(&out).unwrap(), "address")["tokens"], 4);
    let name = "user:\u{e4} b/c?d%e";
    let (code, out, err) = said(&tollgate(&gate, &["show", name]));
    assert!(code == Some(0) && out.contains("3 of 3 failures left"), "any name can be asked for: {out}{err}");
}

#[test]
fn the_command_finds_the_socket_of_the_configuration() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    let file = gate.directory.join("gate.toml");
    let run = |file: &std::path::Path| {
        said(&Command::new(binary()).args(["buckets", "show", ME, "-c"]).arg(file).output().unwrap())
    };
    let (code, out, _) = run(&file);
    assert!(code == Some(0) && out.contains("\naddress  4 of 4"), "{out}");
    let directory = new_directory();
    let without = directory.join("gate.toml");
    std::fs::write(&without, "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n[route.a]\nmatch = \"POST /\"\n[limit.a]\nrate = \"1/s\"\n").unwrap();
    let (code, out, err) = run(&without);
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(err.contains("[admin]\nlisten = \"unix:/run/tollgate/admin.sock\""), "{err}");
    std::fs::write(&without, "listen = 5").unwrap();
    assert_eq!(run(&without).0, Some(78));
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn the_command_says_what_is_wrong() {
    let application = application();
    let gate = Gate::start(&application.file(LIMITS));
    for wrong in [
        &["show", "alice"][..],
        &["show", "ip:nowhere"],
        &["show"],
        &["credit", ME],
        &["credit", ME, "0"],
        &["rate", ME, "address"],
        &["rate", ME, "address", "60/min"],
        &["rate", ME, "address", "lots", "--for", "1d"],
        &["rate", ME, "address", "60/min", "--for", "soon"],
        &["rate", ME, "address", "60/min", "--end"],
        &["wipe", ME],
    ] {
        let (code, out, _) = said(&tollgate(&gate, wrong));
        assert_eq!((code, &*out), (Some(2), ""), "{wrong:?}");
    }
    let (code, out, err) = said(&tollgate(&gate, &["reset", ME, "--limit", "adress"]));
    assert_eq!((code, &*out, &*err), (Some(1), "", "tollgate: there is no limit `adress`\n"));
    let nowhere = gate.directory.join("missing.sock");
    let output =
        Command::new(binary()).args(["buckets", "show", ME, "--socket"]).arg(&nowhere).output().unwrap();
    let (code, _, err) = said(&output);
    assert!(code == Some(1) && err.contains("missing.sock") && err.contains("is the gate running"), "{err}");
    // A server that is no gate.
    let listener = std::os::unix::net::UnixListener::bind(&nowhere).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = [0; 1024];
        let _ = stream.read(&mut seen).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    });
    let output =
        Command::new(binary()).args(["buckets", "show", ME, "--socket"]).arg(&nowhere).output().unwrap();
    answering.join().unwrap();
    let (code, _, err) = said(&output);
    assert!(code == Some(1) && err.contains("an answer that is not JSON"), "{err}");
}
