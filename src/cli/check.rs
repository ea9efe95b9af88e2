//! `tollgate check`: all mistakes, all warnings and the worst case of each limit, alone and combined with the others.
//!
//! It binds nothing and connects to no server, so it runs anywhere. With `--probe` it connects to the store, from the
//! machine where it runs; the gate's own machine may differ.

pub(super) mod probe;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use self::probe::{ProbeReport, probe};

use super::Exit;
use super::sources::{ConfigArgs, counted, report_all};
use crate::cli::output::{errln, outln};
use crate::config::{Included, Loaded, Sources, combined, load, worst_cases};
use crate::policy::field::Field;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The same as -c FILE
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,
    /// Check the store, too: whether it is reachable, lets the gate in and is set up as it should be
    #[arg(long)]
    probe: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CheckFormat {
    Text,
    Json,
}

impl CheckArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }
}

pub(super) fn check(arguments: &CheckArgs) -> anyhow::Result<Exit> {
    let mut config = arguments.config.clone();
    config.add(ConfigArgs::of_file(arguments.file.clone()));
    let sources = config.sources()?;
    let loaded = load(&sources);
    let selected = loaded.config.as_ref().filter(|_| arguments.probe);
    let probed = selected.map(|config| probe(&config.store));
    match arguments.format {
        CheckFormat::Text => {
            print_text(&loaded, &sources);
            probed.iter().for_each(print_probed);
        }
        CheckFormat::Json => print_json(&loaded, probed.as_ref())?,
    }
    Ok(match (&loaded.config, &probed) {
        (None, _) => Exit::BadConfiguration,
        (Some(_), Some(probed)) if !probed.is_good() => Exit::Failed,
        (Some(_), _) => Exit::Ok,
    })
}

fn print_text(loaded: &Loaded, sources: &Sources) {
    let name = &sources.name;
    report_all(loaded, name);
    let Some(config) = &loaded.config else { return };
    worst_cases(&config.policy).iter().for_each(|(_, words)| outln!("{words}"));
    combined(&config.policy).iter().for_each(|route| outln!("{route}"));
    for route in
        config.policy.routes.iter().filter(|route| route.reading.user.iter().any(Field::is_in_authorization))
    {
        outln!(
            "{}: upstream connections that NTLM or Negotiate authenticated are not shared between clients",
            route.name
        );
    }
    if config.process.observes {
        outln!("mode = \"observe\": every limit only observes, nothing is refused");
    }
    let included = match sources.included.as_ref().map_or(0, Included::count) {
        0 => String::new(),
        count => format!(" with {}", counted(count, "included file")),
    };
    outln!("{name}{included}: valid, {}", counted(loaded.diagnostics.len(), "warning"));
}

fn print_probed(probed: &ProbeReport) {
    let store = &probed.store;
    probed.errors.iter().for_each(|error| errln!("error: the store ({store}) {error}"));
    probed.warnings.iter().for_each(|warning| errln!("warning: the store ({store}): {warning}"));
    if probed.is_good() {
        outln!("store ({store}): ok, {}", counted(probed.warnings.len(), "warning"));
    }
}

fn print_json(loaded: &Loaded, probed: Option<&ProbeReport>) -> anyhow::Result<()> {
    let mut result = loaded.to_json();
    if let Some(probed) = probed {
        result["ok"] = (loaded.config.is_some() && probed.is_good()).into();
        result["store"] = probed.to_json();
    }
    outln!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}
