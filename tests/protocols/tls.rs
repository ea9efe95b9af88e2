//! TLS towards clients and upstreams: certificates, sessions, reloads, and attacks on a handshake.
//!
//! The gate is the built binary; each test makes its certificates, and its clients trust no others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod attacks;
mod reloading;
mod requests;
mod serving;
mod upstream_host;
mod upstreams;
