//! One gate as a process of its own: commands, reloads, operators, snapshots, sandbox, bodies and targets.

#[path = "../signin/application.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "these are tests, and signin uses the rest")]
mod application;
mod batches;
mod buckets;
mod commands;
mod control;
mod device;
#[path = "../simulation/dice.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "these are tests, and simulation uses the rest")]
mod dice;
mod evict_flush;
mod gunicorn_corpus;
mod holding;
mod origins;
mod proxy;
mod questions;
mod reload;
mod sandbox;
mod snapshot;
mod strict_reader;
#[path = "../support/mod.rs"]
mod support;
mod traces_gate;
