//! Finds the configuration, and prints what is wrong with it.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::error::ErrorKind;

use super::stored_policy::with_policy;
use super::usage_error;
use crate::app::dns::look_up_all;
use crate::cli::output::errln;
use crate::config::names::DnsNames;
use crate::config::{Config, Diagnostic, Loaded, Sources, further_places, grouped_alike, load};
use crate::time::Clock;

/// Arguments of every command that reads a configuration.
#[derive(Debug, Clone, Args)]
pub(super) struct ConfigArgs {
    /// The file, - for standard input, or store: for the policy of the store that the environment names
    /// [default: $TOLLGATE_CONFIG, ./config.toml, /etc/tollgate/config.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key over the file and the environment, as in --set store.capacity=5000
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

impl ConfigArgs {
    /// A file that is named without an option.
    pub(super) fn of_file(config: Option<PathBuf>) -> Self {
        Self { config, set: Vec::new() }
    }

    pub(super) fn is_given(&self) -> bool {
        self.config.is_some() || !self.set.is_empty()
    }

    /// Adds arguments from another place on the command line; a second file is a usage error. Own keys win.
    pub(super) fn add(&mut self, before: Self) {
        if self.config.is_some() && before.config.is_some() {
            usage_error(ErrorKind::ArgumentConflict, "the configuration is named twice");
        }
        self.config = self.config.take().or(before.config);
        self.set.splice(0..0, before.set);
    }

    /// The file, the environment and the command line together, and the policy of the store if they name it.
    ///
    /// # Errors
    /// If there is no file, or it cannot be read.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        Ok(with_policy(self.own_sources()?))
    }

    /// As [`own_sources`](Self::own_sources); `None` if there is no file and no setting.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn own_sources_or_none(&self) -> anyhow::Result<Option<Sources>> {
        let sources = self.own_sources();
        if self.path().is_none() { Ok(sources.ok()) } else { sources.map(Some) }
    }

    /// These sources, with the environment and the command line above them.
    pub(super) fn above(&self, sources: Sources) -> Sources {
        sources.with_environment(std::env::vars_os()).with_set(self.set.clone()).with_clock(Clock::system())
    }

    /// The file and those that it includes, the environment and the command line together, without asking a store.
    ///
    /// # Errors
    /// If there is no file, or it cannot be read.
    pub(super) fn own_sources(&self) -> anyhow::Result<Sources> {
        let read = match self.path() {
            Some(path) if path == Path::new("store:") => {
                Ok(Sources::from_text("store:", "policy = \"store\"\n"))
            }
            Some(path) if path == Path::new("-") => standard_input(),
            Some(path) => Sources::from_file(&path),
            None => Ok(Sources::from_text("environment", "")),
        };
        let sources = read.map_err(|error| {
            NoConfiguration::of(&self.path().unwrap_or_default().display().to_string(), &error)
        })?;
        let sources = self.above(sources);
        match sources.text.is_empty() && self.path().is_none() && !sources.set_any_key() {
            true => Err(NoConfiguration(format!(
                "no configuration: there is neither {} nor {}; `tollgate init` writes one, and -c FILE names one",
                DEFAULTS[0], DEFAULTS[1]
            ))
            .into()),
            false => Ok(sources.with_included()),
        }
    }

    /// Ends with a usage error if standard input would have to be the configuration and this file.
    pub(super) fn demand_own_input(&self, file: &Path) {
        let standard_input = Path::new("-");
        if file == standard_input && self.path().is_some_and(|path| path == standard_input) {
            let message = "standard input cannot be both the configuration and this file: name one of them";
            usage_error(ErrorKind::ArgumentConflict, message);
        }
    }

    /// The file; `None` leaves the environment and the command line.
    fn path(&self) -> Option<PathBuf> {
        let named = self.config.clone().or_else(|| std::env::var_os("TOLLGATE_CONFIG").map(PathBuf::from));
        named.or_else(|| DEFAULTS.iter().map(PathBuf::from).find(|path| path.exists()))
    }
}

/// The file on standard input, which gives it only once.
fn standard_input() -> io::Result<Sources> {
    static READ: OnceLock<Sources> = OnceLock::new();
    let sources = match READ.get() {
        Some(sources) => sources.clone(),
        None => Sources::from_reader("standard input", io::stdin())?,
    };
    Ok(READ.get_or_init(|| sources).clone())
}

/// No configuration can be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoConfiguration(String);

impl NoConfiguration {
    /// A file cannot be read.
    pub(super) fn of(name: &str, error: &io::Error) -> Self {
        Self(format!("cannot read the configuration {name}: {error}"))
    }
}

/// The configuration has mistakes, which were printed: there is nothing more to say.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has mistakes")]
pub(super) struct MistakesShown;

/// Checks the sources and reports on them; returns the configuration if it is valid.
pub(super) fn load_and_report(sources: &Sources) -> Option<Config> {
    let loaded = load(sources);
    report_all(&loaded, &sources.name);
    loaded.config
}

/// The same, with the addresses of the names of DNS that the configuration has, and with the sources that have them.
pub(super) fn load_with_addresses(sources: Sources) -> (Sources, Option<Config>) {
    let config = load_and_report(&sources);
    let has_names = |dns: &&DnsNames| !dns.names.is_empty() || !dns.services.is_empty();
    let Some(dns) = config.as_ref().map(|config| &config.process.dns).filter(has_names) else {
        return (sources, config);
    };
    let addresses = look_up_all(dns, LOOKUP_TIMEOUT);
    for name in dns.names.iter().filter(|name| addresses.addresses(name).is_empty()) {
        errln!("tollgate: {name} of [networks] has no address");
    }
    for name in dns.services.iter().filter(|name| addresses.targets(name).is_empty()) {
        errln!("tollgate: the upstream srv+http://{name} has no target");
    }
    let sources = Sources { addresses, ..sources };
    // Its warnings are those that were printed.
    let config = load(&sources).config;
    (sources, config)
}

/// Prints all mistakes and warnings, and last how many mistakes keep the configuration from being valid.
pub(super) fn report_all(loaded: &Loaded, name: &str) {
    for alike in grouped_alike(&loaded.diagnostics) {
        alike.first().iter().for_each(|first| report(first));
        further_places(&alike).iter().for_each(|others| errln!("{others}\n"));
    }
    if loaded.config.is_none() {
        let mistakes = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
        errln!("{name}: {}", counted(mistakes, "mistake"));
    }
}

/// Prints one mistake or warning, in colour on a terminal unless `NO_COLOR` is set.
pub(super) fn report(diagnostic: &Diagnostic) {
    let colour =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    errln!("{}\n", diagnostic.render(colour).trim_end());
}

pub(super) fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn key_value(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').context("write KEY=VALUE, as in store.capacity=5000")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// For all names at the start; the gate goes on looking for those that are missing.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
const DEFAULTS: [&str; 2] = ["./config.toml", "/etc/tollgate/config.toml"];
