//! Callers of the admin API: over TCP with a token, over the Unix socket, and by the command line.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use support::{Answer, Client, Gate, Launch, Upstream, binary, post_with};

pub(crate) const TOKEN: &str = "0123456789abcdef0123";
/// What every state-changing call over TCP sends.
pub(crate) const RIGHT: &str = "Authorization: Bearer 0123456789abcdef0123\r\nX-Tollgate-Request: 1\r\nContent-Type: application/json\r\n";

pub(crate) const LOGIN: &str = r#"
[route.login]
match = "POST /login"

[limit.address]
rate = "2 per 1000h"

[limit.subnet]
rate = "100 per 1000h"
ipv4 = 24
"#;

/// A gate with a token.
pub(crate) fn gate(upstream: &Upstream, tables: &str) -> Gate {
    Launch::new(&upstream.file(tables)).environment("TOLLGATE_ADMIN__TOKEN", TOKEN).start()
}

/// The answer to these bytes over TCP.
pub(crate) fn send(gate: &Gate, request: &str) -> Answer {
    let mut client = Client::connect(gate.admin);
    client.send_what_goes(request.as_bytes());
    client.answer()
}

/// The answer to a call over TCP with these lines besides `Host`.
pub(crate) fn call(gate: &Gate, method: &str, path: &str, lines: &str, body: &str) -> Answer {
    let length = body.len();
    send(
        gate,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

/// Status and value of a call over TCP with the right token.
pub(crate) fn ask(gate: &Gate, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = call(gate, method, path, RIGHT, body);
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
}

/// The same on the Unix socket, where nothing but the request is needed.
pub(crate) fn ask_locally(gate: &Gate, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(gate.admin_socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

/// Exit code, standard output and standard error of `tollgate` with these words to this gate.
pub(crate) fn tollgate(gate: &Gate, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary());
    command.args(words).arg("--socket").arg(gate.admin_socket());
    let output = command.env_remove("TOLLGATE_CONFIG").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The statuses of attempts from this address, one after the other.
pub(crate) fn attempts(gate: &Gate, from: [u8; 4], count: usize) -> Vec<u16> {
    let mut client = gate.connect_from(Ipv4Addr::from(from));
    let attempt = |_| {
        client.send(post_with("/login", ""));
        client.answer().status
    };
    (0..count).map(attempt).collect()
}

/// The same with these words alone and this token in the environment.
pub(crate) fn tollgate_with_token(words: &[&str], token: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary());
    command.args(words).env_remove("TOLLGATE_CONFIG").env("TOLLGATE_ADMIN__TOKEN", token);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
