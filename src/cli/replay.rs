//! `tollgate replay`: what a configuration would have refused, by access logs.
//!
//! It opens the logs, shows the progress and prints; `replay` decides. `text` and `html` are the forms of the report.

pub(super) mod html;
mod server_config;
pub(super) mod text;

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::cli::output::out;
use crate::config::{Config, Sources};
use crate::replay::line::{AccessLogFormat, FormatChoice, LogPattern, LogPatternError};
use crate::replay::{LogInput, ReplayReport, ReplaySettings, ReplayedPolicy, replay};

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The format of all lines: combined, common, json, haproxy, iis, alb, or the text of nginx' log_format or Apache's
    /// LogFormat, as in '$remote_addr - - [$time_local] "$request" $status' [default: each line shows its own]
    #[arg(long, value_name = "FORMAT", value_parser = format_choice)]
    format: Option<FormatChoice>,
    /// A configuration of nginx: the one of its log_format that fits
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    nginx: Option<PathBuf>,
    /// A configuration of Apache: the one of its LogFormat that fits
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "nginx"])]
    apache: Option<PathBuf>,
    /// How the report is printed
    #[arg(long, value_enum, default_value_t = ReplayOutput::Text)]
    output: ReplayOutput,
    /// Write the report as one page with plots, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Another configuration: show who is refused by only one of the two
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// The share of good clients that a suggested rate may refuse
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    good_share: f64,
    /// Access logs in the order of their times, plain, .gz or .zst; - is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReplayOutput {
    Text,
    Json,
}

impl ReplayArgs {
    fn format(&self) -> anyhow::Result<FormatChoice> {
        let (path, formats): (_, fn(&str) -> Vec<LogPattern>) = match (&self.nginx, &self.apache) {
            (Some(path), _) => (path, server_config::of_nginx),
            (_, Some(path)) => (path, server_config::of_apache),
            (None, None) => return Ok(self.format.clone().unwrap_or(FormatChoice::Found)),
        };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let patterns = formats(&text);
        match patterns.is_empty() {
            // The formats that servers log by default.
            true => Ok(FormatChoice::Found),
            false => Ok(FormatChoice::AnyOf(patterns)),
        }
    }

    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn run(arguments: &ReplayArgs) -> anyhow::Result<Exit> {
    let sources = arguments.config.sources()?;
    let compared = arguments.compare.as_deref().map(Sources::from_file).transpose();
    let compared = compared.context("cannot read the configuration of --compare")?;
    let compared = compared.map(|other| other.with_environment(std::env::vars_os()));
    let mut policies = Vec::new();
    for sources in [Some(sources), compared].into_iter().flatten() {
        let Some(config) = load_and_report(&sources) else { return Ok(Exit::BadConfiguration) };
        policies.push(replayed_policy(sources.name, config));
    }
    let progress = progress_bar(&arguments.logs);
    let logs = arguments.logs.iter().map(|path| open(path, &progress));
    let logs = logs.collect::<anyhow::Result<Vec<_>>>()?;
    let format = arguments.format()?;
    let report = replay(logs, policies, &ReplaySettings { format, good_share: arguments.good_share });
    progress.finish_and_clear();
    let report = report?;
    print(&report, arguments.output)?;
    if let Some(path) = &arguments.html {
        let page = html::page(&report);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if report.log.attempts == 0 { Exit::Failed } else { Exit::Ok })
}

fn print(report: &ReplayReport, output: ReplayOutput) -> anyhow::Result<()> {
    let printed = match output {
        ReplayOutput::Text => text::text(report),
        ReplayOutput::Json => serde_json::to_string_pretty(report)? + "\n",
    };
    out!("{printed}");
    Ok(())
}

fn replayed_policy(name: String, config: Config) -> ReplayedPolicy {
    ReplayedPolicy {
        name,
        policy: config.policy,
        capacity: config.store.capacity,
        prefixes: config.client.prefixes,
        refuse_status: config.refuse.status,
    }
}

/// Opens a log; - is standard input.
pub(super) fn open(path: &Path, progress: &ProgressBar) -> anyhow::Result<LogInput> {
    if path == Path::new("-") {
        let bytes: Box<dyn Read + Send> = Box::new(progress.wrap_read(io::stdin()));
        return Ok(LogInput { name: "standard input".to_owned(), bytes });
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(LogInput { name: path.display().to_string(), bytes: Box::new(progress.wrap_read(file)) })
}

/// Shows how much of the logs was read, on a terminal only.
pub(super) fn progress_bar(logs: &[PathBuf]) -> ProgressBar {
    let length =
        |path: &PathBuf| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    let total: Option<u64> = logs.iter().map(length).sum();
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let template = match total {
        Some(_) => "{wide_bar} {bytes} of {total_bytes}, {eta} left",
        None => "{spinner} {bytes}",
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total, target).with_style(style)
}

fn format_choice(text: &str) -> Result<FormatChoice, LogPatternError> {
    let known = match text {
        "combined" => AccessLogFormat::Combined,
        "common" => AccessLogFormat::Common,
        "json" => AccessLogFormat::Json,
        "haproxy" => AccessLogFormat::Haproxy,
        "iis" => return Ok(FormatChoice::Columns),
        "alb" => return Ok(FormatChoice::AnyOf(vec![LogPattern::of_load_balancer()?])),
        pattern => return Ok(FormatChoice::AnyOf(vec![LogPattern::of(pattern)?])),
    };
    Ok(FormatChoice::Known(known))
}

/// `1%`, or `0.01`.
fn share(text: &str) -> anyhow::Result<f64> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    let number = number.ok().filter(|share| (0.0..=1.0).contains(share));
    number.context("write a share between 0% and 100%, as in 1%")
}
