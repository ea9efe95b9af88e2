//! Reports this gate to the store's list of gates, so that operators see at any machine which gates there are, and which
//! policy is in force at each.
//!
//! When a report is due, the store's `fleet` knows. What the list says of other gates is left to `tollgate policy push` and
//! `tollgate fleet`.

use super::super::Parts;
use super::super::fleet::FleetLink;
use super::Reload;
use crate::store::{FleetError, GateDetails, GateReport, GateReporter};
use crate::time::Time;

/// What the store's list has of this gate.
pub(super) struct SelfReport {
    reporter: GateReporter,
    host: String,
}

impl SelfReport {
    /// For a gate that starts now. Reads the machine's name, which the sandbox may hide later.
    pub(super) fn new(now: Time) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self { reporter: GateReporter::new(now), host: host.trim().to_owned() }
    }
}

impl Reload {
    /// Reports what has changed, and now and then that this gate is still there. If another gate writes at the same time,
    /// the next tick tries again.
    pub(super) async fn report(&mut self, link: &FleetLink, parts: &Parts) -> Result<(), FleetError> {
        let now = parts.engine.clock().now();
        let details = GateDetails { buckets: 0, store: link.health() };
        let report = self.present_report(details);
        let SelfReport { reporter, .. } = &mut self.self_report;
        if !reporter.is_due(&report, now) {
            return Ok(());
        }
        let details = Some(GateDetails { buckets: held_buckets(parts), ..details });
        let report = GateReport { uptime: reporter.uptime(now), details, ..report };
        let written = link.report(reporter.id(), report.clone()).await;
        reporter.note(report, written, now)
    }

    /// Takes this gate out of the list: it ends, and follows no more.
    pub(in crate::app) async fn sign_off(&self, parts: &Parts) {
        let SelfReport { reporter, .. } = &self.self_report;
        if !reporter.has_reported() {
            return;
        }
        if let Some(link) = FleetLink::of(parts, self.follower.store()) {
            // Otherwise the entry goes after a minute.
            let _ = link.sign_off(reporter.id()).await;
        }
    }

    fn present_report(&self, details: GateDetails) -> GateReport {
        let (policy, refused) = self.follower.tried();
        GateReport {
            host: self.self_report.host.clone(),
            process: std::process::id(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: 0,
            policy,
            refused,
            details: Some(details),
        }
    }
}

/// The buckets of all limits that decide attempts. In a large table only a sample is counted.
fn held_buckets(parts: &Parts) -> u64 {
    let rules = parts.engine.rules();
    rules.usage(parts.engine.time()).map(|(_, live, _)| live as u64).sum()
}
