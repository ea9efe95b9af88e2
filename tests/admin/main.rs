//! What operators see of a running gate and do to it, over TCP, TLS, Unix sockets and the command line: who may ask, status and
//! warnings, clients, single buckets, exemptions and modes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "these are tests, and ask the real clock"
)]

mod access;
mod audit;
mod buckets;
mod caller;
mod clients;
mod conditions;
mod control;
mod dry_run;
mod events;
mod openapi;
mod roles;
mod rules;
mod secrets;
mod top;
mod wiring;
