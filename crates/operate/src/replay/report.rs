//! What a replay found, as plain data: printed as text, as JSON and as a page by others.
//!
//! Times are RFC 3339 in UTC. Shares are between 0 and 1.

use serde::Serialize;

/// The result of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayReport {
    /// What was read.
    pub log: LogReport,
    /// What each policy would have done; the second is the one compared with.
    pub policies: Vec<PolicyReport>,
    /// What only one of two policies refuses.
    pub comparison: Option<Comparison>,
}

/// What was read.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LogReport {
    /// All lines that are not empty.
    pub lines: u64,
    /// Lines that cannot be read.
    pub unreadable: u64,
    /// The first of them.
    pub first_unreadable: Option<UnreadableLine>,
    /// The formats of the lines, by name.
    pub formats: Vec<&'static str>,
    /// Lines that at least one policy counts as an attempt.
    pub attempts: u64,
    /// Attempts that came too late to be judged at their own time: they are judged at that of their predecessor.
    pub late: u64,
    /// The time of the first request.
    pub from: Option<String>,
    /// The time of the last request.
    pub to: Option<String>,
    /// Where most requests with `POST` went, at most ten; empty if a policy counts one as an attempt.
    pub posts: Vec<SeenPath>,
}

/// A path, and how often it was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct SeenPath {
    /// The path, escaped.
    pub path: String,
    /// The requests.
    pub requests: u64,
}

/// A line that cannot be read.
#[derive(Debug, Clone, Serialize)]
pub struct UnreadableLine {
    /// The name of the log.
    pub log: String,
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
    /// Its beginning, escaped.
    pub text: String,
}

/// What one policy would have done.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyReport {
    /// The name of its file.
    pub name: String,
    /// Attempts that a route counts.
    pub attempts: u64,
    /// Attempts that at least one enforcing limit refuses.
    pub refused: u64,
    /// Attempts that the gate refused by a limit that is not judged here; they took no tokens.
    pub refused_elsewhere: u64,
    /// How these decisions differ from those of the gate that wrote the log; `None` for other logs.
    pub gate: Option<GateDifferences>,
    /// What the log does not show.
    pub notes: Vec<String>,
    /// The limits, in the order of the file.
    pub limits: Vec<LimitReport>,
}

/// How a replay's decisions differ from those that the gate took and logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GateDifferences {
    /// Attempts that the gate decided and this policy decides, too.
    pub compared: u64,
    /// Attempts that only the gate refused.
    pub refused_then: u64,
    /// Attempts that only this policy refuses.
    pub refused_now: u64,
    /// Attempts that both refuse, by different limits.
    pub other_limit: u64,
    /// Attempts that the gate did not count as such.
    pub uncounted_then: u64,
}

/// What one limit would have done.
#[derive(Debug, Clone, Serialize)]
pub struct LimitReport {
    /// Its name.
    pub limit: String,
    /// `enforce`, `observe`, `candidate` or `off`.
    pub mode: &'static str,
    /// Why it is not judged; then all numbers are zero.
    pub not_judged: Option<&'static str>,
    /// Attempts that it judged.
    pub attempts: u64,
    /// Attempts of clients that it exempts.
    pub exempt: u64,
    /// Attempts that it refuses, or would refuse if it only observes.
    pub refused: u64,
    /// The clients that it judged.
    pub clients: DistinctCount,
    /// The clients that it refuses at least once.
    pub refused_clients: DistinctCount,
    /// The clients with the most refusals, at most ten.
    pub worst: Vec<CountedClient>,
    /// The time of the first refusal.
    pub first_refusal: Option<String>,
    /// Refused clients that signed in within an hour after a refusal, or by a refused attempt itself, after at most 20
    /// failures since the first refusal.
    pub likely_false_positives: u64,
    /// Those of them with the most refusals, at most ten.
    pub false_positives: Vec<CountedClient>,
    /// Other numbers for the limit.
    pub suggestion: Option<RateSuggestion>,
    /// Attempts and refusals over time.
    pub series: TimeSeries,
}

/// A number of distinct clients.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct DistinctCount {
    /// The number.
    pub count: u64,
    /// Whether it is exact; otherwise it is an estimate by HyperLogLog, with a standard error of 0.8 %.
    pub exact: bool,
}

/// A client and its refusals.
#[derive(Debug, Clone, Serialize)]
pub struct CountedClient {
    /// The client, by the prefix lengths of `[client]`; `-` for a Unix socket.
    pub client: String,
    /// Its refused attempts.
    pub refused: u64,
}

/// A rate and a burst that refuse a chosen share of good clients.
#[derive(Debug, Clone, Serialize)]
pub struct RateSuggestion {
    /// The value of `rate` in the file.
    pub rate: String,
    /// The good clients that the log shows.
    pub good_clients: u64,
    /// How many of them it refuses at least once.
    pub refused_good_clients: u64,
    /// The good clients that the present rate refuses at least once.
    pub refused_by_present: u64,
}

/// Numbers over time, in columns of equal width.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TimeSeries {
    /// The beginning of the first column, in seconds since 1970.
    pub start: u64,
    /// The width of a column, in seconds.
    pub width: u64,
    /// Attempts of each column.
    pub attempts: Vec<u64>,
    /// Refusals of each column.
    pub refused: Vec<u64>,
}

/// What only one of two policies refuses.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Comparison {
    /// Attempts that both refuse.
    pub both: u64,
    /// What only the first refuses.
    pub only_first: OneSidedRefusals,
    /// What only the second refuses.
    pub only_second: OneSidedRefusals,
}

/// Attempts that one of two policies refuses and the other does not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OneSidedRefusals {
    /// The attempts.
    pub attempts: u64,
    /// Their clients.
    pub clients: DistinctCount,
    /// The clients with the most of them, at most ten.
    pub worst: Vec<CountedClient>,
}
