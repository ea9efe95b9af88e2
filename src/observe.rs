//! Listeners to events: metrics, logs and the pages that show them.
//!
//! Nothing here decides anything or holds up a request. Whoever wants to know more adds a listener; the request path
//! does not change.

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
