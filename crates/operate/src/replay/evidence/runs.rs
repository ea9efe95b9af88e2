//! When gates served, by the lines in which they say so, and when none did.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observe::timestamp::rfc3339;
use crate::time::{Span, Time};

/// The time of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRun {
    /// The name of its machine.
    pub gate: String,
    /// When it began, or was first heard of.
    pub from: Time,
    /// Whether a line tells of its begin: audit logs may be kept for a shorter time than it serves.
    pub is_begun: bool,
    /// When it was last heard of.
    pub until: Time,
    /// Whether it said that it ends.
    pub is_ended: bool,
    /// When another process began on its machine, if this one was not heard of since: one that hands over says so later.
    pub followed_at: Option<Time>,
}

/// A time in which no gate served, or none that said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServingGap {
    /// RFC 3339, in UTC.
    pub from: String,
    /// The same.
    pub until: String,
    /// Whether the gate before it said that it ends: else it may have served for up to an hour of this time.
    pub announced: bool,
}

/// A process that did not say that it ends, and serves no more: or, for as long as it drains, one that has just handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnannouncedEnd {
    /// The name of its machine.
    pub gate: String,
    /// When it was last heard of: RFC 3339, in UTC. It may have served for up to an hour more.
    pub heard: String,
    /// When the next process began on its machine; `None` if none did.
    pub followed: Option<String>,
}

impl GateRun {
    fn new(gate: &str, at: Time, is_begun: bool) -> Self {
        Self { gate: gate.to_owned(), from: at, is_begun, until: at, is_ended: false, followed_at: None }
    }

    /// Whether it may serve. One that is silent for less than two of its intervals may still be there.
    fn is_there(&self, now: Time) -> bool {
        !self.is_ended && self.followed_at.is_none() && now.since(self.until) <= SILENCE
    }

    /// Another process begins on its machine. Several audit logs are read one after the other, so it may be heard later.
    fn mark_followed(&mut self, at: Time) {
        if self.followed_at.is_none() && at >= self.until {
            self.followed_at = Some(at);
        }
    }
}

/// The runs so far, by machine and process.
#[derive(Debug, Default)]
pub(super) struct GateRuns {
    open: BTreeMap<(String, String), GateRun>,
    closed: Vec<GateRun>,
}

impl GateRuns {
    /// A process begins. Returns whether all that were before it on its machine said that they end, or are still there.
    pub(super) fn begin(&mut self, gate: &str, process: &str, at: Time) -> bool {
        let own = (gate.to_owned(), process.to_owned());
        let before = self.open.iter_mut().filter(|((machine, _), _)| machine == gate);
        before.for_each(|(_, run)| run.mark_followed(at));
        // A process of the same id has gone, and so has one that was not heard of for too long.
        let gone = |(key, run): (&(String, String), &GateRun)| {
            *key == own || (key.0 == gate && at.since(run.until) > SILENCE)
        };
        let gone: Vec<_> = self.open.iter().filter(|open| gone(*open)).map(|(key, _)| key.clone()).collect();
        self.closed.extend(gone.iter().filter_map(|key| self.open.remove(key)));
        self.forget_oldest();
        // One that is still open has crashed, unless it hands over to this one.
        let is_alone = !self.open.keys().any(|(machine, _)| machine == gate);
        self.open.insert(own, GateRun::new(gate, at, true));
        is_alone && gone.is_empty()
    }

    /// A process says that it serves, or that it has ended.
    pub(super) fn serves(&mut self, gate: &str, process: &str, at: Time, is_end: bool) {
        let key = (gate.to_owned(), process.to_owned());
        let run = self.open.entry(key.clone()).or_insert_with(|| GateRun::new(gate, at, false));
        (run.until, run.is_ended) = (run.until.max(at), is_end);
        run.followed_at = run.followed_at.filter(|followed| at < *followed);
        if is_end {
            self.closed.extend(self.open.remove(&key));
            self.forget_oldest();
        }
    }

    /// A gate that begins again and again: the newest runs weigh more.
    fn forget_oldest(&mut self) {
        if self.closed.len() >= MAX_RUNS {
            self.closed.drain(..MAX_RUNS / 2);
        }
    }

    pub(super) fn finish(self) -> Vec<GateRun> {
        let mut all: Vec<GateRun> = self.closed.into_iter().chain(self.open.into_values()).collect();
        all.sort_by_key(|run| run.from);
        all
    }
}

/// The times between `since` and `now` in which no gate served. What was before the first run is unknown, and no gap.
#[must_use]
pub fn gaps(runs: &[GateRun], since: Time, now: Time) -> Vec<ServingGap> {
    let Some(first) = runs.first() else { return Vec::new() };
    let (mut until, mut heard, mut is_announced) = (since.max(first.from), first.from, true);
    let mut found = Vec::new();
    let mut gap = |from: Time, to: Time, announced| {
        if to.since(from) > Span::ZERO {
            found.push(ServingGap { from: rfc3339(from), until: rfc3339(to), announced });
        }
    };
    for run in runs {
        if run.from > until {
            gap(until, run.from, is_announced);
        }
        let is_there = run.is_there(now);
        let end = if is_there { now } else { run.until };
        if end >= heard {
            (until, heard, is_announced) = (until.max(end), end, run.is_ended || is_there);
        }
    }
    gap(until, now.max(until), is_announced);
    found
}

