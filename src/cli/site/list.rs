//! `tollgate site list`: the sites of the configuration, one a line. Each host of a template is a line, since a customer is
//! one of them.

use clap::Args;
use serde::Serialize;

use super::{SiteLine, chosen, config_of, sources_of};
use crate::cli::Exit;
use crate::cli::admin_api::OutputFormat;
use crate::cli::buckets::aligned;
use crate::cli::output::{errln, out, outln};
use crate::cli::sources::ConfigArgs;
use crate::config::{Config, WrittenRoute, shortened};
use crate::policy::{Mode, Site};

#[derive(Debug, Args)]
pub(super) struct SiteListArgs {
    /// Only these, by name or host [default: all]
    #[arg(value_name = "SITE")]
    sites: Vec<String>,
    /// How the list is printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

/// A line.
#[derive(Debug, Clone, Serialize)]
struct ListedSite {
    site: String,
    /// None means any.
    hosts: Vec<String>,
    upstream: Vec<String>,
    preset: Option<String>,
    #[serde(rename = "template")]
    is_template: bool,
    limits: Vec<ListedLimit>,
}

/// A limit that is not off.
#[derive(Debug, Clone, Serialize)]
struct ListedLimit {
    limit: String,
    mode: &'static str,
}

impl SiteLine for ListedSite {
    fn name(&self) -> &str {
        &self.site
    }

    fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

/// The list as JSON.
#[derive(Serialize)]
struct SiteList<'l> {
    sites: &'l [ListedSite],
}

pub(super) fn list(arguments: &SiteListArgs) -> anyhow::Result<Exit> {
    let sources = sources_of(&arguments.config)?;
    let Some(config) = config_of(&sources) else { return Ok(Exit::BadConfiguration) };
    let written = WrittenRoute::all(&sources);
    let sites = Site::all(&config.policy);
    let lines = sites.iter().flat_map(|site| lines_of(site, &config, &written)).collect::<Vec<_>>();
    let lines = chosen(lines, &arguments.sites)?;
    match arguments.format {
        OutputFormat::Json => {
            outln!("{}", serde_json::to_string_pretty(&SiteList { sites: &lines })?);
        }
        OutputFormat::Text if lines.is_empty() => errln!("tollgate: no site: `tollgate site add` adds one"),
        OutputFormat::Text => out!("{}", text(&lines)),
    }
    Ok(Exit::Ok)
}

fn lines_of(site: &Site<'_>, config: &Config, written: &[WrittenRoute]) -> Vec<ListedSite> {
    let of_site = written.iter().find(|written| written.name == site.name);
    let line = ListedSite {
        site: site.name.to_owned(),
        hosts: site.hosts().iter().map(ToString::to_string).collect(),
        upstream: upstreams(site, config),
        preset: of_site.and_then(|written| written.preset.clone()),
        is_template: of_site.is_some_and(|written| written.is_template),
        limits: limits(site, config),
    };
    match line.is_template {
        true => {
            line.hosts.iter().map(|host| ListedSite { hosts: vec![host.clone()], ..line.clone() }).collect()
        }
        false => vec![line],
    }
}

/// The addresses of all its routes, each once.
fn upstreams(site: &Site<'_>, config: &Config) -> Vec<String> {
    let groups = site.routes.iter().map(|route| route.upstream.unwrap_or(0));
    let targets = groups.filter_map(|group| config.upstreams.get(group)).flatten();
    let mut upstreams: Vec<String> = Vec::new();
    for upstream in targets.map(ToString::to_string) {
        if !upstreams.contains(&upstream) {
            upstreams.push(upstream);
        }
    }
    upstreams
}

/// The limits that its routes have, by name and in the order of the file.
fn limits(site: &Site<'_>, config: &Config) -> Vec<ListedLimit> {
    let mut numbers: Vec<usize> = site.routes.iter().flat_map(|route| &route.limits).copied().collect();
    numbers.sort_unstable();
    let limits = numbers.iter().filter_map(|&number| config.policy.limits.get(number));
    let in_force = limits.filter(|limit| limit.mode != Mode::Off && limit.is_live());
    let mut listed: Vec<ListedLimit> = in_force
        .map(|limit| ListedLimit { limit: limit.name.to_string(), mode: limit.mode.name() })
        .collect();
    // A limit of the file may be several that follow each other.
    listed.dedup_by(|next, one| next.limit == one.limit);
    listed
}

fn text(lines: &[ListedSite]) -> String {
    let head = ["SITE", "HOSTS", "UPSTREAM", "PRESET", "LIMITS"].map(str::to_owned);
    aligned(&[vec![head], lines.iter().map(row).collect()].concat())
}

fn row(line: &ListedSite) -> [String; 5] {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let limit = |ListedLimit { limit, mode }: &ListedLimit| match *mode {
        mode if mode == Mode::Enforce.name() => limit.clone(),
        mode => format!("{limit} ({mode})"),
    };
    let limits: Vec<String> = line.limits.iter().map(limit).collect();
    let template = if line.is_template { "template " } else { "" };
    let preset = format!("{template}{}", line.preset.as_deref().unwrap_or_default());
    [
        line.site.clone(),
        or_dash(shortened(&line.hosts)),
        or_dash(line.upstream.join(", ")),
        or_dash(preset.trim_end().to_owned()),
        or_dash(limits.join(", ")),
    ]
}
