//! What the logs tell of sites, as plain data: printed as text, as JSON and as a page by others.

use serde::Serialize;

use crate::replay::report::{CountedClient, DistinctCount, TimeSeries, UnreadableLine};

/// The result.
#[derive(Debug, Clone, Serialize)]
pub struct SitesReport {
    /// What was read.
    pub log: SiteLogReport,
    /// The sites in the order of the configuration; each host of a template is one.
    pub sites: Vec<SiteReport>,
}

/// What was read. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SiteLogReport {
    /// All lines that are not empty.
    pub lines: u64,
    /// Lines that cannot be read.
    pub unreadable: u64,
    /// The first of them.
    pub first_unreadable: Option<UnreadableLine>,
    /// Whether there are lines of a decision log. Only they know owners.
    pub has_decisions: bool,
    /// Whether there are lines of an access log. Only they tell the hosts of a template apart.
    pub has_requests: bool,
    /// From when on attempts count.
    pub since: String,
    /// The time of the first line since then.
    pub from: Option<String>,
    /// The time of the last line.
    pub to: Option<String>,
    /// Attempts at routes that the configuration does not have.
    pub unknown_attempts: u64,
    /// The first ten of these routes, by name.
    pub unknown_routes: Vec<String>,
}

/// What came of the attempts at one site.
#[derive(Debug, Clone, Serialize)]
pub struct SiteReport {
    /// Its name, as in `tollgate site list`.
    pub site: String,
    /// Its hosts; none means any, or those of a template that the log does not tell apart.
    pub hosts: Vec<String>,
    /// Requests that a route of the site counts.
    pub attempts: u64,
    /// Those that a limit refused.
    pub refused: u64,
    /// Those that were admitted, and that a limit which observes would have refused.
    pub would_refuse: u64,
    /// Those with the right password, by the rules of their route.
    pub signed_in: u64,
    /// Admitted ones that failed.
    pub failed: u64,
    /// Sign-ins of a known owner while strangers were refused: at that account within the hour before, or because the route
    /// was in attack mode. `None` if the log does not know owners.
    pub owners_helped: Option<u64>,
    /// The clients that were refused at least once.
    pub refused_clients: DistinctCount,
    /// Refused clients that signed in within an hour, after at most 20 failures since the first refusal.
    pub likely_false_positives: u64,
    /// The clients with the most refusals, at most ten.
    pub worst: Vec<CountedClient>,
    /// The limits that refused, the one with the most refusals first.
    pub limits: Vec<CountedLimit>,
    /// Attempts and refusals over time.
    pub series: TimeSeries,
}

/// A limit and the attempts that it refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CountedLimit {
    /// Its name.
    pub limit: String,
    /// The attempts.
    pub refused: u64,
}
