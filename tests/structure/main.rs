//! The tree holds its own rules: layers, names, sizes, and a test for every threat.

mod architecture;
mod shape;
#[path = "../support/source.rs"]
mod source;
mod threats;
