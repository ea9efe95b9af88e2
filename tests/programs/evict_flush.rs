//! Two attackers, run against the gate as programs of their own: one flushes a drained bucket out of the table by
//! a flood of other clients, one hammers a single bucket from many connections and checks every window.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use support::{Gate, Upstream, installed, root};

/// E4: a flood of other clients, each with most of its tokens left, does not make the gate forget a drained one.
#[test]
fn a_drained_bucket_survives_a_flood_of_other_clients() {
    let upstream = Upstream::start();
    let tables = "[client]\ntrust = \"127.0.0.1\"\n[route.login]\nmatch = \"POST /login\"\n\
                  [limit.address]\nrate = \"10 per 1h\"\n[store]\ncapacity = 1000\n";
    let gate = Gate::start(&upstream.file(tables));
    attack("evict_flush.py", &["--target", &gate.address.to_string(), "--others", "20000"]);
}

/// E1: no window of a run admits more than the bucket promises.
#[test]
fn no_window_admits_more_than_burst_and_refill() {
    let upstream = Upstream::start();
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"5 per 1s burst 10\"\n";
    let gate = Gate::start(&upstream.file(tables));
    let address = gate.address.to_string();
    let seconds = ["--clients", "24", "--seconds", "4"];
    attack(
        "overadmit.py",
        &[&["--targets", &address, "--capacity", "10", "--rate", "5"][..], &seconds].concat(),
    );
}

fn attack(tool: &str, arguments: &[&str]) {
    let script = root().join("tests/tools").join(tool);
    let output = installed("python3", "python3").arg(script).args(arguments).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
}
