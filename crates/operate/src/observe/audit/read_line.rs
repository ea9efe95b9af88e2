//! One line of an audit log, as its readers have it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LineHash;

/// A line as it was read.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ReadAuditLine {
    /// RFC 3339, in UTC.
    pub time: String,
    /// The name of the machine.
    #[serde(default)]
    pub gate: String,
    /// The name of the token, `uid` with the number of the user, or `gate`.
    #[serde(default)]
    pub who: String,
    /// The address of a caller over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// As in `bucket.reset`.
    #[serde(default)]
    pub what: String,
    /// What it is about.
    #[serde(default)]
    pub target: Option<String>,
    /// The reason; may be empty.
    #[serde(default)]
    pub why: String,
    /// What was in force before it.
    #[serde(default)]
    pub before: Value,
    /// What it put in force.
    #[serde(default)]
    pub after: Value,
    /// Why it was not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The hash of the line that announced it, if this one tells what became of it.
    #[serde(default, skip_serializing)]
    pub of: Option<LineHash>,
}

/// A line is none of an audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no line of an audit log")]
pub struct AuditLineError;

impl ReadAuditLine {
    /// Reads a line without its line feed.
    ///
    /// # Errors
    /// If it is none of an audit log.
    pub fn parse(line: &[u8]) -> Result<Self, AuditLineError> {
        serde_json::from_slice(line).map_err(|_| AuditLineError)
    }
}
