//! TLS at the front door and towards upstreams: certificates, sessions, reloads, and what attackers do to a handshake.
//!
//! The gate is the built binary; certificates are made by each test, and whoever connects trusts nobody else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod authority;
mod reloading;
mod requests;
mod serving;
mod upstreams;
