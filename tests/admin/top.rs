//! `tollgate top` on a real terminal, against a gate whose answers were recorded and against a real one.

#![allow(
    clippy::unwrap_used,
    clippy::unreachable,
    clippy::disallowed_methods,
    reason = "these are tests, and they ask the real clock"
)]

mod live;
mod picture;
mod printed;
mod recorded_gate;
mod terminal;
