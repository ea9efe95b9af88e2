//! Records in the audit log what changes a gate without a request to its admin API: policies of the store, SIGHUP, and
//! files that changed.
//!
//! Such a change stays also if the audit log cannot be written: nobody waits for an answer that could refuse it.

use serde_json::{Value, json};

use super::super::Parts;
use super::{Reload, ReloadScope};
use crate::observe::admin::ReloadError;
use crate::observe::audit::AuditEntry;
use crate::store::PolicyEntry;
use crate::time::Time;

impl Reload {
    /// Reads the configuration again. `who` is a signal or the watch.
    pub(super) async fn reload_for(&mut self, who: &str, parts: &Parts) {
        let before = self.config_in_force();
        let reloaded = self.reload(ReloadScope::File, parts).await;
        let failed = reloaded.changes.err().map(|error| error.to_string());
        let after = if failed.is_none() { self.config_in_force() } else { Value::Null };
        let (who, what) = (who.to_owned(), "reload");
        parts.audit(AuditEntry { who, what, before, after, failed, ..AuditEntry::default() }).await;
    }

    /// Reads again what the files hold that the configuration names. Its own hash says nothing of them, so the line says
    /// what has changed.
    pub(super) async fn reload_referenced(&mut self, parts: &Parts) {
        let before = self.config_in_force();
        let reloaded = self.reload(ReloadScope::ReferencedFiles, parts).await;
        let (after, failed) = match reloaded.changes {
            Ok(changes) => {
                let changes: String = changes.chars().take(MAX_CHANGES).collect();
                (json!({ "config": self.config_status.hash(), "changes": changes }), None)
            }
            Err(why) => (Value::Null, Some(why.to_string())),
        };
        let (who, what) = ("watch".to_owned(), "reload");
        parts.audit(AuditEntry { who, what, before, after, failed, ..AuditEntry::default() }).await;
    }

    fn config_in_force(&self) -> Value {
        json!({ "config": self.config_status.hash() })
    }
}

impl Parts {
    /// Records that a policy came from the store, and why it is not in force.
    pub(super) async fn audit_policy(
        &self,
        entry: &PolicyEntry,
        before: Option<u64>,
        failed: Option<&ReloadError>,
    ) {
        let short = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
        let line = AuditEntry {
            who: short(&entry.by),
            what: "policy",
            target: Some(format!("policy {}", entry.version)),
            why: short(&entry.comment),
            before: json!({ "policy": before }),
            after: if failed.is_none() { json!({ "policy": entry.version }) } else { Value::Null },
            failed: failed.map(ToString::to_string),
            ..AuditEntry::default()
        };
        self.audit(line).await;
    }

    async fn audit(&self, entry: AuditEntry) {
        let _ = self.audit_at(entry, self.engine.clock().now()).await;
    }

    /// Writes a line about what happened at this time. Whether it is on the disk; without an audit log it never is.
    pub(in crate::app) async fn audit_at(&self, entry: AuditEntry, at: Time) -> bool {
        let Some(audit) = self.observers.audit.clone() else { return false };
        let write = move || audit.append(&entry, at).map_err(|error| error.to_string());
        let written = self.sandbox.broker().run(write).await;
        match written.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(_) => true,
            Err(error) => {
                tracing::error!("a change is not in the audit log, which cannot be written: {error}");
                false
            }
        }
    }
}

/// Letters of a user's name or comment.
const MAX_TEXT: usize = 200;
/// Letters of what a reload has changed.
const MAX_CHANGES: usize = 2000;
