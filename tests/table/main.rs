//! Buckets in memory: threads that race, floods of keys, limits that change meanwhile.

mod changing_rules;
mod concurrency;
mod flood;
mod footprint;
#[path = "../support/policy.rs"]
mod policy;
mod swap;
