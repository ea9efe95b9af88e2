//! `tollgate schema`: prints the JSON Schema of the configuration file, for editors and other tools.

use std::io::{self, Write};

use super::Exit;
use crate::config;

pub(super) fn schema() -> anyhow::Result<Exit> {
    let mut text = serde_json::to_string_pretty(&config::schema())?;
    text.push('\n');
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Ok)
}
