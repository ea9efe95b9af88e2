//! Records changes in the audit log before they are made: one that cannot be recorded is not made.

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::asker::{Asker, SeenSites};
use super::request::AdminProblem;
use crate::event::{BucketOwner, Operator};
use crate::observe::audit::{AuditEntry, AuditError, AuditLog, LineHash};
use crate::observe::client_format::ClientFormatter;
use crate::policy::attempt::Client;
use crate::time::Clock;

/// Where changes are recorded, if the file names a place.
#[derive(Debug, Clone)]
pub(super) struct AuditTrail {
    log: Option<Arc<AuditLog>>,
    clients: ClientFormatter,
    clock: Clock,
}

/// A change that is to be made.
#[derive(Debug, Clone)]
pub(super) struct AuditedChange {
    /// As in `bucket.reset`.
    pub(super) what: &'static str,
    /// What it is about, as lists and logs write it.
    pub(super) target: Option<String>,
    pub(super) why: String,
    pub(super) before: Value,
    /// `null` if only the outcome tells.
    pub(super) after: Value,
}

/// A change that was recorded and may now be made.
#[derive(Debug)]
pub(super) struct RecordedChange(Option<(AuditEntry, LineHash)>);

impl AuditTrail {
    pub(super) fn new(log: Option<Arc<AuditLog>>, clients: ClientFormatter, clock: Clock) -> Self {
        Self { log, clients, clock }
    }

    /// The owner of buckets, as lists and logs write it.
    pub(super) fn owner(&self, owner: BucketOwner) -> String {
        self.clients.owner(owner)
    }

    /// Whether changes are recorded at all.
    pub(super) fn is_on(&self) -> bool {
        self.log.is_some()
    }

    /// Records a change before it is made.
    ///
    /// # Errors
    /// 503 if it cannot be recorded: then it must not be made.
    pub(super) async fn record(
        &self,
        asker: &Asker,
        AuditedChange { what, target, why, before, after }: AuditedChange,
    ) -> Result<RecordedChange, AdminProblem> {
        if !self.is_on() {
            return Ok(RecordedChange(None));
        }
        let by = asker.by;
        let entry = AuditEntry {
            who: Operator { address: None, ..by }.to_string(),
            pid: by.pid,
            from: by.address.map(|address| self.clients.show(Client::from_ip(address))),
            what,
            target,
            why,
            before,
            after,
            ..AuditEntry::default()
        };
        match self.append(entry.clone()).await {
            Ok(hash) => Ok(RecordedChange(hash.map(|hash| (entry, hash)))),
            Err(error) => {
                tracing::error!("a change is refused: the audit log cannot be written: {error}");
                let detail =
                    "the audit log cannot be written, so nothing is changed: the gate's log says why";
                Err(AdminProblem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
            }
        }
    }

    /// Records what became of a change, where the line before it does not say it: what is in force now, or why it was
    /// not made.
    pub(super) async fn tell(&self, change: RecordedChange, outcome: Result<Value, String>) {
        let Some((entry, hash)) = change.0 else { return };
        let (after, failed) = match outcome {
            Ok(after) => (after, None),
            Err(why) => (Value::Null, Some(why)),
        };
        let entry = AuditEntry { after, failed, of: Some(hash), ..entry };
        if let Err(error) = self.append(entry).await {
            tracing::error!(
                "what became of a change is not in the audit log, which cannot be written: {error}"
            );
        }
    }

    /// On a thread that may wait for the disk.
    async fn append(&self, entry: AuditEntry) -> Result<Option<LineHash>, AuditError> {
        let Some(log) = self.log.clone() else { return Ok(None) };
        let at = self.clock.now();
        let written = tokio::task::spawn_blocking(move || log.append(&entry, at)).await;
        written.unwrap_or_else(|_| Err(AuditError::interrupted())).map(Some)
    }
}

/// A request, as the handler of a page knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageContext<'a> {
    pub(super) asker: &'a Asker,
    pub(super) seen: &'a SeenSites,
    pub(super) audit: &'a AuditTrail,
}

impl PageContext<'_> {
    /// Records a change of the gate as a whole, for the reason in the header.
    ///
    /// # Errors
    /// 503 if it cannot be recorded.
    pub(super) async fn record(
        &self,
        what: &'static str,
        before: Value,
        after: Value,
    ) -> Result<RecordedChange, AdminProblem> {
        let change = AuditedChange { what, target: None, why: self.asker.why.clone(), before, after };
        self.audit.record(self.asker, change).await
    }
}

/// A part of a page as a line of the audit has it.
pub(super) fn audited(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// Limits or buckets of one line.
pub(super) const MAX_AUDITED: usize = 50;
