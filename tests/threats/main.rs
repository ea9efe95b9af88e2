//! The threats of the table, each at a gate on real sockets.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod accounts;
mod answers;
mod attempts;
mod client;
mod framing;
mod identity;
mod leaks;
mod lifecycle;
mod panic;
mod paths;
mod resources;
mod routes;
mod sandbox;
mod smuggling;
mod state;
