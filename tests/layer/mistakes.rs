//! A policy that a layer cannot keep makes no layer.

use support::ONE_AN_HOUR;
use tollgate_tower::{LayerError, TollgateLayer};

fn mistake(policy: &str) -> String {
    match TollgateLayer::from_text("policy.toml", policy) {
        Err(error @ LayerError::Policy(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_only_a_gate_can_do_is_told_with_its_line() {
    let policy = format!("listen = \"http://127.0.0.1:8080\"\nadmin.listen = \"unix:/run/a\"\n{ONE_AN_HOUR}");
    let told = mistake(&policy);
    assert!(told.contains("policy.toml:1:1") && told.contains("`listen` is for a gate"), "{told}");
    assert!(told.contains("policy.toml:2:1") && told.contains("`admin` is for a gate"), "{told}");
}

#[test]
fn an_unknown_key_is_told_as_by_a_gate() {
    let told = mistake(&ONE_AN_HOUR.replace("rate", "rte"));
    assert!(told.contains("did you mean `rate`?"), "{told}");
}

#[test]
fn a_missing_file_is_told_with_its_name() {
    let error = TollgateLayer::from_file("/nonexistent/policy.toml").unwrap_err().to_string();
    assert!(error.starts_with("cannot read the policy /nonexistent/policy.toml"), "{error}");
}
