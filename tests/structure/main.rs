//! The tree holds its own rules: layers, names, sizes, and a test for every threat.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod architecture;
mod shape;
#[path = "../support/source.rs"]
mod source;
mod threats;
