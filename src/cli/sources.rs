//! Finds the configuration, and prints what is wrong with it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::{Config, Diagnostic, Sources, load};

/// Arguments of every command that reads a configuration.
#[derive(Debug, Clone, Args)]
pub(super) struct ConfigArgs {
    /// The file [default: $TOLLGATE_CONFIG, ./config.toml, /etc/tollgate/config.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key over the file and the environment, as in --set store.capacity=5000
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

impl ConfigArgs {
    /// The file, the environment and the command line together.
    ///
    /// # Errors
    /// If there is no file, or it cannot be read.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        let path = self.path()?;
        let sources = Sources::from_file(&path).map_err(|error| {
            NoConfiguration(format!("cannot read the configuration {}: {error}", path.display()))
        })?;
        Ok(sources.with_environment(std::env::vars_os()).with_set(self.set.clone()))
    }

    fn path(&self) -> Result<PathBuf, NoConfiguration> {
        if let Some(path) = &self.config {
            return Ok(path.clone());
        }
        if let Some(path) = std::env::var_os("TOLLGATE_CONFIG") {
            return Ok(path.into());
        }
        let found = DEFAULTS.iter().map(Path::new).find(|path| path.exists());
        found.map(Path::to_path_buf).ok_or_else(|| {
            NoConfiguration(format!(
                "no configuration: there is neither {} nor {}; name one with --config FILE",
                DEFAULTS[0], DEFAULTS[1]
            ))
        })
    }
}

/// No configuration can be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoConfiguration(String);

/// Prints all mistakes and warnings; returns the configuration if it is valid.
pub(super) fn load_and_report(sources: &Sources) -> Option<Config> {
    let loaded = load(sources);
    loaded.diagnostics.iter().for_each(report);
    loaded.config
}

/// Prints one mistake or warning, in colour on a terminal unless `NO_COLOR` is set.
pub(super) fn report(diagnostic: &Diagnostic) {
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    eprintln!("{}\n", diagnostic.render(colour).trim_end());
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, as in store.capacity=5000")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

const DEFAULTS: [&str; 2] = ["./config.toml", "/etc/tollgate/config.toml"];
