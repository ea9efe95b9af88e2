//! `tollgate presets [NAME]`: lists the presets of known applications, or prints one as it is.
//!
//! A printed preset is a piece of a configuration file, to be pasted and edited. The markers of `init --detect` are none of it.

use anyhow::anyhow;
use clap::Args;

use super::Exit;
use crate::cli::output::out;
use crate::config::preset::{UnknownPreset, named, presets};

#[derive(Debug, Args)]
pub(super) struct PresetsArgs {
    /// Print this one as TOML
    name: Option<String>,
}

pub(super) fn presets_of(arguments: &PresetsArgs) -> anyhow::Result<Exit> {
    let text = match &arguments.name {
        Some(name) => {
            let unknown = |UnknownPreset { hint }| anyhow!("unknown preset `{name}`: {hint}");
            named(name).map_err(unknown)?.text().to_owned()
        }
        None => list(),
    };
    out!("{text}");
    Ok(Exit::Ok)
}

fn list() -> String {
    let lines = presets().iter().map(|preset| {
        let origin = match preset.origin().strip_prefix("verified: ") {
            Some(product) => format!("verified on {product}"),
            None => "from documentation".to_owned(),
        };
        format!("{:<16}{:<49}{}\n", preset.name, origin, preset.about())
    });
    lines.collect()
}
