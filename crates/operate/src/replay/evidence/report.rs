//! What decision logs show, as plain data: printed as JSON and as a page by others.

use serde::Serialize;

use crate::replay::report::UnreadableLine;
use crate::time::Time;

/// What decision logs show.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DecisionEvidence {
    /// All lines that are not empty.
    pub lines: u64,
    /// Lines that cannot be read.
    pub unreadable: u64,
    /// The first of them.
    pub first_unreadable: Option<UnreadableLine>,
    /// The time of the first line that counts, RFC 3339 in UTC.
    pub from: Option<String>,
    /// The time of the last one.
    pub to: Option<String>,
    /// Attempts that came after others that were decided more than two minutes later: windows leave them out.
    pub late: u64,
    /// All attempts.
    pub attempts: AttemptFigures,
    /// Attempts at routes that the configuration does not have.
    pub at_unknown_routes: u64,
    /// Attempts by route, in the order of the file.
    pub routes: Vec<RouteFigures>,
    /// Decisions by limit, in the order of the file.
    pub limits: Vec<LimitFigures>,
    /// The accounts.
    pub accounts: AccountFigures,
    /// Lines by the hour of their requests, counted from 1970, whether they count or not.
    #[serde(skip)]
    pub hours: std::collections::BTreeMap<u64, u64>,
}

/// What came of attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AttemptFigures {
    /// All of them.
    pub all: u64,
    /// Those that reached the application.
    pub admitted: u64,
    /// Those that a limit refused.
    pub refused: u64,
    /// Admitted ones that a limit which does not enforce would have refused.
    pub would_refuse: u64,
    /// Admitted ones that a limit exempts.
    pub exempt: u64,
    /// Admitted ones with the right password.
    pub signed_in: u64,
    /// Admitted ones that failed.
    pub failed: u64,
    /// Admitted ones of which neither is known.
    pub unknown: u64,
}

/// The attempts at one route.
#[derive(Debug, Clone, Serialize)]
pub struct RouteFigures {
    /// Its name.
    pub route: String,
    /// What came of them.
    #[serde(flatten)]
    pub attempts: AttemptFigures,
}

/// What one limit decided.
#[derive(Debug, Clone, Serialize)]
pub struct LimitFigures {
    /// Its name.
    pub limit: String,
    /// The bucket had the tokens.
    pub admitted: u64,
    /// The limit refused.
    pub refused: u64,
    /// The bucket did not have the tokens, and nothing was refused.
    pub observed: u64,
    /// The client is exempt.
    pub exempt: u64,
    /// What it promises, and what was counted; `None` if a decision log does not show it.
    pub promise: Option<PromiseFigures>,
    /// Why not.
    pub not_shown: Option<&'static str>,
}

/// A promise, and the greatest number that reached one account or client.
#[derive(Debug, Clone, Serialize)]
pub struct PromiseFigures {
    /// What is counted: `attempts` or `failures`.
    pub counts: &'static str,
    /// Seconds of a window.
    pub window: f64,
    /// At most this many in any window.
    pub most: u64,
    /// The greatest number that one account or client had in any window.
    pub greatest: u64,
    /// The last of them.
    pub greatest_at: Option<ShownLine>,
    /// The first line over the promise.
    pub broken_at: Option<ShownLine>,
    /// Lines over the promise before the configuration was last changed: another one may have allowed them.
    pub over_before: u64,
    /// Attempts that were not followed: too many accounts or clients were at work, or an operator had given the bucket an own
    /// rate or an exemption.
    pub left_out: u64,
}

/// Where a line stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownLine {
    /// The name of the log.
    pub log: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// When the attempt was decided, RFC 3339 in UTC.
    pub time: String,
}

/// What reached single accounts.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AccountFigures {
    /// Accounts with a refused or a failed attempt.
    pub attacked: u64,
    /// Whether that is exact; else there were more.
    pub exact: bool,
    /// The most failed attempts at one account without a success between them.
    pub longest_row: u64,
    /// The last of them.
    pub longest_row_at: Option<ShownLine>,
    /// The most of them within half an hour.
    pub most_in_half_an_hour: u64,
    /// The last of them.
    pub most_at: Option<ShownLine>,
}

impl AttemptFigures {
    /// Adds an attempt like this one.
    pub(super) fn add(&mut self, other: Self) {
        self.all += other.all;
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.would_refuse += other.would_refuse;
        self.exempt += other.exempt;
        self.signed_in += other.signed_in;
        self.failed += other.failed;
        self.unknown += other.unknown;
    }
}

impl ShownLine {
    pub(super) fn new(log: &str, line: u64, at: Time) -> Self {
        Self { log: log.to_owned(), line, time: crate::observe::timestamp::rfc3339(at) }
    }
}
