//! The logs of a gate: the access log, the decision log and the summary of refusals, as far as the configuration turns
//! them on.

use std::sync::Arc;
use std::time::Duration;

use super::AppStartError;
use super::sandbox::Broker;
use super::ticks::next_tick;
use crate::event::EventListener;
use crate::observe::access_log::AccessLines;
use crate::observe::client_format::ClientFormatter;
use crate::observe::decision_log::ecs::EcsForm;
use crate::observe::decision_log::ocsf::OcsfForm;
use crate::observe::decision_log::{DecisionLines, TollgateForm};
use crate::observe::line_log::rotated::remove_rotated;
use crate::observe::line_log::{LineFormat, LineLog};
use crate::observe::metrics::Metrics;
use crate::observe::refusal_summary::RefusalSummary;
use crate::observe::settings::{DecisionLog, DecisionSchema, LogSettings, LogTarget};
use crate::time::{Clock, Span};

/// The logs that are in use.
#[derive(Debug)]
pub(super) struct GateLogs {
    line_logs: Vec<Arc<LineLog>>,
    /// The decision log, if it is a file whose lines are counted for the audit.
    counted: Option<Arc<LineLog>>,
    retention: Option<Span>,
    refusal_summary: Option<Arc<RefusalSummary>>,
}

impl GateLogs {
    /// Opens them.
    ///
    /// # Errors
    /// If a file cannot be opened, or a thread cannot start.
    pub(super) fn open(
        log: &LogSettings,
        clients: &ClientFormatter,
        metrics: &Metrics,
        clock: &Clock,
    ) -> Result<Self, AppStartError> {
        let mut line_logs = Vec::new();
        let mut counted = None;
        if let Some(target) = &log.access {
            let (lines, dropped) = (AccessLines::new(log.style, clients.clone()), metrics.lines_dropped());
            let opened = LineLog::open("access log", target.clone(), lines, dropped, clock.clone());
            line_logs
                .push(Arc::new(opened.map_err(|error| AppStartError::AccessLog(target.clone(), error))?));
        }
        if let DecisionLog::Every(target) = &log.decisions {
            let clients = clients.clone();
            let opened = match log.schema {
                DecisionSchema::Tollgate => {
                    decision_log(target, DecisionLines::new(target, clients, TollgateForm), metrics, clock)
                }
                DecisionSchema::Ocsf => {
                    decision_log(target, DecisionLines::new(target, clients, OcsfForm::new()), metrics, clock)
                }
                DecisionSchema::Ecs => {
                    decision_log(target, DecisionLines::new(target, clients, EcsForm::new()), metrics, clock)
                }
            };
            let opened = Arc::new(opened?);
            counted = opened.file().is_some().then(|| Arc::clone(&opened));
            line_logs.push(opened);
        }
        let wants_summary = log.decisions == DecisionLog::Summary;
        let refusal_summary = wants_summary.then(|| Arc::new(RefusalSummary::new(clients.clone())));
        Ok(Self { line_logs, counted, retention: log.retention, refusal_summary })
    }

    /// Counts the lines of the decision log from now on, if it is a file.
    pub(super) fn count_lines(&self) {
        self.counted.iter().for_each(|log| log.count_lines());
    }

    /// The decision log, if its lines are counted.
    pub(super) fn counted(&self) -> Option<&LineLog> {
        self.counted.as_deref()
    }

    /// Those of lines.
    pub(super) fn line_logs(&self) -> &[Arc<LineLog>] {
        &self.line_logs
    }

    /// The summary, if there is one.
    pub(super) fn refusal_summary(&self) -> Option<&Arc<RefusalSummary>> {
        self.refusal_summary.as_ref()
    }

    /// What events go to.
    pub(super) fn listeners(&self) -> impl Iterator<Item = Arc<dyn EventListener>> {
        let line_logs = self.line_logs.iter().cloned().map(|log| log as _);
        line_logs.chain(self.refusal_summary.iter().cloned().map(|summary| summary as _))
    }

    /// Opens files again under their names.
    pub(super) async fn reopen(&self, broker: &Broker) {
        for log in &self.line_logs {
            let (name, log) = (log.name(), Arc::clone(log));
            let reopened = broker.run(move || log.reopen()).await;
            if let Err(error) = reopened.and_then(|reopened| reopened) {
                tracing::error!("the {name} cannot be opened again, the old file stays: {error}");
            }
        }
    }

    /// Tells of refusals that have ended; never ends.
    pub(super) async fn sweep(&self, clock: &Clock) {
        let Some(summary) = &self.refusal_summary else { return std::future::pending().await };
        loop {
            next_tick(BETWEEN_SWEEPS).await;
            summary.sweep(clock.now());
        }
    }

    /// Removes rotated files that are too old, once an hour; never ends.
    pub(super) async fn remove_rotated(&self, broker: &Broker, clock: &Clock) {
        let Some(retention) = self.retention else { return std::future::pending().await };
        loop {
            for path in self.line_logs.iter().filter_map(|log| log.file()) {
                let (path, before) = (path.to_owned(), clock.now().before(retention));
                let name = path.display().to_string();
                let removed = broker.run(move || remove_rotated(&path, before)).await;
                match removed.and_then(|removed| removed) {
                    Ok(0) => {}
                    Ok(files) => {
                        tracing::info!(log = name, files, "rotated logs were removed: log.retention")
                    }
                    Err(error) => tracing::warn!(
                        log = name,
                        "rotated logs stay, log.retention notwithstanding: {error}"
                    ),
                }
            }
            next_tick(BETWEEN_REMOVALS).await;
        }
    }

    /// Writes the rest, after which lines are lost.
    pub(super) fn close(&self) {
        self.line_logs.iter().for_each(|log| log.close());
        self.refusal_summary.iter().for_each(|summary| summary.finish());
    }
}

fn decision_log(
    target: &LogTarget,
    lines: impl LineFormat + 'static,
    metrics: &Metrics,
    clock: &Clock,
) -> Result<LineLog, AppStartError> {
    LineLog::open("decision log", target.clone(), lines, metrics.decisions_dropped(), clock.clone())
        .map_err(|error| AppStartError::DecisionLog(target.clone(), error))
}

const BETWEEN_REMOVALS: Duration = Duration::from_secs(3600);
/// A line about the end of refusals comes at most this late.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(5);
