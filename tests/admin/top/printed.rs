//! Without a terminal: one overview for scripts.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::top::recorded_gate::RecordedGate;
use support::{Gate, ONE_AN_HOUR, Upstream, binary, new_directory};

fn top(socket: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(binary()).arg("top").arg("--socket").arg(socket).args(words).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn one_overview_is_printed_where_the_output_is_no_terminal() {
    let gate = RecordedGate::start();
    let (code, out, error) = top(&gate.socket, &[]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/top/printed.txt");
    assert_eq!(out, std::fs::read_to_string(kept).unwrap());
    assert_eq!(gate.asked().len(), 4, "{:?}", gate.asked());
}

#[test]
fn order_limit_and_time_can_be_given_as_words() {
    let gate = RecordedGate::start();
    let (code, out, _) =
        top(&gate.socket, &["--once", "--sort", "attempts", "--limit", "address", "--minutes", "60"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("most attempts, 60 min limit address"), "{out}");
    assert!(gate.is_asked("GET /api/v1/clients?by=attempts&n=200&minutes=60&limit=address"));
    for wrong in [["--every", "61s"], ["--minutes", "5"], ["--sort", "name"]] {
        assert_eq!(top(&gate.socket, &wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn json_has_all_pages_as_the_gate_gave_them() {
    let gate = RecordedGate::start();
    let (code, out, _) = top(&gate.socket, &["--format", "json"]);
    let pages: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &pages["status"]["pid"], &pages["history"]["seconds"]),
        (Some(0), &4242.into(), &5.into())
    );
    assert_eq!(pages["clients"]["clients"].as_array().unwrap().len(), 7);
    assert_eq!(pages["limits"]["limits"].as_array().unwrap().len(), 4);
}

#[test]
fn without_a_gate_there_is_an_error_and_no_screen() {
    let (code, out, error) = top(&new_directory().join("none.sock"), &[]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(error.contains("cannot connect") && error.contains("is the gate running"), "{error}");
}

/// What the gate does not offer is named, and the rest is shown.
#[test]
fn a_real_gate_is_printed_with_those_who_are_refused() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let (code, out, error) = top(&gate.admin_socket(), &[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("running") && out.contains("store memory up"), "{out}");
    let pages: Value = serde_json::from_str(&top(&gate.admin_socket(), &["--format", "json"]).1).unwrap();
    for (page, words) in [("limits", "address"), ("clients", "127.0.0.1")] {
        match pages[page]["error"].as_str() {
            Some(error) => assert_eq!(error, "this gate does not offer it"),
            None => assert!(out.contains(words), "{words} in {out}"),
        }
    }
}
