//! Files and protocols for monitoring: a real gate under a real Prometheus, and the official schemas of the others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod grafana;
mod monitored;
#[cfg(feature = "otel")]
mod otel;
mod prometheus;
mod python;
