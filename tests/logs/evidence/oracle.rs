//! The figures of an evidence by other means: plain sums over all attempts, and each window counted anew.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tollgate::event::LimitDecision;
use tollgate::policy::outcome::Outcome;
use tollgate::time::{Span, Time};

use super::simulated::{SeenAttempt, SimulatedDays};

pub(super) struct Oracle<'s> {
    days: &'s SimulatedDays,
    since: Time,
    attempts: Vec<&'s SeenAttempt>,
}

impl SeenAttempt {
    fn is_refused(&self) -> bool {
        self.verdicts.iter().any(|(_, verdict)| *verdict == LimitDecision::Refuse)
    }

    fn is_failure(&self) -> bool {
        !self.is_refused() && self.outcome == Some(Outcome::Failure)
    }
}

impl<'s> Oracle<'s> {
    pub(super) fn new(days: &'s SimulatedDays, since: Time) -> Self {
        let attempts = days.attempts.iter().filter(|attempt| attempt.at >= since).collect();
        Self { days, since, attempts }
    }

    pub(super) fn attempts(&self) -> Value {
        let count = |is: &dyn Fn(&SeenAttempt) -> bool| self.attempts.iter().filter(|seen| is(seen)).count();
        let (all, refused) = (self.attempts.len(), count(&SeenAttempt::is_refused));
        json!({
            "all": all,
            "admitted": all - refused,
            "refused": refused,
            "would_refuse": 0,
            "exempt": 0,
            "signed_in": count(&|seen| !seen.is_refused() && seen.outcome == Some(Outcome::Success)),
            "failed": count(&SeenAttempt::is_failure),
            "unknown": 0,
        })
    }

    /// Verdicts of a limit: admitted, refused.
    pub(super) fn verdicts(&self, limit: &str) -> (usize, usize) {
        let of = |verdict| {
            let all = self.attempts.iter().flat_map(|attempt| &attempt.verdicts);
            all.filter(|(name, given)| name == limit && *given == verdict).count()
        };
        (of(LimitDecision::Admit), of(LimitDecision::Refuse))
    }

    /// The greatest number of attempts of one address within five minutes.
    pub(super) fn most_of_an_address(&self) -> usize {
        let mut by_address: BTreeMap<[u8; 4], Vec<Time>> = BTreeMap::new();
        for attempt in self.attempts.iter().filter(|attempt| !attempt.is_refused()) {
            by_address.entry(attempt.client).or_default().push(attempt.at);
        }
        by_address.values().map(|times| most_within(times, Span::from_secs(300))).max().unwrap_or(0)
    }

    /// The greatest number of failures of one account within half an hour, and that of failures in a row.
    pub(super) fn most_of_an_account(&self) -> [usize; 2] {
        let most = |rows: Vec<Vec<Time>>| rows.iter().map(|times| most_within(times, HALF_AN_HOUR)).max();
        [self.rows(|_| false), self.rows(is_sign_in)].map(|rows| most(rows).unwrap_or(0))
    }

    /// The longest row of failures of one account.
    pub(super) fn longest_row(&self) -> usize {
        self.rows(is_sign_in).iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn attacked(&self) -> usize {
        let attacked = self.attempts.iter().filter(|seen| seen.is_refused() || seen.is_failure());
        attacked.map(|seen| seen.account).collect::<BTreeSet<_>>().len()
    }

    /// Failures of each account, from one end of a row to the next: what `is_end` says, or a reset.
    fn rows(&self, is_end: impl Fn(&SeenAttempt) -> bool) -> Vec<Vec<Time>> {
        let mut rows = Vec::new();
        let accounts: BTreeSet<u64> = self.attempts.iter().map(|attempt| attempt.account).collect();
        for account in accounts {
            let resets =
                self.days.changes.iter().filter(|change| change.2 == "bucket.reset" && change.3 == account);
            let mut resets = resets.map(|change| change.0).filter(|at| *at >= self.since).peekable();
            let mut row = Vec::new();
            for attempt in self.attempts.iter().filter(|attempt| attempt.account == account) {
                while resets.next_if(|reset| *reset <= attempt.at).is_some() {
                    rows.push(std::mem::take(&mut row));
                }
                if is_end(attempt) {
                    rows.push(std::mem::take(&mut row));
                } else if attempt.is_failure() {
                    row.push(attempt.at);
                }
            }
            rows.push(row);
        }
        rows
    }

    /// Lines of the changes: time, name, what.
    pub(super) fn changes(&self) -> usize {
        self.days.changes.iter().filter(|change| change.0 >= self.since).count()
    }
}

fn is_sign_in(attempt: &SeenAttempt) -> bool {
    attempt.outcome == Some(Outcome::Success)
}

fn most_within(times: &[Time], span: Span) -> usize {
    let within = |end: &Time| times.iter().filter(|time| *time <= end && end.since(**time) <= span).count();
    times.iter().map(within).max().unwrap_or(0)
}

const HALF_AN_HOUR: Span = Span::from_secs(1800);
