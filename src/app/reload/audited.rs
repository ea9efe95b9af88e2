//! Records in the audit log what changes a gate without a request to its admin API: policies of the store, SIGHUP,
//! files that changed, and names of DNS that stand for something else.
//!
//! Such a change stays also if the audit log cannot be written: nobody waits for an answer that could refuse it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::Parts;
use super::{Reload, ReloadScope};
use crate::config::names::{NamedAddresses, ServiceTarget};
use crate::observe::admin::ReloadError;
use crate::observe::audit::AuditEntry;
use crate::observe::audit::gate_lines::NAMES;
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

    /// Records what names of DNS stood for and stand for now, and why that is not in force.
    pub(super) async fn audit_names(
        &self,
        before: &NamedAddresses,
        after: &NamedAddresses,
        failed: Option<ReloadError>,
    ) {
        if self.observers.audit.is_none() {
            return;
        }
        let (before, after) = (places_of(before), places_of(after));
        let names = before.keys().chain(after.keys());
        let mut changed: Vec<&String> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
        changed.sort_unstable();
        changed.dedup();
        let told = |places: &BTreeMap<String, Vec<String>>| -> Value {
            let of_name = |name: &&String| {
                let places = places.get(*name).map(|places| &places[..places.len().min(MAX_TARGETS)]);
                ((**name).clone(), json!(places))
            };
            Value::Object(changed.iter().take(MAX_NAMES).map(of_name).collect())
        };
        let (before, after) = (told(&before), told(&after));
        let after = if failed.is_none() { after } else { Value::Null };
        let failed = failed.map(|error| error.to_string());
        let (who, what) = ("dns".to_owned(), NAMES);
        self.audit(AuditEntry { who, what, before, after, failed, ..AuditEntry::default() }).await;
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

/// What each name stands for: addresses, or the targets of SRV records with priority and weight, as in
/// `10 5 192.0.2.1:443`.
fn places_of(names: &NamedAddresses) -> BTreeMap<String, Vec<String>> {
    let networks = names.networks.iter().map(|(name, addresses)| {
        (format!("dns:{name}"), addresses.iter().map(ToString::to_string).collect::<Vec<_>>())
    });
    let target = |target: &ServiceTarget| {
        format!("{} {} {}", target.share.priority, target.share.weight, target.address)
    };
    let services = names
        .services
        .iter()
        .map(|(name, targets)| (format!("srv:{name}"), targets.iter().map(target).collect::<Vec<_>>()));
    networks.chain(services).collect()
}

/// Names in one line, each with as many addresses as count.
const MAX_NAMES: usize = 20;
/// Targets of a name in one line.
const MAX_TARGETS: usize = 16;
/// Letters of a user's name or comment.
const MAX_TEXT: usize = 200;
/// Letters of what a reload has changed.
const MAX_CHANGES: usize = 2000;
