//! Listeners to events: metrics, logs and the pages that show them.
//!
//! Nothing here decides anything or holds up a request. A new consumer of events is a new listener; the request path
//! stays as it is.

pub mod access_log;
pub mod admin;
pub mod client_format;
mod log_throttle;
pub mod messages;
pub mod metrics;
pub mod readiness;
#[cfg(test)]
mod samples;
pub mod settings;
mod shards;
pub mod timestamp;
