//! Replays access logs: what a policy would have refused, decided by the engine on the log's own clock.
//!
//! It reads logs and fills a [`ReplayReport`]; files are opened and reports printed by others. Memory does not grow with
//! the log: lines are read in blocks, attempts are held only until their turn, and every table has a bound.
//!
//! [`sites`] counts what the gate's own logs tell of each site, [`evidence`] compares them with what the limits promise; neither
//! decides anything.
//!
//! An access log shows less than the gate sees: no body, few headers. `line` says what a line shows, `judged` which
//! limits can be judged by it.

mod attempt;
mod driver;
pub mod evidence;
mod input;
mod judged;
pub mod line;
mod pipeline;
mod policy_run;
mod report;
mod seen_paths;
pub mod sites;
mod tally;
mod timeline;

pub use self::driver::{ReplaySettings, replay};
pub use self::input::{LogInput, decoded};
pub use self::pipeline::DECISIONS;
pub use self::policy_run::ReplayedPolicy;
pub use self::report::{
    Comparison, CountedClient, DistinctCount, GateDifferences, LimitReport, LogReport, OneSidedRefusals,
    PolicyReport, RateSuggestion, ReplayReport, SeenPath, TimeSeries, UnreadableLine,
};

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A log cannot be read.
    #[error("{name}: {error}")]
    Read {
        /// The name of the log.
        name: String,
        /// The reason.
        error: std::io::Error,
    },
    /// The format cannot be read.
    #[error(transparent)]
    Format(#[from] line::LogPatternError),
    /// There is not a single line.
    #[error("the log is empty: give an access log with at least one line")]
    Empty,
    /// More than half of the lines cannot be read.
    #[error(
        "{unreadable} of {lines} lines cannot be read, the first in line {}: {}: {}\n\
         give an access log in one of these formats: combined, common, JSON (nginx, Caddy, Traefik, tollgate), HAProxy; \
         or say how its lines are written: --format, --nginx, --apache",
        first.line, first.reason, first.text
    )]
    Unreadable {
        /// All lines.
        lines: u64,
        /// The lines that cannot be read.
        unreadable: u64,
        /// The first of them.
        first: Box<UnreadableLine>,
    },
    /// The buckets do not fit into memory.
    #[error("store.capacity: {0}")]
    Capacity(#[from] crate::store::memory::TooLarge),
}
