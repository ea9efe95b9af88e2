//! Compares the lines of a decision log with those that the gate has written, by the audit log.
//!
//! Lines are compared by number, for each hour in which requests arrived. So what is removed is missed, also where a tool
//! has replaced a name within a line; but not what was written since the gate last told the number, and not a line that
//! another one replaces.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observe::audit::gate_lines::hour_text;
use crate::observe::line_log::hour_of;
use crate::time::{Span, Time};

/// What the comparison shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineComparison {
    /// Lines that gates have written since the time that counts.
    pub written: u64,
    /// Those of them that the log has.
    pub found: u64,
    /// Lines that are not there any more.
    pub missing: u64,
    /// The hours of the first of them, at most 100.
    pub hours: Vec<MissingLines>,
    /// Lines that are gone because `log.retention` removes them.
    pub expired: u64,
    /// Lines from before all that the log has: rotated away or removed, which nothing tells apart without `log.retention`.
    pub older: u64,
    /// Lines that no gate told of: written since it last did, before a crash, without an audit log, or by others.
    pub untold: u64,
}

/// An hour in which lines are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingLines {
    /// As in `2026-11-29T15`, in UTC.
    pub hour: String,
    /// Lines that gates have written.
    pub written: u64,
    /// Lines that the log has.
    pub found: u64,
}

/// Compares whole hours since `since`. Lines from before `kept_since` may be gone; if it is not known, those from before the
/// first line that is there.
#[must_use]
pub fn compare_lines(
    written: &BTreeMap<u64, u64>,
    found: &BTreeMap<u64, u64>,
    since: Time,
    kept_since: Option<Time>,
) -> LineComparison {
    let first = hour_of(since.after(Span::from_nanos(3_600_000_000_000 - 1)));
    let oldest = found.keys().next().copied();
    let mut shown = LineComparison::default();
    for (&hour, &told) in written.range(first..) {
        let there = found.get(&hour).copied().unwrap_or_default();
        shown.written = shown.written.saturating_add(told);
        shown.found = shown.found.saturating_add(there.min(told));
        let missing = told.saturating_sub(there);
        let is_expired = kept_since.is_some_and(|kept| hour <= hour_of(kept));
        let is_older = kept_since.is_none() && oldest.is_some_and(|oldest| hour <= oldest);
        if is_expired {
            shown.expired = shown.expired.saturating_add(missing);
        } else if is_older {
            shown.older = shown.older.saturating_add(missing);
        } else if missing > 0 {
            shown.missing = shown.missing.saturating_add(missing);
            if shown.hours.len() < MAX_HOURS {
                shown.hours.push(MissingLines { hour: hour_text(hour), written: told, found: there });
            }
        }
    }
    let untold = found
        .range(first..)
        .map(|(hour, &there)| there.saturating_sub(written.get(hour).copied().unwrap_or_default()));
    shown.untold = untold.sum();
    shown
}

/// Hours of a report.
const MAX_HOURS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: u64) -> Time {
        Time::from_nanos(hour * 3_600_000_000_000)
    }

    #[test]
    fn a_missing_line_is_found_in_its_hour_and_an_expired_one_is_none() {
        let written = BTreeMap::from([(9, 1), (10, 5), (12, 7), (13, 4), (20, 3)]);
        let found = BTreeMap::from([(10, 5), (13, 3), (14, 2), (20, 4)]);
        let shown = compare_lines(&written, &found, at(9).after(Span::from_nanos(1)), Some(at(12)));
        assert_eq!((shown.written, shown.found, shown.expired), (19, 11, 7));
        let hour = MissingLines { hour: "1970-01-01T13".to_owned(), written: 4, found: 3 };
        assert_eq!((shown.missing, shown.hours, shown.untold), (1, vec![hour], 3));
    }

    #[test]
    fn what_is_older_than_all_lines_may_have_been_rotated_away() {
        let written = BTreeMap::from([(9, 1), (10, 5), (12, 7)]);
        let of = |found: &[(u64, u64)]| {
            let shown = compare_lines(&written, &found.iter().copied().collect(), at(1), None);
            (shown.older, shown.missing, shown.expired)
        };
        assert_eq!(of(&[(10, 3), (12, 6)]), (3, 1, 0));
        assert_eq!(of(&[]), (0, 13, 0));
    }
}