/// The processes that ended since then and did not say so, whether another one followed at once, served at that time, or never
/// came.
#[must_use]
pub fn unannounced_ends(runs: &[GateRun], since: Time, now: Time) -> Vec<UnannouncedEnd> {
    let is_meant = |run: &&GateRun| {
        let ended = run.followed_at.unwrap_or_else(|| run.until.after(SILENCE));
        !run.is_ended && !run.is_there(now) && ended >= since
    };
    let shown = |run: &GateRun| UnannouncedEnd {
        gate: run.gate.clone(),
        heard: rfc3339(run.until),
        followed: run.followed_at.map(rfc3339),
    };
    runs.iter().filter(is_meant).map(shown).collect()
}

/// Gates say every hour that they serve.
const SILENCE: Span = Span::from_secs(2 * 3600);
/// Processes that are remembered.
const MAX_RUNS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn at(hours: u64) -> Time {
        Time::from_nanos(hours * HOUR * 1_000_000_000)
    }

    fn found(runs: GateRuns, since: u64, now: u64) -> Vec<(u64, u64, bool)> {
        let hour = |text: &str| text[11..13].parse().unwrap();
        let gaps = gaps(&runs.finish(), at(since), at(now)).into_iter();
        gaps.map(|gap| (hour(&gap.from), hour(&gap.until), gap.announced)).collect()
    }

    #[test]
    fn a_gate_that_crashed_before_the_report_begins_announced_nothing() {
        let mut runs = GateRuns::default();
        runs.begin("one", "process 1", at(1));
        runs.serves("one", "process 1", at(2), false);
        runs.begin("one", "process 2", at(9));
        runs.serves("one", "process 2", at(10), true);
        assert_eq!(found(runs, 5, 10), [(5, 9, false)]);
        let mut runs = GateRuns::default();
        runs.begin("one", "process 1", at(1));
        runs.begin("one", "process 2", at(9));
        assert_eq!(found(runs, 0, 10), [(1, 9, false)], "before it said once that it serves");
    }

    #[test]
    fn a_time_without_a_gate_is_found_whether_it_said_so_or_not() {
        let mut runs = GateRuns::default();
        assert!(runs.begin("one", "process 1", at(1)));
        runs.serves("one", "process 1", at(3), true);
        assert!(runs.begin("one", "process 2", at(5)));
        runs.serves("one", "process 2", at(6), false);
        assert!(!runs.begin("one", "process 3", at(10)), "the one before said nothing");
        runs.serves("one", "process 3", at(11), false);
        assert_eq!(found(runs, 0, 12), [(3, 5, true), (6, 10, false)]);
    }

    #[test]
    fn a_begin_without_the_end_before_it_is_an_end_that_nobody_announced() {
        let ends = |runs: GateRuns, since: u64| {
            let ends = unannounced_ends(&runs.finish(), at(since), at(12)).into_iter();
            ends.map(|end| (end.gate, end.heard, end.followed)).collect::<Vec<_>>()
        };
        let crashed = |process: &str| {
            let mut runs = GateRuns::default();
            runs.begin("one", "process 1", at(9));
            runs.serves("one", "process 1", at(10), false);
            assert!(!runs.begin("one", process, at(11)), "{process}");
            runs.serves("one", process, at(12), true);
            runs
        };
        let expected = [("one".to_owned(), rfc3339(at(10)), Some(rfc3339(at(11))))];
        // In a container every process has the same id.
        for process in ["process 2", "process 1"] {
            assert_eq!(found(crashed(process), 0, 12), [(10, 11, false)], "{process}");
            assert_eq!(ends(crashed(process), 0), expected, "{process}");
            assert_eq!(ends(crashed(process), 12), [], "{process}: before that time");
        }
        // Beside another machine, which served meanwhile.
        let mut runs = crashed("process 2");
        runs.begin("two", "process 7", at(8));
        runs.serves("two", "process 7", at(12), false);
        assert_eq!(ends(runs, 0), expected);
        let mut runs = crashed("process 2");
        runs.begin("two", "process 7", at(8));
        runs.serves("two", "process 7", at(12), false);
        assert_eq!(found(runs, 0, 12), []);
    }

    #[test]
    fn a_process_that_is_heard_of_after_the_next_begin_has_not_ended() {
        let mut runs = GateRuns::default();
        runs.begin("one", "process 1", at(9));
        runs.begin("one", "process 2", at(10));
        runs.serves("one", "process 1", at(11), false);
        runs.serves("one", "process 2", at(11), false);
        assert_eq!(unannounced_ends(&runs.finish(), at(0), at(12)), []);
    }

    #[test]
    fn a_gate_whose_begin_is_not_kept_serves_from_its_first_line() {
        let mut runs = GateRuns::default();
        runs.serves("one", "process 1", at(3), false);
        runs.serves("one", "process 1", at(5), true);
        assert!(runs.begin("one", "process 2", at(8)));
        assert_eq!(found(runs, 0, 9), [(5, 8, true)]);
    }

    #[test]
    fn an_upgrade_is_no_gap_and_a_gate_that_fell_silent_is_one() {
        let mut runs = GateRuns::default();
        runs.begin("one", "process 1", at(1));
        runs.serves("one", "process 1", at(4), false);
        runs.begin("one", "process 2", at(5));
        runs.serves("one", "process 1", at(5), true);
        runs.serves("one", "process 2", at(7), false);
        assert_eq!(found(runs, 2, 12), [(7, 12, false)]);
        assert_eq!(found(GateRuns::default(), 0, 12), []);
    }
}
