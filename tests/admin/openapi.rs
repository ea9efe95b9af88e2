//! The OpenAPI document of the admin API: the file that people get is made of the types that the gate writes.

use std::fs;

use support::root;
use tollgate::observe::admin::openapi::document;

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
