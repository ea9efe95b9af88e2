//! Bounds on everything: bodies and answers that are slow or endless, memory, descriptors, nesting, idle connections.
//!
//! The gate is the built binary, and what is measured of it is what the kernel says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod bodies;
mod bounded_work;
mod crowds;
mod descriptors;
mod endless;
mod gives_way;
mod idle;
mod memory;
mod nested;
mod parsers;
mod places;
mod rest;
mod searches;
mod sites;
mod slow;
