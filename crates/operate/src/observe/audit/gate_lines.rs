//! Lines about the gate itself: when it began and ended, how many lines of the decision log it has written, and when its
//! store was away.
//!
//! `tollgate evidence` compares the numbers with the log: a line that is not there any more was removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::AuditEntry;
use super::chain::ROTATED;
use crate::observe::timestamp::rfc3339;
use crate::time::{Span, Time};

impl AuditEntry {
    /// A line of the gate itself. `process` is its id: processes of several gates may have the same one.
    #[must_use]
    pub fn of_gate(what: &'static str, process: u32, after: Value) -> Self {
        let target = Some(format!("process {process}"));
        Self { who: GATE.to_owned(), what, target, after, ..Self::default() }
    }

    /// The lines of the decision log that were written since the line before, by the hour in which their requests
    /// arrived, and those that were lost since the process began.
    #[must_use]
    pub fn of_lines(what: &'static str, process: u32, (written, lost): (&BTreeMap<u64, u64>, u64)) -> Self {
        let hours = written.iter().map(|(&hour, &lines)| (hour_text(hour), lines.into()));
        let hours: Map<String, Value> = hours.collect();
        Self::of_gate(what, process, json!({ "lines": hours, "lost": lost }))
    }
}

/// As in `2026-11-29T15`, in UTC.
#[must_use]
pub fn hour_text(hour: u64) -> String {
    let begin = Time::default().after(Span::from_secs(hour.saturating_mul(3600)));
    rfc3339(begin).split(':').next().unwrap_or_default().to_owned()
}

/// Whether this is what a line of the gate itself says.
#[must_use]
pub fn is_of_gate(what: &str) -> bool {
    matches!(what, BEGUN | SERVES | ENDED | STORE_LOST | STORE_BACK | ROTATED)
}

/// The gate that writes them.
const GATE: &str = "gate";
/// The gate begins to serve.
pub const BEGUN: &str = "gate.begin";
/// It still serves; with the lines since the last one.
pub const SERVES: &str = "gate.lines";
/// It has ended, and every line was written.
pub const ENDED: &str = "gate.end";
/// Names of DNS stand for something else.
pub const NAMES: &str = "names";
/// A signal ends the gate.
pub const STOP: &str = "stop";
/// A shared store is not available.
pub const STORE_LOST: &str = "store.lost";
/// It is available again.
pub const STORE_BACK: &str = "store.back";
