//! The report as text: one line a site, and the details of each if they are few.

use std::fmt::Write;

use super::{ShownReport, host};
use crate::cli::buckets::aligned;
use crate::cli::replay::text::{grouped, plural, write_clients};
use crate::replay::sites::SiteReport;

pub(super) fn text(report: &ShownReport) -> String {
    let mut text = String::new();
    // Writing to memory cannot fail.
    let _ = write_all(&mut text, report);
    text
}

/// As in "1,204 attempts".
pub(super) fn attempts(count: u64) -> String {
    plural(count, "attempt")
}

fn write_all(text: &mut String, report: &ShownReport) -> std::fmt::Result {
    let ShownReport { since, log, sites, quiet, totals, notes } = report;
    writeln!(text, "since     {} ({since})", log.since)?;
    if let (Some(from), Some(to)) = (&log.from, &log.to) {
        writeln!(text, "log       {from} to {to}")?;
    }
    let count = u64::try_from(sites.len()).unwrap_or(u64::MAX);
    writeln!(
        text,
        "attempts  {} at {}, {} refused, {} signed in",
        grouped(totals.attempts),
        plural(count, "site"),
        grouped(totals.refused),
        grouped(totals.signed_in)
    )?;
    if let Some(owners) = totals.owners_helped {
        writeln!(text, "owners    {} while strangers were refused", plural(owners, "sign-in"))?;
    }
    writeln!(text, "people    {} then signed in", plural(totals.likely_false_positives, "refused client"))?;
    if let Some(first) = &log.first_unreadable {
        writeln!(
            text,
            "unread    {}, the first in line {} of {}: {}",
            plural(log.unreadable, "line"),
            first.line,
            first.log,
            first.reason
        )?;
    }
    notes.iter().try_for_each(|note| writeln!(text, "note      {note}"))?;
    if *quiet > 0 {
        writeln!(
            text,
            "quiet     {} without an attempt",
            plural(u64::try_from(*quiet).unwrap_or(u64::MAX), "site")
        )?;
    }
    if sites.is_empty() {
        return Ok(());
    }
    let head = ["SITE", "HOST", "ATTEMPTS", "REFUSED", "SIGNED IN", "OWNERS", "PEOPLE", "WORST CLIENT"];
    let rows = sites.iter().map(row).collect();
    write!(text, "\n{}", aligned(&[vec![head.map(str::to_owned)], rows].concat()))?;
    match report.is_detailed() {
        true => sites.iter().try_for_each(|site| write_details(text, site)),
        false => Ok(()),
    }
}

fn row(site: &SiteReport) -> [String; 8] {
    let worst = site.worst.first();
    [
        site.site.clone(),
        host(site),
        grouped(site.attempts),
        grouped(site.refused),
        grouped(site.signed_in),
        site.owners_helped.map_or_else(|| "-".to_owned(), grouped),
        grouped(site.likely_false_positives),
        worst
            .map_or_else(|| "-".to_owned(), |worst| format!("{} ({})", worst.client, grouped(worst.refused))),
    ]
}

fn write_details(text: &mut String, site: &SiteReport) -> std::fmt::Result {
    if site.refused == 0 {
        return Ok(());
    }
    writeln!(text, "\nsite      {} {}", site.site, host(site))?;
    for (at, limit) in site.limits.iter().enumerate() {
        let title = if at == 0 { "limits" } else { "" };
        writeln!(text, "{title:<10}{:>9}  {}", grouped(limit.refused), limit.limit)?;
    }
    write_clients(text, "worst", &site.worst)
}
