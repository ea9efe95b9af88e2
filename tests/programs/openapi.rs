//! The admin API answers as its OpenAPI document says: a validator reads the document, and schemathesis asks a running gate.

use std::process::Command;

use support::{Launch, Upstream, installed, root};

const TOKEN: &str = "0123456789abcdef0123";
const TABLES: &str = r#"
[route.login]
match = "POST /login"
user = "form:username"

[limit.address]
rate = "2 per 1000h"

[limit.account]
key = "user"
rate = "9 per 1000h"
max_failures = 100

[device]
addresses = true
"#;
/// What an answer has to be: described, whatever was asked.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance";

/// `python3 -m MODULE` with the packages of `scripts/fetch-openapi`.
fn module(name: &str) -> Command {
    let tools = root().join("target/tools/openapi");
    assert!(tools.is_dir(), "this test needs {}, which scripts/fetch-openapi brings", tools.display());
    let mut command = installed("python3", "python3");
    command.args(["-m", name]).env("PYTHONPATH", tools);
    command
}

#[test]
fn the_admin_api_answers_as_its_document_says() {
    let document = root().join("docs/reference/admin-api.openapi.json");
    let output = module("openapi_spec_validator").arg(&document).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let upstream = Upstream::start();
    let gate = Launch::new(&upstream.file(TABLES)).environment("TOLLGATE_ADMIN__TOKEN", TOKEN).start();
    let mut command = module("schemathesis.cli");
    command.arg("run").arg(&document).args(["--url", &format!("http://{}/api/v1", gate.admin)]);
    command.args(["-H", &format!("Authorization: Bearer {TOKEN}"), "-H", "X-Tollgate-Request: 1"]);
    // A drain ends the gate.
    command.args(["--exclude-path", "/drain", "--max-examples", "20", "--checks", CHECKS]);
    command.args(["--seed", "1", "--generation-database", "none", "--no-color"]);
    command.env("SCHEMATHESIS_HOOKS", "openapi_hooks").current_dir(root().join("tests/programs"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let passed = said.lines().find(|line| line.contains(" generated, ")).unwrap_or_default();
    assert!(passed.trim_end().ends_with(" passed"), "{said}");
    eprintln!("{}", passed.trim());
}
