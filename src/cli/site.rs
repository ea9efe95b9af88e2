//! `tollgate site`: adds a site to the configuration, lists all sites, and reports on each by the gate's logs.
//!
//! Every command reads the configuration as the gate of its systemd unit does.

mod add;
mod list;
mod report;
mod unplaced_file;

use anyhow::bail;
use clap::{Args, Subcommand};
use tollgate_grammar::diagnostic::nearest;

use super::Exit;
use super::service_unit::ServiceUnit;
use super::sources::{ConfigArgs, report_all};
use crate::config::{Config, Sources, load};

#[derive(Debug, Args)]
pub(super) struct SiteArgs {
    #[command(subcommand)]
    action: SiteAction,
}

#[derive(Debug, Subcommand)]
enum SiteAction {
    /// Add a site with a preset; the configuration is checked with it before anything is written
    Add(add::SiteAddArgs),
    /// List all sites: hosts, upstream, preset, limits; each host of a template has its line
    List(list::SiteListArgs),
    /// Report what came of the attempts at each site, by the gate's logs
    Report(report::SiteReportArgs),
}

impl SiteArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        match &mut self.action {
            SiteAction::Add(arguments) => &mut arguments.config,
            SiteAction::List(arguments) => &mut arguments.config,
            SiteAction::Report(arguments) => &mut arguments.config,
        }
    }
}

pub(super) fn site(arguments: &SiteArgs) -> anyhow::Result<Exit> {
    match &arguments.action {
        SiteAction::Add(arguments) => add::add(arguments),
        SiteAction::List(arguments) => list::list(arguments),
        SiteAction::Report(arguments) => report::report(arguments),
    }
}

/// The sources as the gate reads them.
fn sources_of(config: &ConfigArgs) -> anyhow::Result<Sources> {
    let sources = config.sources()?;
    Ok(match ServiceUnit::of(&sources) {
        Some(unit) => unit.apply_to(sources),
        None => sources,
    })
}

/// The configuration; `None` after its mistakes were printed. Its warnings are left to `tollgate check`.
fn config_of(sources: &Sources) -> Option<Config> {
    let loaded = load(sources);
    if loaded.config.is_none() {
        report_all(&loaded, &sources.name);
    }
    loaded.config
}

/// A line of a list: the site, or one host of a template.
trait SiteLine {
    fn name(&self) -> &str;
    fn hosts(&self) -> &[String];
}

/// The lines whose site or host is among these words; all without words.
///
/// # Errors
/// If a word is neither a site nor a host.
fn chosen<L: SiteLine>(lines: Vec<L>, words: &[String]) -> anyhow::Result<Vec<L>> {
    let is_named = |line: &L, word: &String| {
        line.name() == word || line.hosts().iter().any(|host| host.eq_ignore_ascii_case(word))
    };
    if let Some(unknown) = words.iter().find(|word| !lines.iter().any(|line| is_named(line, word))) {
        let known =
            lines.iter().flat_map(|line| line.hosts().iter().map(String::as_str).chain([line.name()]));
        match nearest(unknown, known) {
            Some(near) => bail!("there is no site `{unknown}`: did you mean `{near}`?"),
            None => bail!("there is no site `{unknown}`: `tollgate site list` shows all"),
        }
    }
    let is_chosen = |line: &L| words.is_empty() || words.iter().any(|word| is_named(line, word));
    Ok(lines.into_iter().filter(is_chosen).collect())
}
