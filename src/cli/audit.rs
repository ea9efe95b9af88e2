//! `tollgate audit`: whether the lines of audit logs are one chain, and what all gates that share a store have changed.
//!
//! It reads files and a store, and asks no gate. The chain has no key, so whether its end is all there shows only with
//! `--last` or `--fleet`.

mod fleet;
mod list;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::Exit;
use super::admin_api::OutputFormat;
use super::policy::opened;
use super::service_unit::ServiceUnit;
use super::sources::{ConfigArgs, MistakesShown, counted, report_all};
use crate::cli::output::{errln, outln};
use crate::config::{Sources, load};
use crate::observe::audit::{AuditSummary, LineHash, verify};
use crate::observe::line_log::rotated::{is_compressed, rotated_files};
use crate::store::SharedAudit;
use crate::time::Clock;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    action: AuditAction,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    /// Find the first line that was changed, removed, added or moved; exits with 1 if there is one
    Verify(VerifyArgs),
    /// List the newest changes of all gates that share a store, the oldest first; exits with 1 if the store has lost some
    List {
        #[command(flatten)]
        config: ConfigArgs,
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
        format: OutputFormat,
    },
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
    /// Ask the store that gates share, too: whether it has all changes, and these files all that it has of them
    #[arg(long)]
    fleet: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

impl AuditArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        match &mut self.action {
            AuditAction::Verify(VerifyArgs { config, .. }) | AuditAction::List { config, .. } => config,
        }
    }
}

pub(super) fn audit(AuditArgs { action }: &AuditArgs) -> anyhow::Result<Exit> {
    match action {
        AuditAction::Verify(arguments) => arguments.run(),
        AuditAction::List { config, format } => list::list(config, *format),
    }
}

impl VerifyArgs {
    fn run(&self) -> anyhow::Result<Exit> {
        let Self { files, last, fleet, config } = self;
        if *fleet && files.iter().any(|file| file.as_os_str() == "-") {
            bail!("--fleet reads files twice: name them, instead of standard input");
        }
        let files = match (files.is_empty(), *fleet) {
            (false, _) => files.clone(),
            (true, true) => configured_if_any(config)?,
            (true, false) => match configured(config)? {
                Some(file) => vec![file],
                None => return Ok(Exit::BadConfiguration),
            },
        };
        if !files.is_empty() {
            let opened = files.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
            match verify(opened, *last) {
                Ok(summary) => outln!("{}", words(&summary, last.is_some() || *fleet)),
                Err(broken) => {
                    errln!("{broken}");
                    return Ok(Exit::Failed);
                }
            }
        }
        if *fleet { fleet::verify_fleet(&files, config) } else { Ok(Exit::Ok) }
    }
}

/// The file of the configuration, also if it is missing, and those that logrotate made of it; none without `admin.audit`.
fn configured_if_any(config: &ConfigArgs) -> anyhow::Result<Vec<PathBuf>> {
    let sources = with_service(config.sources()?);
    let loaded = load(&sources);
    if loaded.config.is_none() && sources.path.is_some() {
        report_all(&loaded, &sources.name);
        return Err(MistakesShown.into());
    }
    let Some(path) = loaded.config.and_then(|config| config.operators.audit) else { return Ok(Vec::new()) };
    let rotated = rotated_files(&path).with_context(|| path.display().to_string())?;
    let rotated = rotated.into_iter().map(|(_, file)| file).filter(|file| !is_compressed(file));
    Ok(rotated.chain([path]).collect())
}

/// The file of the configuration; `None` after its mistakes were printed.
fn configured(config: &ConfigArgs) -> anyhow::Result<Option<PathBuf>> {
    let sources = with_service(config.sources()?);
    let loaded = load(&sources);
    let Some(config) = &loaded.config else {
        report_all(&loaded, &sources.name);
        return Ok(None);
    };
    let audit = config.operators.audit.clone();
    audit.map(Some).context("the configuration has no admin.audit: name the file")
}

/// What the store of these sources has, opened as the gate's unit opens it.
fn audit_of_store(sources: Sources) -> anyhow::Result<SharedAudit> {
    let now = Clock::system().now();
    opened(&with_service(sources))?.run(async |fleet| Ok(fleet.audit(now).await?))
}

fn with_service(sources: Sources) -> Sources {
    match ServiceUnit::of(&sources) {
        Some(unit) => unit.apply_to(sources),
        None => sources,
    }
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
        text.push_str("\nwhether lines are missing at the end, only --last HASH or --fleet can tell");
    }
    text
}
