//! No page and no message shows a secret.

use std::process::Command;

use crate::caller::{LOGIN, TOKEN, ask, ask_locally};
use support::{Launch, Upstream, binary};

/// J8: secrets in the status, in metrics, in messages and in what `check` prints.
#[test]
fn no_page_and_no_message_shows_a_secret() {
    let upstream = Upstream::start();
    let device = "device-secret-of-thirty-two-letters!";
    let tables = format!("{LOGIN}\n[device]\nsecret = \"${{DEVICE}}\"\n");
    let launch = Launch::new(&upstream.file(&tables)).environment("DEVICE", device);
    let gate = launch.environment("TOLLGATE_ADMIN__TOKEN", TOKEN).start();
    let mut shown = gate.metrics();
    for path in ["/api/v1/status", "/api/v1/limits", "/api/v1/exemptions", "/api/v1/nothing"] {
        shown += &ask(&gate, "GET", path, "").1.to_string();
    }
    shown += &ask(&gate, "POST", "/api/v1/reload", "").1.to_string();
    gate.write("[device]\nsecret = 2\n[admim]\ntoken = \"hunter2hunter2hunter2\"\n");
    shown += &ask_locally(&gate, "POST", "/api/v1/reload", "").1.to_string();
    let mut check = Command::new(binary());
    check.args(["check", "--format", "json", "-c"]).arg(gate.directory.join("gate.toml"));
    let output = check.env("TOLLGATE_ADMIN__TOKEN", "short").env("DEVICE", device).output().unwrap();
    shown += &String::from_utf8_lossy(&output.stdout);
    shown += &gate.messages();
    assert!(shown.contains("too short for a token"), "{shown}");
    for secret in [TOKEN, device, "hunter2", "\"short\""] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
