//! Reports this gate to the store's list of gates, so that operators see at any machine which gates there are, and which
//! policy is in force at each.
//!
//! What the list says of other gates is left to `tollgate policy push` and `tollgate fleet`.

use super::super::Parts;
use super::super::fleet::FleetLink;
use super::Reload;
use crate::store::{FleetError, GateId, GateReport};
use crate::time::{Span, Time};

/// What the store's list has of this gate.
pub(super) struct GateReporter {
    id: GateId,
    host: String,
    started: Time,
    /// The last report, with an uptime of zero, and when it was made.
    reported: Option<(GateReport, Time)>,
}

impl GateReporter {
    /// For a gate that starts now. Reads the machine's name, which the sandbox may hide later.
    pub(super) fn new(now: Time) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self { id: GateId::random(), host: host.trim().to_owned(), started: now, reported: None }
    }

    /// Whether the list has to hear this: it differs from the last report, or that is long ago.
    fn is_due(&self, report: &GateReport, now: Time) -> bool {
        let Some((reported, at)) = &self.reported else { return true };
        reported != report || now.since(*at) >= self.id.report_interval()
    }

    fn uptime(&self, now: Time) -> u64 {
        let uptime: Span = now.since(self.started);
        uptime.to_std().as_secs()
    }
}

impl Reload {
    /// Reports what has changed, and now and then that this gate is still there. If another gate writes at the same time,
    /// the next tick tries again.
    pub(super) async fn report(&mut self, link: &FleetLink, parts: &Parts) -> Result<(), FleetError> {
        let now = parts.engine.clock().now();
        let report = self.present_report();
        if !self.reporter.is_due(&report, now) {
            return Ok(());
        }
        let with_uptime = GateReport { uptime: self.reporter.uptime(now), ..report.clone() };
        match link.report(self.reporter.id, with_uptime).await {
            Err(FleetError::Conflict) => Ok(()),
            Err(error @ FleetError::Store(_)) => Err(error),
            reported => {
                // A list that cannot be used now cannot be used at the next tick either.
                self.reporter.reported = Some((report, now));
                reported
            }
        }
    }

    /// Takes this gate out of the list: it ends, and follows no more.
    pub(in crate::app) async fn sign_off(&self, parts: &Parts) {
        if self.reporter.reported.is_none() {
            return;
        }
        if let Some(link) = FleetLink::of(parts, self.follower.store()) {
            // Otherwise the entry goes after a minute.
            let _ = link.sign_off(self.reporter.id).await;
        }
    }

    fn present_report(&self) -> GateReport {
        let (policy, refused) = self.follower.tried();
        GateReport {
            host: self.reporter.host.clone(),
            process: std::process::id(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: 0,
            policy,
            refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::PolicyId;

    fn report(version: u64) -> GateReport {
        GateReport {
            host: "a".to_owned(),
            process: 1,
            program: "1".to_owned(),
            uptime: 0,
            policy: Some(PolicyId { version, hash: String::new() }),
            refused: None,
        }
    }

    #[test]
    fn a_gate_reports_at_its_start_when_it_has_tried_a_policy_and_every_ten_seconds() {
        let now = Time::from_nanos(1_000_000_000_000);
        let mut reporter = GateReporter::new(now);
        assert!(reporter.is_due(&report(1), now), "it starts");
        reporter.reported = Some((report(1), now));
        assert!(!reporter.is_due(&report(1), now.after(Span::from_secs(7))));
        assert!(reporter.is_due(&report(2), now.after(Span::from_millis(1))), "another policy");
        assert!(reporter.is_due(&report(1), now.after(Span::from_secs(12))));
    }
}
