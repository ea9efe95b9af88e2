//! Sign-ins through the running gate: what counts as one, its outcome, its account, and what a client must not learn
//! from it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "these are tests"
)]

mod accounts;
mod addresses;
mod attack_mode;
mod attacks;
mod batches;
mod bodies;
mod device_cookies;
mod devices;
mod directory;
mod exposed;
mod forgotten;
mod graphql;
mod growing;
mod guesses;
mod lists;
mod nameless;
mod one_password;
mod outcomes;
mod privacy;
mod refunds;
mod refusals;
mod repeats;
mod second_steps;
mod settling;
mod suspicion;
mod told;
mod troubles;
