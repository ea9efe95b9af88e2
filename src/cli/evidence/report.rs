//! The evidence as data: what `--format json` prints, and the page shows.

use serde::Serialize;

use super::ReportedTime;
use super::controls::{ControlFinding, findings};
use super::exceptions::{ShownException, exceptions};
use super::parts::{AuditedPart, ChainState, DecisionsPart, PromisedPart};
use crate::config::{Config, Sources};
use crate::observe::timestamp::rfc3339;
use crate::replay::evidence::{AuditEvidence, DecisionEvidence, LineComparison, ReadChange};

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct EvidenceReport {
    /// The form of this object; members may be added without another number.
    schema: &'static str,
    pub(super) program: String,
    pub(super) made: String,
    pub(super) since: String,
    pub(super) until: String,
    pub(super) promised: PromisedPart,
    pub(super) decisions: DecisionsPart,
    pub(super) audit: AuditedPart,
    pub(super) changes: Vec<ReadChange>,
    /// Changes that are not in the list.
    pub(super) changes_left_out: u64,
    pub(super) exceptions: Vec<ShownException>,
    pub(super) controls: Vec<ControlFinding>,
    /// What these figures cannot show.
    pub(super) not_shown: Vec<String>,
}

/// What was read.
pub(super) struct ReadLogs {
    pub(super) names: Vec<String>,
    /// Whether there should be a decision log.
    pub(super) has_log: bool,
    pub(super) decisions: DecisionEvidence,
    pub(super) lines: Option<LineComparison>,
    pub(super) chain: ChainState,
    pub(super) audit: AuditEvidence,
}

impl EvidenceReport {
    pub(super) fn of(config: &Config, sources: &Sources, time: ReportedTime, read: ReadLogs) -> Self {
        let ReadLogs { names, has_log, decisions, lines, chain, audit } = read;
        let shown = DecisionsPart { files: names, shown: decisions, compared: lines };
        let audited = AuditedPart::of(&chain, &audit, time);
        let exceptions = exceptions(config, &shown, &audited, &audit);
        let controls = findings(config, &shown, &audited, (&audit, has_log));
        Self {
            schema: SCHEMA,
            program: format!("tollgate {}", env!("CARGO_PKG_VERSION")),
            made: rfc3339(time.now),
            since: rfc3339(time.since),
            until: rfc3339(time.now),
            promised: PromisedPart::of(config, sources),
            not_shown: not_shown(config, &audit),
            decisions: shown,
            audit: audited,
            changes: audit.changes,
            changes_left_out: audit.left_out,
            exceptions,
            controls,
        }
    }

    /// What is wrong with the logs themselves.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.audit.broken.iter().cloned().collect();
        if self.audit.chain == "absent" {
            faults.push("the audit log is missing or empty".to_owned());
        }
        if let Some(compared) = self.decisions.compared.as_ref().filter(|compared| compared.missing > 0) {
            let hours = compared.hours.iter().map(|hour| {
                format!("{}: the gate wrote {} lines, the log has {}", hour.hour, hour.written, hour.found)
            });
            faults.extend(hours);
        }
        faults
    }
}

fn not_shown(config: &Config, audit: &AuditEvidence) -> Vec<String> {
    let mut notes: Vec<String> = NOT_SHOWN.iter().map(|&note| note.to_owned()).collect();
    if !config.store.keeps_buckets() && audit.runs.len() > 1 {
        notes.push(
            "the hashes of accounts change when the gate starts, because it has neither a store nor a snapshot: an account \
             counts once for each start"
                .to_owned(),
        );
    }
    notes
}

const SCHEMA: &str = "tollgate.evidence/1";
const NOT_SHOWN: [&str; 3] = [
    "promises are those of the present configuration: what was over them before its last change is counted apart",
    "the chain of the audit log has no key: note the hash of its last line elsewhere, or a cut or rewritten end is not found",
    "lines of the decision log are compared by number and hour: what was written since the gate last told the number (an \
     hour at most), or before a crash, is not covered, and neither is a line that another one replaces",
];
