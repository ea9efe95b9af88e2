//! HTTP/2 from clients: the same policy, and what attackers do with streams.
//!
//! Clients are the `h2` crate where they behave, and bytes by hand where they do not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod attacks;
mod serving;
mod translation;
