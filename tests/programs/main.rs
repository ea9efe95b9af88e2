//! Programs of others beside the gate: clients, authorities, supervisors, readers of logs and metrics, scripts.
//!
//! Each has to be installed: a test whose program is missing fails, and says which package brings it. `scripts/test all`
//! installs them. Databases are in `tests/stores` and `tests/conformance`, proxies and applications in `tests/fronts`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, prints what it saw, and asks the real clock"
)]

mod access_log_readers;
mod acme;
mod apache_bench;
mod client_certificates;
mod decision_schemas;
mod dns;
mod evict_flush;
mod fingerprints;
mod gunicorn_corpus;
mod log_readers;
mod man_pages;
mod monitoring;
mod nftables;
mod openapi;
mod openssl;
mod pebble;
mod readers;
mod reference;
mod schema;
mod signed_monitors;
mod systemd;
