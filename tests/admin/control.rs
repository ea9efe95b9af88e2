//! Words to a running gate as a whole, over its admin socket and by `tollgate status`, `reload` and `drain`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, Gate, Reply, Upstream, binary, eventually, get_with, post_with};

const LOGIN: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1000h\"\n";

/// Status and body of the answer on the admin socket.
fn ask(gate: &Gate, method: &str, path: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(gate.admin_socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

/// Exit code, standard output and standard error of `tollgate` with these words to this gate.
fn tollgate(gate: &Gate, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary());
    command.args(words).arg("--socket").arg(gate.admin_socket());
    let output = command.env_remove("TOLLGATE_CONFIG").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_gate_says_how_it_is() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(LOGIN));
    let _client = gate.connect();
    let mut status = Value::Null;
    assert!(eventually(Duration::from_secs(5), || {
        status = ask(&gate, "GET", "/api/v1/status").1;
        status["connections"] == 1
    }));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&status["state"], &status["store"]),
        (&json!("running"), &json!({"url": "memory", "up": true}))
    );
    assert_eq!(status["listen"], json!([format!("http://{}", gate.address)]));
    assert_eq!(status["upstreams"][0]["up"], true);
    assert!(status["config"]["name"].as_str().unwrap().ends_with("gate.toml"));
    let (code, out, _) = tollgate(&gate, &["status"]);
    assert_eq!(code, Some(0));
    let hash = status["config"]["hash"].as_str().unwrap();
    for words in ["running since", &format!("http://{}", gate.address), "memory, up", hash] {
        assert!(out.contains(words), "{words} in {out}");
    }
}

#[test]
fn the_name_of_a_configuration_changes_with_what_it_says() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(LOGIN));
    let hash = || ask(&gate, "GET", "/api/v1/status").1["config"]["hash"].clone();
    let first = hash();
    assert_eq!(ask(&gate, "POST", "/api/v1/reload").0, 200);
    assert_eq!(hash(), first);
    gate.write(&upstream.file(&LOGIN.replace("1 per", "2 per")));
    assert_eq!(hash(), first, "it is not read yet");
    let (status, told) = ask(&gate, "POST", "/api/v1/reload");
    assert_eq!((status, &told["changes"]), (200, &json!("limit `address` changed")));
    assert_ne!(hash(), first);
}

/// I2: a caller that reloads a bad file gets the mistakes, and the exit code.
#[test]
fn a_bad_file_is_shown_to_its_operator_and_the_old_one_stays() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(LOGIN));
    gate.drain("/login", "");
    let (code, out, error) = tollgate(&gate, &["reload"]);
    assert_eq!((code, out.as_str(), error.as_str()), (Some(0), "nothing has changed\n", ""));
    gate.write(&upstream.file(&LOGIN.replace("rate", "rat")));
    let (code, out, error) = tollgate(&gate, &["reload"]);
    assert_eq!((code, out.as_str()), (Some(78), ""), "{error}");
    for words in ["unknown key `rat`", "gate.toml:", "^^^", "did you mean `rate`?", "the old one stays"] {
        assert!(error.contains(words), "{words} in {error}");
    }
    let (status, problem) = ask(&gate, "POST", "/api/v1/reload");
    assert_eq!(
        (status, &problem["status"], &problem["title"]),
        (422, &json!(422), &json!("Unprocessable Entity"))
    );
    let found = problem["diagnostics"].as_array().unwrap();
    assert!(found.iter().any(|found| found["severity"] == "error" && found["line"].is_u64()), "{problem}");
    let (code, out, _) = tollgate(&gate, &["reload", "--format", "json"]);
    assert_eq!(code, Some(78));
    assert!(serde_json::from_str::<Value>(&out).unwrap()["diagnostics"].is_array());
    assert_eq!(gate.ask(post_with("/login", "")).status, 429, "what was drained stays drained");
    assert_eq!(gate.reloads(), (1, 3));
    assert!(gate.messages().contains("an operator started a reload"));
}

#[test]
fn a_gate_that_is_told_to_drain_finishes_what_is_in_flight_and_ends() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(600)));
    let mut gate = Gate::start(&upstream.file(LOGIN));
    let mut slow = gate.connect();
    slow.send(get_with("/slow", ""));
    upstream.wait_for(1);
    let (code, out, _) = tollgate(&gate, &["drain"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("finishes what is in flight"), "{out}");
    assert_eq!(slow.answer().status, 200);
    let ended = gate.exit_status(Duration::from_secs(10));
    assert!(ended.is_some_and(|status| status.success()));
    assert!(TcpStream::connect(gate.address).is_err());
    let (code, _, error) = tollgate(&gate, &["status"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("is the gate running"), "{error}");
}

#[test]
fn only_an_operator_on_the_machine_has_a_say() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(LOGIN));
    for (method, path) in [("GET", "status"), ("POST", "reload"), ("POST", "drain")] {
        let mut client = Client::connect(gate.admin);
        client.send(format!("{method} /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        assert_eq!(client.answer().status, 403, "{path} over TCP");
        let wrong = if method == "GET" { "POST" } else { "GET" };
        assert_eq!(ask(&gate, wrong, &format!("/api/v1/{path}")).0, 405, "{wrong} {path}");
    }
    assert_eq!(ask(&gate, "POST", "/api/v1/reload?file=other").0, 400);
    assert_eq!(gate.reloads(), (0, 0));
}
