//! When a gate reports to the list of gates: what is new at once, and now and then that it is still there.
//!
//! What a report says is left to the gate.

use super::{FleetError, GateId, GateReport, PolicyId, PolicyRefusal};
use tollgate_bucket::{Span, Time};

/// What the list has of a gate.
#[derive(Debug)]
pub struct GateReporter {
    id: GateId,
    started: Time,
    /// The last report, and when it was made.
    reported: Option<(GateReport, Time)>,
}

impl GateReporter {
    /// For a gate that starts now.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self::with_id(GateId::random(), now)
    }

    fn with_id(id: GateId, now: Time) -> Self {
        Self { id, started: now, reported: None }
    }

    /// The number of the gate.
    #[must_use]
    pub fn id(&self) -> GateId {
        self.id
    }

    /// Whole seconds since the gate started.
    #[must_use]
    pub fn uptime(&self, now: Time) -> u64 {
        now.since(self.started).to_std().as_secs()
    }

    /// Whether the list may have an entry of this gate.
    #[must_use]
    pub fn has_reported(&self) -> bool {
        self.reported.is_some()
    }

    /// Whether the list has to hear this: there is news in it, or the last report is long ago.
    #[must_use]
    pub fn is_due(&self, report: &GateReport, now: Time) -> bool {
        let Some((reported, at)) = &self.reported else { return true };
        let silence = now.since(*at);
        news(reported) != news(report)
            || is_store_up(reported) != is_store_up(report) && silence >= HEALTH_INTERVAL
            || silence >= self.id.report_interval()
    }

    /// Notes what came of a report. One that lost against another gate's, or that did not reach the store, is due again at
    /// the next tick.
    ///
    /// # Errors
    /// The report's own, but not that another gate came first.
    pub fn note(
        &mut self,
        report: GateReport,
        written: Result<(), FleetError>,
        now: Time,
    ) -> Result<(), FleetError> {
        match written {
            Err(FleetError::Conflict) => Ok(()),
            Err(error @ FleetError::Store(_)) => Err(error),
            written => {
                // A list that cannot be used now cannot be used at the next tick either.
                self.reported = Some((report, now));
                written
            }
        }
    }
}

/// What others have to hear at once. Buckets change all the time, and a trip that is over is told with the next report.
fn news(report: &GateReport) -> (Option<&PolicyId>, Option<&PolicyRefusal>) {
    (report.policy.as_ref(), report.refused.as_ref())
}

fn is_store_up(report: &GateReport) -> Option<bool> {
    report.details.map(|details| details.store.is_up)
}

/// A server may come and go all the time.
const HEALTH_INTERVAL: Span = Span::from_secs(2);

#[cfg(test)]
mod tests;
