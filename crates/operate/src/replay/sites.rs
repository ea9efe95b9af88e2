//! What came of the attempts at each site, by the gate's own logs: the decision log, or the access log in JSON.
//!
//! Nothing is decided again. Lines are read and parsed in the same threads as those of a replay; `table` says which site a
//! line is about, and `tally` counts.

mod block;
mod report;
mod table;
mod tally;

use std::collections::BTreeSet;

use self::block::{SiteAttempt, SiteBlock};
pub use self::report::{CountedLimit, SiteLogReport, SiteReport, SitesReport};
pub use self::table::SiteTable;
use self::tally::{RefusedAccounts, SiteTally};
use super::ReplayError;
use super::input::{BlockReader, LineBlock, LogInput};
use super::pipeline;
use super::report::UnreadableLine;
use crate::observe::timestamp::rfc3339;
use crate::time::Time;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum SiteReportError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] ReplayError),
    /// More than half of the lines cannot be read.
    #[error(
        "{unreadable} of {lines} lines cannot be read, the first in line {} of {}: {}: {}\n\
         give decision logs (`log.decisions`), or access logs of `log.style = \"json\"`",
        first.line, first.log, first.reason, first.text
    )]
    Unreadable {
        /// All lines.
        lines: u64,
        /// The lines that cannot be read.
        unreadable: u64,
        /// The first of them.
        first: Box<UnreadableLine>,
    },
    /// An attempt may be in both.
    #[error("the logs are of two kinds: give decision logs or access logs, so that no attempt counts twice")]
    TwoKinds,
}

/// Reports on all sites, from this time on.
///
/// # Errors
/// See [`SiteReportError`].
pub fn report_sites(
    logs: Vec<LogInput>,
    table: &SiteTable,
    since: Time,
) -> Result<SitesReport, SiteReportError> {
    let mut reader = BlockReader::new(logs);
    let mut count = SiteCount::new(table, since);
    if let Some(first) = reader.next()? {
        let parse = |block: &LineBlock| SiteBlock::of(block, table, since);
        pipeline::for_each_block(first, reader, &parse, |block| count.add(block))?;
    }
    count.finish()
}

/// What was counted so far.
struct SiteCount<'t> {
    table: &'t SiteTable,
    log: SiteLogReport,
    first: Option<Time>,
    last: Option<Time>,
    tallies: Vec<SiteTally>,
    refused_accounts: RefusedAccounts,
    unknown_routes: BTreeSet<String>,
    /// The last attempt that was read: a decision log may have more lines about it.
    last_read: Option<SiteAttempt>,
}

impl<'t> SiteCount<'t> {
    fn new(table: &'t SiteTable, since: Time) -> Self {
        Self {
            table,
            log: SiteLogReport { since: rfc3339(since), ..SiteLogReport::default() },
            first: None,
            last: None,
            tallies: (0..table.len()).map(|_| SiteTally::new(since)).collect(),
            refused_accounts: RefusedAccounts::default(),
            unknown_routes: BTreeSet::new(),
            last_read: None,
        }
    }

    fn add(&mut self, block: SiteBlock) {
        let log = &mut self.log;
        log.lines += block.lines;
        log.unreadable += block.unreadable;
        if log.first_unreadable.is_none() {
            log.first_unreadable = block.first_unreadable;
        }
        log.has_decisions |= block.has_decisions;
        log.has_requests |= block.has_requests;
        self.first = [self.first, block.first].into_iter().flatten().min();
        self.last = self.last.max(block.last);
        self.unknown_routes.extend(block.unknown_routes);
        while self.unknown_routes.len() > MAX_UNKNOWN {
            self.unknown_routes.pop_last();
        }
        for attempt in block.attempts {
            let next = match &mut self.last_read {
                Some(last) => last.merge(attempt),
                None => Some(attempt),
            };
            if let Some(next) = next
                && let Some(last) = self.last_read.replace(next)
            {
                self.count(&last);
            }
        }
    }

    fn count(&mut self, attempt: &SiteAttempt) {
        match attempt.site.and_then(|site| self.tallies.get_mut(site)) {
            Some(tally) => tally.count(attempt, &mut self.refused_accounts),
            None => self.log.unknown_attempts += 1,
        }
    }

    fn finish(mut self) -> Result<SitesReport, SiteReportError> {
        self.last_read.take().iter().for_each(|last| self.count(last));
        let SiteLogReport { lines, unreadable, has_decisions, has_requests, .. } = self.log;
        if let Some(first) = self.log.first_unreadable.clone().filter(|_| unreadable > lines / 2) {
            return Err(SiteReportError::Unreadable { lines, unreadable, first: Box::new(first) });
        }
        if has_decisions && has_requests {
            return Err(SiteReportError::TwoKinds);
        }
        self.log.from = self.first.map(rfc3339);
        self.log.to = self.last.map(rfc3339);
        self.log.unknown_routes = self.unknown_routes.into_iter().collect();
        let sites = self.table.lines().zip(&self.tallies);
        let sites = sites.map(|(line, tally)| tally.report(line, self.table, has_decisions));
        // What no host of a template has is a line only if there is any.
        let sites = sites.zip(self.table.lines()).filter(|(site, line)| !line.is_rest() || site.attempts > 0);
        Ok(SitesReport { log: self.log, sites: sites.map(|(site, _)| site).collect() })
    }
}

/// Routes that the configuration does not have, in a report.
const MAX_UNKNOWN: usize = 10;
