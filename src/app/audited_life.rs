//! What the audit log tells of the gate itself: that it began, serves and has ended, the lines of its decision log, and
//! when its store was away.
//!
//! Only where there is an audit log and the decision log is a file: `tollgate evidence` compares them. A signal that ends
//! the gate is a change by a person, and always told.

use serde_json::{Value, json};

use super::Parts;
use super::ticks::next_tick;
use crate::observe::audit::AuditEntry;
use crate::observe::audit::gate_lines::{BEGUN, ENDED, SERVES, STOP};
use crate::time::Span;

impl Parts {
    /// Tells that the gate begins with a configuration of this hash.
    pub(super) async fn audit_begin(&self, config: &str) {
        if !self.is_life_audited() {
            return;
        }
        let after = json!({ "config": config, "version": env!("CARGO_PKG_VERSION") });
        let line = AuditEntry::of_gate(BEGUN, std::process::id(), after);
        self.audit_at(line, self.engine.clock().now()).await;
    }

    /// Tells every hour how many lines were written, and at once of the store. Never ends.
    pub(super) async fn audit_life(&self) {
        let Some(store) = self.observers.store_changes.as_ref().filter(|_| self.is_life_audited()) else {
            return std::future::pending().await;
        };
        let hours = async {
            loop {
                next_tick(BETWEEN_COUNTS.to_std()).await;
                self.audit_lines(SERVES).await;
            }
        };
        let changes = async {
            loop {
                let (at, change) = store.next().await;
                self.audit_at(change, at).await;
            }
        };
        tokio::join!(hours, changes);
    }

    /// Tells how many lines were written since this was last told.
    async fn audit_lines(&self, what: &'static str) {
        let Some(log) = self.observers.logs.counted().filter(|_| self.is_life_audited()) else { return };
        let (written, lost) = log.take_counts();
        let line = AuditEntry::of_lines(what, std::process::id(), (&written, lost));
        if !self.audit_at(line, self.engine.clock().now()).await {
            log.give_back(written);
        }
    }

    /// Tells that a signal ends the gate, if one does.
    pub(super) async fn audit_stop(&self, signal: Option<&str>) {
        let Some(signal) = signal else { return };
        let line = AuditEntry::of_gate(STOP, std::process::id(), Value::Null);
        self.audit_at(AuditEntry { who: signal.to_owned(), ..line }, self.engine.clock().now()).await;
    }

    /// Tells that the gate has ended. Nothing follows.
    pub(super) async fn audit_end(&self) {
        self.audit_lines(ENDED).await;
        self.share_end_of_audit().await;
    }

    fn is_life_audited(&self) -> bool {
        self.observers.audit.is_some() && self.observers.logs.counted().is_some()
    }
}

/// A line that is removed before the next one of these is not missed.
const BETWEEN_COUNTS: Span = Span::from_secs(3600);
