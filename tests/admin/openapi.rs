//! The OpenAPI document of the admin API: the file that people get is made of the types that the gate writes.

use std::fs;

use serde_json::Value;
use support::{Launch, Upstream, root};
use tollgate::observe::admin::openapi::document;

use crate::caller::{LOGIN, call};

/// A token of the least role, for some sites alone.
const READER: &str = r#"
tokens = [{ name = "eye", role = "read", token = "read-0123456789abcdef", sites = ["login"] }]
"#;

#[test]
fn the_document_of_the_reference_is_the_one_of_the_types() {
    let path = root().join("docs/reference/admin-api.openapi.json");
    let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is an old one: UPDATE=1 writes it anew", path.display());
}

#[test]
fn a_gate_shows_its_own_document_to_every_token_and_to_nobody_else() {
    let upstream = Upstream::start();
    let gate = Launch::new(&upstream.file(LOGIN)).with_admin(READER).start();
    let token = "Authorization: Bearer read-0123456789abcdef\r\nX-Tollgate-Request: 1\r\n";
    let ask = |method: &str, lines: &str| call(&gate, method, "/api/v1/openapi.json", lines, "");
    let shown = ask("GET", token);
    assert_eq!((shown.status, shown.header("content-type")), (200, Some("application/json")));
    let shown: Value = serde_json::from_str(&shown.text()).unwrap();
    assert_eq!(shown, serde_json::to_value(document()).unwrap());
    assert_eq!(ask("GET", "").status, 401);
    let changed = ask("PUT", token);
    assert_eq!((changed.status, changed.header("allow")), (405, Some("GET, HEAD")));
}
