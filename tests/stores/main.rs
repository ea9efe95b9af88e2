//! What operators and clients see of gates that share a store: two real gates, a real server, and the command line.
//!
//! `tests/conformance` tests the promises of a store to its callers.

#![cfg(all(
    feature = "redis",
    feature = "memcached",
    feature = "postgres",
    feature = "mysql",
    feature = "dynamodb"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, and asks the real clock"
)]

mod account_names;
mod audit;
mod buckets;
mod commands;
mod emptied;
mod examples;
mod fleet;
mod forgotten;
mod layer;
mod on_error;
mod overrides;
mod policy;
mod questions;
mod refusals;
mod signins;
mod together;
mod word_table;
mod words;

use support::{Gate, Launch, Server, binary};

/// `[store]` for this server. Time enough for a machine that is busy with other tests: where a gate decides alone
/// because of it, nothing is exact any more.
fn table(server: &impl Server) -> String {
    format!("[store]\nurl = \"{}\"\ntimeout = \"5s\"\n", server.url())
}

/// Two gates on one file, which has this store besides.
fn two_gates(server: &impl Server, file: &str) -> [Gate; 2] {
    let file = format!("{file}{}", table(server));
    migrate(&file);
    let gate = || Launch::new(&file).beside("device.keys", "0123456789abcdef0123456789abcdef").start();
    [gate(), gate()]
}

/// Makes the table, where the store has one.
fn migrate(file: &str) {
    let directory = support::new_directory();
    let path = directory.join("config.toml");
    let file = format!("listen = \"http://127.0.0.1:1\"\n{file}");
    std::fs::write(&path, file.replace("{dir}", directory.to_str().unwrap())).unwrap();
    std::fs::write(directory.join("device.keys"), "0123456789abcdef0123456789abcdef").unwrap();
    let mut command = std::process::Command::new(binary());
    command.args(["migrate", "-c"]).arg(&path).env_remove("TOLLGATE_BINARY");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let _ = std::fs::remove_dir_all(&directory);
}
