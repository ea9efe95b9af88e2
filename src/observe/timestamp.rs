//! A time as people and programs read it: UTC, RFC 3339, to the millisecond.
//!
//! The access log has formats of its own.

use jiff::Timestamp;

use crate::time::Time;

/// As in `2026-11-21T18:56:45.136Z`.
#[must_use]
pub fn rfc3339(time: Time) -> String {
    // Until 2554, where our time ends, every nanosecond is one that jiff can say.
    let timestamp = Timestamp::from_nanosecond(time.as_nanos().into()).unwrap_or_default();
    timestamp.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
