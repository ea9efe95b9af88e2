//! Listeners to events: metrics, logs and the pages that show them.
//!
//! Nothing here decides anything or holds up a request. A new consumer of events is a new listener; the request path
//! stays as it is.

pub mod access_log;
pub mod admin;
mod attempt_fields;
pub mod audit;
pub mod client_format;
mod decision_line;
pub mod decision_log;
mod escape;
pub mod event_feed;
pub mod heavy_hitters;
pub mod history;
mod json_fields;
pub mod line_log;
mod log_throttle;
pub mod messages;
pub mod metrics;
#[cfg(feature = "otel")]
pub mod otel;
pub mod readiness;
pub mod refusal_summary;
pub mod reports;
#[cfg(test)]
mod samples;
pub mod settings;
mod shards;
pub mod timestamp;
pub mod traces;
pub mod webhook;
pub mod wiring;
