//! The tree holds its own rules: layers, names, sizes, documents, and a test for every threat.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod architecture;
mod bounds;
mod documents;
mod request_way;
mod shape;
mod source;
mod threats;
