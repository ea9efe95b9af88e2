//! `tollgate audit verify`: whether the lines of audit logs are one chain.
//!
//! It reads files and asks no gate. The chain has no key, so whether its end is all there shows only with `--last`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::Exit;
use super::service_unit::ServiceUnit;
use super::sources::{ConfigArgs, counted, report_all};
use crate::cli::output::{errln, outln};
use crate::config::load;
use crate::observe::audit::{AuditSummary, LineHash, verify};

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    /// Find the first line that was changed, removed, added or moved; exits with 1 if there is one
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// The files, the oldest first; - is standard input [default: admin.audit of the configuration]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The hash of a line that has to be there, as `tollgate status` printed it: without it, lines that are missing at the
    /// end are not found
    #[arg(long, value_name = "HASH")]
    last: Option<LineHash>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl AuditArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        let AuditAction::Verify(arguments) = &mut self.action;
        &mut arguments.config
    }
}

pub(super) fn audit(
    AuditArgs { action: AuditAction::Verify(arguments) }: &AuditArgs,
) -> anyhow::Result<Exit> {
    let VerifyArgs { files, last, config } = arguments;
    let files = match files.is_empty() {
        false => files.clone(),
        true => match configured(config)? {
            Some(file) => vec![file],
            None => return Ok(Exit::BadConfiguration),
        },
    };
    let opened = files.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    match verify(opened, *last) {
        Ok(summary) => {
            outln!("{}", words(&summary, last.is_some()));
            Ok(Exit::Ok)
        }
        Err(broken) => {
            errln!("{broken}");
            Ok(Exit::Failed)
        }
    }
}

/// The file of the configuration; `None` after its mistakes were printed.
fn configured(config: &ConfigArgs) -> anyhow::Result<Option<PathBuf>> {
    let sources = config.sources()?;
    let sources = match ServiceUnit::of(&sources) {
        Some(unit) => unit.apply_to(sources),
        None => sources,
    };
    let loaded = load(&sources);
    let Some(config) = &loaded.config else {
        report_all(&loaded, &sources.name);
        return Ok(None);
    };
    let audit = config.operators.audit.clone();
    audit.map(Some).context("the configuration has no admin.audit: name the file")
}

fn open(path: &PathBuf) -> anyhow::Result<(String, Box<dyn BufRead>)> {
    if path.as_os_str() == "-" {
        return Ok(("standard input".to_owned(), Box::new(BufReader::new(std::io::stdin()))));
    }
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok((path.display().to_string(), Box::new(BufReader::new(file))))
}

/// As in "12 lines are one chain, from ... to ...".
fn words(summary: &AuditSummary, has_last: bool) -> String {
    let AuditSummary { lines, torn, first, head, times } = summary;
    let mut text = counted(usize::try_from(*lines).unwrap_or(usize::MAX), "line");
    text.push_str(if *lines == 1 { " is one chain" } else { " are one chain" });
    if let Some((begin, end)) = times {
        text.push_str(&format!(", from {begin} to {end}"));
    }
    match first.is_of_nothing() {
        true => text.push_str("\nbegins with the first line of all"),
        false => text.push_str(&format!("\ngoes on after {first}, the last line of an earlier file")),
    }
    if *torn > 0 {
        text.push_str(&format!(
            "\n{} without an end: a gate ended while it wrote",
            counted(usize::try_from(*torn).unwrap_or(usize::MAX), "line")
        ));
    }
    text.push_str(&format!("\nlast line {head}"));
    if !has_last {
        text.push_str("\nwhether lines are missing at the end, only --last HASH can tell");
    }
    text
}
