//! The parts of a report that findings are made of: what was promised, and what was read.

use serde::Serialize;

use super::ReportedTime;
use crate::config::{Config, Sources, combined, worst_cases};
use crate::observe::audit::AuditSummary;
use crate::replay::evidence::{
    AuditEvidence, DecisionEvidence, LineComparison, ServingGap, UnannouncedEnd, gaps, unannounced_ends,
};

/// What the configuration promises, in the words of `tollgate check --worst`.
#[derive(Debug, Serialize)]
pub(super) struct PromisedPart {
    pub(super) configuration: String,
    pub(super) hash: String,
    pub(super) routes: Vec<PromisedWords>,
    pub(super) limits: Vec<PromisedWords>,
}

#[derive(Debug, Serialize)]
pub(super) struct PromisedWords {
    pub(super) name: String,
    pub(super) worst: String,
}

#[derive(Debug, Serialize)]
pub(super) struct DecisionsPart {
    pub(super) files: Vec<String>,
    #[serde(flatten)]
    pub(super) shown: DecisionEvidence,
    /// What the audit log says of the lines; `null` if it has none.
    pub(super) compared: Option<LineComparison>,
}

#[derive(Debug, Serialize)]
pub(super) struct AuditedPart {
    /// `whole`, `broken`, `absent` (no line), or `off`.
    pub(super) chain: &'static str,
    /// The first line that breaks it.
    pub(super) broken: Option<String>,
    pub(super) lines: u64,
    /// The hash of the last line: compare it with one that was noted elsewhere.
    pub(super) last: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    /// Starts of gates; 0 if the gates do not tell of themselves.
    pub(super) starts: u64,
    /// Lines that gates could not write to the decision log.
    pub(super) lost: u64,
    /// Times in which no gate served.
    pub(super) gaps: Vec<ServingGap>,
    /// Ends of which no line tells, also where another gate served.
    pub(super) unannounced_ends: Vec<UnannouncedEnd>,
}

/// What the check of the chain shows.
pub(super) enum ChainState {
    Whole(AuditSummary),
    Broken(String),
    /// There is no file, or no line in it.
    Absent,
    /// There is no audit log.
    Off,
}

impl PromisedPart {
    pub(super) fn of(config: &Config, sources: &Sources) -> Self {
        let words = |name: &str, line: String| PromisedWords {
            worst: line.strip_prefix(&format!("{name}: ")).unwrap_or(&line).to_owned(),
            name: name.to_owned(),
        };
        let limits = worst_cases(&config.policy).into_iter().map(|(name, line)| words(name, line)).collect();
        let routes = combined(&config.policy);
        let routes = routes.iter().map(|route| words(&route.route, route.to_string())).collect();
        Self { configuration: sources.name.clone(), hash: sources.hash(), routes, limits }
    }
}

impl AuditedPart {
    pub(super) fn of(chain: &ChainState, audit: &AuditEvidence, time: ReportedTime) -> Self {
        let state = match chain {
            ChainState::Whole(_) => "whole",
            ChainState::Broken(_) => "broken",
            ChainState::Absent => "absent",
            ChainState::Off => "off",
        };
        let (summary, broken) = match chain {
            ChainState::Whole(summary) => (Some(summary), None),
            ChainState::Broken(why) => (None, Some(why.clone())),
            ChainState::Absent | ChainState::Off => (None, None),
        };
        let times = summary.and_then(|summary| summary.times.clone());
        Self {
            chain: state,
            broken,
            lines: summary.map_or(0, |summary| summary.lines),
            last: summary.map(|summary| summary.head.to_string()),
            from: times.as_ref().map(|(from, _)| from.clone()),
            to: times.map(|(_, to)| to),
            starts: u64::try_from(
                audit.runs.iter().filter(|run| run.is_begun && run.from >= time.since).count(),
            )
            .unwrap_or(u64::MAX),
            lost: audit.lost,
            gaps: gaps(&audit.runs, time.since, time.now),
            unannounced_ends: unannounced_ends(&audit.runs, time.since, time.now),
        }
    }
}
