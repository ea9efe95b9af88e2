//! What logs show of what the limits promised: figures of the decision log, changes and gaps by the audit log.
//!
//! Nothing is decided again. Lines are read in the threads of a replay, and attempts are put in the order of their decisions;
//! `windows` counts what reached each account and client, `audit` reads changes, `lines` compares both logs.

mod accounts;
mod audit;
mod block;
mod lines;
mod report;
mod runs;
mod table;
mod tally;
mod windows;

pub use self::audit::{AuditEvidence, ReadChange, StoreOutage, read_audit};
pub use self::lines::{LineComparison, MissingLines, compare_lines};
pub use self::report::{
    AccountFigures, AttemptFigures, DecisionEvidence, LimitFigures, PromiseFigures, RouteFigures, ShownLine,
};
pub use self::runs::{GateRun, ServingGap, UnannouncedEnd, gaps, unannounced_ends};
pub use self::table::{EvidenceTable, LimitPromise, WatchedLimit};
pub use self::tally::{BucketsTouched, ChangeNote};

use self::block::EvidenceBlock;
use self::tally::EvidenceTally;
use super::ReplayError;
use super::input::{BlockReader, LineBlock, LogInput};
use super::pipeline;
use crate::time::Time;

/// Why there is no evidence.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] ReplayError),
    /// Lines of an access log say too little.
    #[error("{0} is an access log: give decision logs (`log.decisions`)")]
    AccessLog(String),
}

/// The figures of decision logs, the oldest first, from this time on. `notes` are what operators changed meanwhile.
///
/// # Errors
/// See [`EvidenceError`].
pub fn read_decisions(
    logs: Vec<LogInput>,
    table: &EvidenceTable,
    notes: Vec<ChangeNote>,
    since: Time,
) -> Result<DecisionEvidence, EvidenceError> {
    let mut reader = BlockReader::new(logs);
    let mut tally = EvidenceTally::new(table, notes, since);
    if let Some(first) = reader.next()? {
        let parse = |block: &LineBlock| EvidenceBlock::of(block, table, since);
        pipeline::for_each_block(first, reader, &parse, |block| tally.add(block))?;
    }
    tally.finish()
}
