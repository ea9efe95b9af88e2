//! One gate as a process of its own: commands, reloads, operators, snapshots, sandbox, bodies and targets.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

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
mod holding;
mod included;
mod languages;
mod origins;
mod pages;
mod proxy;
mod reload;
mod sandbox;
mod set_up;
mod snapshot;
mod strict_reader;
mod tiers;
mod traces_gate;
mod typed;
mod wiring;
mod without_ipv6;
