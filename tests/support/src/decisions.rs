//! A gate with limits by address and account, and what it writes of its decisions.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::eventually;

/// A form, two limits and a trusted proxy, which the tests are.
pub const FILE: &str = r#"
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
pub fn attempt(client: &str, number: usize, account: &str, password: &str) -> String {
    let body = format!("user={account}&password={password}");
    format!(
        "POST /login HTTP/1.1\r\nHost: app.test\r\nX-Forwarded-For: {client}\r\nX-Request-Id: a{number}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The lines of a log as objects, once there are that many.
pub fn objects(path: &Path, count: usize) -> Vec<Value> {
    let text = || fs::read_to_string(path).unwrap_or_default();
    assert!(eventually(Duration::from_secs(20), || text().lines().count() >= count), "{}", text());
    text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
