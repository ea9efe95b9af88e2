//! One gate as a process of its own: commands, reloads, operators, snapshots, sandbox, bodies and targets.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

#[path = "../signin/application.rs"]
#[allow(dead_code, reason = "signin uses the rest")]
mod application;
mod attack_mode;
mod batches;
mod buckets;
mod candidates;
mod challenge;
mod clients;
mod commands;
mod control;
mod cors;
mod device;
#[path = "../simulation/dice.rs"]
#[allow(dead_code, reason = "simulation uses the rest")]
mod dice;
mod evict_flush;
mod gunicorn_corpus;
mod holding;
mod included;
mod languages;
mod origins;
mod pages;
mod proxy;
mod questions;
mod reload;
mod sandbox;
mod set_up;
mod snapshot;
mod strict_reader;
#[path = "../support/mod.rs"]
mod support;
mod tiers;
mod traces_gate;
mod typed;
mod wiring;
