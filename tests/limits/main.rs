//! Limits at a running gate: their rates, holds, candidates and bounds on attempts in flight, and what refused clients get.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests, and ask the real clock")]

mod bytes;
mod candidates;
mod challenge;
mod cors;
mod hashing;
mod holding;
mod languages;
mod names;
mod origins;
mod pages;
mod pauses;
mod rates;
mod refusals;
mod repetitions;
mod tiers;
mod traces;
