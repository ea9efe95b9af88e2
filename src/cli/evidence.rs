//! `tollgate evidence`: what the limits promised, what the logs show, and what follows for the controls of standards.
//!
//! It reads the configuration and logs, and asks no gate. `promises` says what each limit lets through, `replay::evidence`
//! reads, `controls` judges; `report` is the JSON, `html` the page.

mod compared_lines;
mod controls;
mod exceptions;
mod html;
mod parts;
mod promises;
mod report;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use self::controls::ControlState;
use self::parts::ChainState;
use self::report::{EvidenceReport, ReadLogs};
use super::Exit;
use super::replay::{open, progress_bar};
use super::service_unit::ServiceUnit;
use super::sources::{ConfigArgs, report_all};
use crate::cli::output::{errln, out, outln};
use crate::config::values::Duration;
use crate::config::{Config, Sources, load};
use crate::observe::audit::verify;
use crate::observe::line_log::rotated::log_files;
use crate::observe::settings::{DecisionLog, LogTarget};
use crate::replay::decoded;
use crate::replay::evidence::{
    AuditEvidence, EvidenceTable, LineComparison, compare_lines, read_audit, read_decisions,
};
use crate::time::{Clock, Span, Time};

#[derive(Debug, Args)]
pub(super) struct EvidenceArgs {
    /// How far back: 90d, 52w
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = span)]
    since: Span,
    /// How the report is printed; html is one page without scripts
    #[arg(long, value_enum, default_value_t = EvidenceFormat::Html)]
    format: EvidenceFormat,
    /// A decision log, plain, .gz or .zst; may be repeated, the oldest first [default: log.decisions of the configuration,
    /// with those that were rotated]
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// An audit log; may be repeated, the oldest first [default: admin.audit of the configuration, with those that were
    /// rotated]
    #[arg(long = "audit", value_name = "FILE")]
    audits: Vec<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EvidenceFormat {
    Html,
    Json,
}

/// The time that a report is about.
#[derive(Debug, Clone, Copy)]
struct ReportedTime {
    since: Time,
    now: Time,
}

impl EvidenceArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn evidence(arguments: &EvidenceArgs) -> anyhow::Result<Exit> {
    let sources = arguments.config.sources()?;
    let sources = match ServiceUnit::of(&sources) {
        Some(unit) => unit.apply_to(sources),
        None => sources,
    };
    let loaded = load(&sources);
    let Some(config) = &loaded.config else {
        report_all(&loaded, &sources.name);
        return Ok(Exit::BadConfiguration);
    };
    let report = arguments.report(config, &sources)?;
    match arguments.format {
        EvidenceFormat::Json => outln!("{}", serde_json::to_string_pretty(&report)?),
        EvidenceFormat::Html => out!("{}", html::page(&report)),
    }
    let not_met = report.controls.iter().filter(|control| control.state == ControlState::NotMet);
    let mut is_good = true;
    for control in not_met {
        errln!("not met: {} {}: {}", control.standard, control.number, control.figure);
        is_good = false;
    }
    for fault in report.faults() {
        errln!("broken: {fault}");
        is_good = false;
    }
    Ok(if is_good { Exit::Ok } else { Exit::Failed })
}

impl EvidenceArgs {
    fn report(&self, config: &Config, sources: &Sources) -> anyhow::Result<EvidenceReport> {
        let now = Clock::system().now();
        let time = ReportedTime { since: now.before(self.since), now };
        let (chain, audit) = self.audit(config, time.since, config.store.keeps_buckets())?;
        let table = EvidenceTable::new(&config.policy, |at| promises::of_limit(config, at));
        let (paths, has_log) = self.decision_logs(config, time.since)?;
        let progress = progress_bar(&paths);
        let logs = paths.iter().map(|path| open(path, &progress)).collect::<anyhow::Result<Vec<_>>>()?;
        let decisions = read_decisions(logs, &table, audit.notes.clone(), time.since);
        progress.finish_and_clear();
        let decisions = decisions?;
        let lines = lines_of(&audit, &decisions.hours, (config, time));
        let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
        let read = ReadLogs { names: names(&paths), has_log, decisions, lines, chain, audit };
        Ok(EvidenceReport::of(config, sources, time, read))
    }

    /// The decision logs, and whether the configuration or the command names one.
    fn decision_logs(&self, config: &Config, since: Time) -> anyhow::Result<(Vec<PathBuf>, bool)> {
        if !self.logs.is_empty() {
            return Ok((self.logs.clone(), true));
        }
        let DecisionLog::Every(LogTarget::File(path)) = &config.log.decisions else {
            return Ok((Vec::new(), false));
        };
        let found = files_of(path)?;
        // One that was last written before has no lines of that time.
        Ok((found.into_iter().filter(|(written, _)| *written >= since).map(|(_, file)| file).collect(), true))
    }

    fn audit(
        &self,
        config: &Config,
        since: Time,
        keeps_buckets: bool,
    ) -> anyhow::Result<(ChainState, AuditEvidence)> {
        let paths = match (&self.audits[..], &config.operators.audit) {
            ([], None) => return Ok((ChainState::Off, AuditEvidence::default())),
            ([], Some(path)) => files_of(path)?.into_iter().map(|(_, file)| file).collect(),
            (named, _) => named.to_vec(),
        };
        if paths.is_empty() {
            return Ok((ChainState::Absent, AuditEvidence::default()));
        }
        let opened = || paths.iter().map(|path| open_audit(path)).collect::<anyhow::Result<Vec<_>>>();
        let chain = match verify(opened()?, None) {
            Ok(summary) if summary.lines == 0 => ChainState::Absent,
            Ok(summary) => ChainState::Whole(summary),
            Err(broken) => ChainState::Broken(broken.to_string()),
        };
        let audit = read_audit(opened()?, since, keeps_buckets).context("cannot read the audit log")?;
        Ok((chain, audit))
    }
}

/// The lines of the decision log next to those that the audit log tells of; `None` if it tells of none.
fn lines_of(
    audit: &AuditEvidence,
    found: &std::collections::BTreeMap<u64, u64>,
    (config, time): (&Config, ReportedTime),
) -> Option<LineComparison> {
    let kept_since = config.log.retention.map(|retention| time.now.before(retention));
    let is_told = !audit.runs.is_empty();
    is_told.then(|| compare_lines(&audit.written, found, time.since, kept_since))
}

fn files_of(path: &Path) -> anyhow::Result<Vec<(Time, PathBuf)>> {
    log_files(path).with_context(|| format!("cannot read {}", path.display()))
}

fn open_audit(path: &Path) -> anyhow::Result<(String, Box<dyn BufRead>)> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let text = decoded(Box::new(file)).with_context(|| format!("cannot read {name}"))?;
    Ok((name, Box::new(BufReader::new(text))))
}

fn span(text: &str) -> anyhow::Result<Span> {
    let Duration(span) = text.parse()?;
    ensure!(span > Span::ZERO, "write a time above 0, as in 90d");
    Ok(span)
}
