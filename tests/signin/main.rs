//! Sign-ins through the running gate: what counts as one, what came of it, whose account it was about, and what nobody
//! learns from it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "these are tests"
)]

mod accounts;
mod application;
mod attacks;
mod bodies;
mod devices;
mod growing;
mod nameless;
mod outcomes;
mod privacy;
mod refusals;
mod settling;
#[path = "../support/mod.rs"]
mod support;
