//! Several gates on one store: their common promises, shown by real gates and real databases under load.
//!
//! The suite of single promises is `tests/conformance/`. The tests count the attempts that reach the application, not a
//! gate's own figures. The short runs are ordinary tests; the long ones, whose figures stand in
//! `benches/STORES.md`, are ignored and run by `scripts/soak`, with the gate that `TOLLGATE_BINARY` names.

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
    clippy::print_stderr,
    reason = "a test that cannot go on says so, asks the real clock and prints what it measured"
)]

mod clocks;
mod contention;
mod delay;
mod exact;
mod failovers;
mod faults;
mod fleet;
mod hot_key;
pub(crate) mod load;
mod policy;
mod relay;
mod several_limits;
mod throughput;
mod twelve;
