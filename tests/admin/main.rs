//! The admin API of whole gates: who may ask, what it answers, and what it changes; over TCP, TLS and Unix sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these are tests, and ask the real clock"
)]

mod access;
mod caller;
mod dry_run;
mod events;
mod openapi;
mod rules;
mod secrets;
mod top;
