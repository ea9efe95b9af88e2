//! `tollgate site report`: what came of the attempts at each site, by the gate's logs.
//!
//! `logs` finds them, `replay::sites` counts; `text` and `html` are the forms of the report. A report on some sites says
//! nothing about the others, because it may be for a customer.

mod html;
mod logs;
mod text;

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum};

use super::{SiteLine, chosen, config_of, sources_of};
use crate::cli::Exit;
use crate::cli::output::{out, outln};
use crate::cli::replay::{open, progress_bar};
use crate::cli::sources::ConfigArgs;
use crate::config::WrittenRoute;
use crate::config::values::{Duration, in_words};
use crate::replay::sites::{SiteLogReport, SiteReport, SiteTable, SitesReport, report_sites};
use crate::time::{Clock, Span};

#[derive(Debug, Args)]
pub(super) struct SiteReportArgs {
    /// Only these, by name or host [default: all]
    #[arg(value_name = "SITE")]
    sites: Vec<String>,
    /// How far back: 7d, 24h
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = span)]
    since: Span,
    /// A decision log, or an access log in JSON, plain, .gz or .zst; may be repeated; - is standard input [default: the one
    /// of the configuration, with those that were rotated]
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
    /// How the report is printed; html is one page with plots
    #[arg(long, value_enum, default_value_t = SiteReportFormat::Text)]
    format: SiteReportFormat,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SiteReportFormat {
    Text,
    Json,
    Html,
}

/// A report as it is shown: the sites with the most refusals first.
struct ShownReport {
    /// As in `7d`.
    since: String,
    log: SiteLogReport,
    sites: Vec<SiteReport>,
    /// Sites without an attempt.
    quiet: usize,
    totals: SiteTotals,
    notes: Vec<String>,
}

/// The sums over all sites of a report.
#[derive(Default)]
struct SiteTotals {
    attempts: u64,
    refused: u64,
    signed_in: u64,
    owners_helped: Option<u64>,
    likely_false_positives: u64,
}

impl SiteLine for SiteReport {
    fn name(&self) -> &str {
        &self.site
    }

    fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

pub(super) fn report(arguments: &SiteReportArgs) -> anyhow::Result<Exit> {
    let sources = sources_of(&arguments.config)?;
    let Some(config) = config_of(&sources) else { return Ok(Exit::BadConfiguration) };
    let written = WrittenRoute::all(&sources);
    let templates: HashSet<&str> =
        written.iter().filter(|route| route.is_template).map(|route| route.name.as_str()).collect();
    let since = Clock::system().now().before(arguments.since);
    let paths = match arguments.logs.is_empty() {
        true => logs::of_config(&config.log, since)?,
        false => arguments.logs.clone(),
    };
    let progress = progress_bar(&paths);
    let logs = paths.iter().map(|path| open(path, &progress)).collect::<anyhow::Result<Vec<_>>>()?;
    let table = SiteTable::new(&config.policy, config.client.prefixes, |site| templates.contains(site));
    let report = report_sites(logs, &table, since);
    progress.finish_and_clear();
    let SitesReport { log, sites } = report?;
    let report = SitesReport { log, sites: chosen(sites, &arguments.sites)? };
    match arguments.format {
        SiteReportFormat::Json => {
            outln!("{}", serde_json::to_string_pretty(&arguments.without_others(report))?)
        }
        SiteReportFormat::Text => out!("{}", text::text(&ShownReport::of(report, arguments, &templates))),
        SiteReportFormat::Html => out!("{}", html::page(&ShownReport::of(report, arguments, &templates))),
    }
    Ok(Exit::Ok)
}

impl SiteReportArgs {
    /// The report, without the sites that are not named.
    fn without_others(&self, mut report: SitesReport) -> SitesReport {
        if !self.sites.is_empty() {
            let SiteLogReport { since, has_decisions, has_requests, from, to, .. } = report.log;
            report.log =
                SiteLogReport { since, has_decisions, has_requests, from, to, ..SiteLogReport::default() };
        }
        report
    }
}

impl ShownReport {
    fn of(report: SitesReport, arguments: &SiteReportArgs, templates: &HashSet<&str>) -> Self {
        let SitesReport { log, mut sites } = arguments.without_others(report);
        let all = sites.len();
        let has_template = sites.iter().any(|site| templates.contains(site.site.as_str()));
        sites.retain(|site| site.attempts > 0);
        sites.sort_by(|one, next| {
            (next.refused, next.attempts, &one.site).cmp(&(one.refused, one.attempts, &next.site))
        });
        let mut totals =
            SiteTotals { owners_helped: log.has_decisions.then_some(0), ..SiteTotals::default() };
        for site in &sites {
            totals.attempts += site.attempts;
            totals.refused += site.refused;
            totals.signed_in += site.signed_in;
            totals.likely_false_positives += site.likely_false_positives;
            totals.owners_helped =
                totals.owners_helped.zip(site.owners_helped).map(|(sum, owners)| sum + owners);
        }
        let notes = notes(&log, has_template);
        Self { since: in_words(arguments.since), log, quiet: all - sites.len(), sites, totals, notes }
    }

    /// Whether there are few enough for the details of each.
    fn is_detailed(&self) -> bool {
        self.sites.len() <= MAX_DETAILED
    }
}

/// What the log does not show.
fn notes(log: &SiteLogReport, has_template: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if log.has_requests {
        notes.push("the access log does not know owners; a decision log does (`log.decisions`)".to_owned());
    }
    if log.has_decisions && has_template {
        notes.push(
            "the decision log has no hosts, so all of a template are one site; an access log has them (`log.style = \"json\"`)"
                .to_owned(),
        );
    }
    if log.unknown_attempts > 0 {
        notes.push(format!(
            "{} at routes that the configuration does not have, as {}",
            text::attempts(log.unknown_attempts),
            log.unknown_routes.join(", ")
        ));
    }
    notes
}

fn span(text: &str) -> anyhow::Result<Span> {
    let Duration(span) = text.parse()?;
    ensure!(span > Span::ZERO, "write a time above 0, as in 7d");
    Ok(span)
}

/// The host of a template, the only host, or the first one of several.
fn host(site: &SiteReport) -> String {
    match &site.hosts[..] {
        [] => "-".to_owned(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

/// So many sites have their details below the table.
const MAX_DETAILED: usize = 20;
