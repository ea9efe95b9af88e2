//! What OCSF and ECS have in common: what came of the attempt, ids of events, and our own fields that they have none for.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::super::attempt_fields::{facts, of_decision};
use super::super::json_fields::{fields, key, moment, number, put};
use crate::event::{AccessLogEntry, AttemptRecord, LimitRecord};
use crate::policy::outcome::Outcome;

/// What came of an attempt as a whole: the same in the lines of all its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptStatus {
    /// Nobody can tell, or not yet.
    Unknown,
    /// It signed in.
    Success,
    /// It was refused, or failed.
    Failure,
}

impl AttemptStatus {
    pub(super) fn of(attempt: &AttemptRecord) -> Self {
        if attempt.refused_by().is_some() {
            return Self::Failure;
        }
        match attempt.settled.map(|end| end.outcome) {
            Some(Outcome::Success) => Self::Success,
            Some(Outcome::Failure | Outcome::Error) => Self::Failure,
            Some(Outcome::Neutral) | None => Self::Unknown,
        }
    }
}

/// Ids of events. They do not depend on the id of the request: a client may choose that one, and repeat it.
#[derive(Debug)]
pub(super) struct EventIds {
    process: u64,
    next: AtomicU64,
}

impl EventIds {
    /// Ids that differ from those of other processes.
    pub(super) fn new() -> Self {
        // The standard library seeds each `RandomState` from the operating system's randomness.
        Self { process: RandomState::new().hash_one(0_u8), next: AtomicU64::new(0) }
    }

    /// Appends the next one, 32 hexadecimal digits.
    pub(super) fn write(&self, line: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        drop(write!(line, "{:016x}{:016x}", self.process, self.next.fetch_add(1, Relaxed)));
    }
}

/// Appends an object with all fields of the gate's own form but time, client, account and request id.
pub(super) fn own_fields(
    line: &mut Vec<u8>,
    name: &'static str,
    entry: &AccessLogEntry,
    attempt: &AttemptRecord,
    record: &LimitRecord,
) {
    key(line, name);
    put(line, &["{\"nanoseconds\":"]);
    number(line, entry.at.as_nanos() % 1_000_000_000);
    fields(line, &of_decision(attempt, record));
    fields(line, &facts(attempt, record));
    moment(line, "decided_us", entry.at, Some(attempt.decided));
    moment(line, "settled_us", entry.at, attempt.settled_at());
    line.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::AttemptEnd;
    use crate::observe::samples::{AT, attempt};

    #[test]
    fn a_refused_attempt_failed_for_all_its_limits_and_an_unsettled_one_is_unknown() {
        let refused = attempt();
        assert_eq!(AttemptStatus::of(&refused), AttemptStatus::Failure);
        let mut admitted = refused;
        admitted.limits.remove(0);
        assert_eq!(AttemptStatus::of(&admitted), AttemptStatus::Unknown);
        for (outcome, status) in [
            (Outcome::Success, AttemptStatus::Success),
            (Outcome::Failure, AttemptStatus::Failure),
            (Outcome::Error, AttemptStatus::Failure),
            (Outcome::Neutral, AttemptStatus::Unknown),
        ] {
            admitted.settled = Some(AttemptEnd { outcome, at: AT });
            assert_eq!(AttemptStatus::of(&admitted), status, "{outcome:?}");
        }
    }

    #[test]
    fn no_two_events_have_the_same_id() {
        let (one, other) = (EventIds::new(), EventIds::new());
        let id = |ids: &EventIds| {
            let mut text = Vec::new();
            ids.write(&mut text);
            text
        };
        let ids = [id(&one), id(&one), id(&other)];
        assert!(ids.iter().all(|id| id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit)));
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
    }
}
