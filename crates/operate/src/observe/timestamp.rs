//! Formats a time as UTC by RFC 3339, to the millisecond.
//!
//! The access log has other formats.

use jiff::Timestamp;

use crate::time::Time;

/// As in `2026-11-21T18:56:45.136Z`.
#[must_use]
pub fn rfc3339(time: Time) -> String {
    // `Time` ends in 2554, well within jiff's range.
    let timestamp = Timestamp::from_nanosecond(time.as_nanos().into()).unwrap_or_default();
    timestamp.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
