//! Buckets in memory: what decisions allocate, threads that race, floods of keys, limits that change meanwhile.

mod allocation;
mod changing_rules;
mod concurrency;
mod flood;
mod footprint;
#[path = "../support/policy.rs"]
mod policy;
mod swap;
