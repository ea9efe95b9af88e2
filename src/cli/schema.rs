//! `tollgate schema`: prints the JSON Schema of the configuration file, for editors and other tools.

use super::Exit;
use crate::cli::output::out;
use crate::config;

pub(super) fn schema() -> anyhow::Result<Exit> {
    let mut text = serde_json::to_string_pretty(&config::schema())?;
    text.push('\n');
    out!("{text}");
    Ok(Exit::Ok)
}
