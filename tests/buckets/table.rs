//! Buckets in memory: threads that race, floods of keys, limits that change meanwhile.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod changing_rules;
mod concurrency;
mod flood;
mod footprint;
mod swap;
