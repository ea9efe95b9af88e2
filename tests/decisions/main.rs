//! What the gate says of its decisions: the decision log, the summary, the access log, `mode = "observe"`, and the
//! programs that read them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, and asks the real clock"
)]

mod fields;
mod observing;
mod programs;
mod summary;
mod targets;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use support::{Gate, eventually};

/// A form, two limits and a trusted proxy, which the tests are.
const FILE: &str = r#"
client.trust = "127.0.0.1"

[route.login]
match = "POST /login"
user = "form:user"
success = [{ status = 302 }]
failure = [{ status = 401 }]

[limit.address]
rate = "5 per 1d burst 5"

[limit.account]
key = "user"
rate = "8 per 1d burst 8"
count = "failures"
"#;

/// An attempt of this client for this account.
fn attempt(client: &str, number: usize, account: &str, password: &str) -> String {
    let body = format!("user={account}&password={password}");
    format!(
        "POST /login HTTP/1.1\r\nHost: app.test\r\nX-Forwarded-For: {client}\r\nX-Request-Id: a{number}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The lines of a log as objects, once there are that many.
fn objects(path: &Path, count: usize) -> Vec<Value> {
    let text = || fs::read_to_string(path).unwrap_or_default();
    assert!(eventually(Duration::from_secs(20), || text().lines().count() >= count), "{}", text());
    text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Ends the gate, so that everything is written; the messages until then.
fn end(gate: &mut Gate) -> String {
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(10)).is_some_and(|status| status.success()));
    // The last words may still be on their way through the pipe.
    eventually(Duration::from_millis(300), || false);
    gate.messages()
}
