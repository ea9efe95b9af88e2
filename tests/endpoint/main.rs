//! Decision endpoints: what other proxies ask, what they are answered, and what applications report afterwards.
//!
//! The gate is the built binary; questions are written here byte by byte, and asked by real proxies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod answers;
mod auth_policy;
mod authorization;
mod calls;
mod envoy;
mod mutants;
mod processing;
mod questions;
mod rate_limit_service;
mod receipts;
mod same;
