//! The admin API of a running gate, as commands reach it: over its admin socket.
//!
//! With `--socket` no configuration is read, so a user of the socket needs neither the file nor its secrets.

mod request;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use self::request::{ApiRequest, ApiResponse};
use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::cli::output::{out, outln};
use crate::config::Sources;
use crate::net::listener::ListenAddress;

/// Selects the gate, and how its response is printed.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// The gate's admin socket [default: the first one in the configuration's admin.listen]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    Text,
    Json,
}

impl AdminArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        &mut self.config
    }

    /// Sends a request; `None` if the configuration is needed and bad, which is then reported.
    ///
    /// # Errors
    /// If no gate listens, or it does not answer.
    pub(super) fn call(&self, request: ApiRequest) -> anyhow::Result<Option<ApiResponse>> {
        let Some(socket) = self.socket()? else { return Ok(None) };
        request.call(&socket).map(Some)
    }

    /// The configuration's sources.
    ///
    /// # Errors
    /// If there is no file, or it cannot be read.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        self.config.sources()
    }

    /// Prints a page, as JSON or as `text` renders it.
    pub(super) fn print<P: DeserializeOwned>(
        &self,
        value: &Value,
        text: impl FnOnce(&P) -> String,
    ) -> anyhow::Result<Exit> {
        match self.format {
            OutputFormat::Json => outln!("{}", serde_json::to_string_pretty(value)?),
            OutputFormat::Text => out!("{}", text(&page(value)?)),
        }
        Ok(Exit::Ok)
    }

    /// The gate's admin socket; `None` if the configuration is needed and bad, which is then reported.
    ///
    /// # Errors
    /// If there is no configuration, or it names no admin socket.
    pub(super) fn socket(&self) -> anyhow::Result<Option<PathBuf>> {
        if let Some(socket) = &self.socket {
            return Ok(Some(socket.clone()));
        }
        let Some(config) = load_and_report(&self.config.sources()?) else { return Ok(None) };
        let sockets = config.operators.admin.into_iter().filter_map(|address| match address {
            ListenAddress::Unix(path) => Some(path),
            ListenAddress::Tcp(_) | ListenAddress::Tls(_) | ListenAddress::Systemd { .. } => None,
        });
        match sockets.into_iter().next() {
            Some(socket) => Ok(Some(socket)),
            None => bail!(
                "the configuration has no admin socket: write\n\n\
                 [admin]\nlisten = \"unix:/run/tollgate/admin.sock\"\n\n\
                 and start the gate again, or name the socket of another gate with --socket PATH"
            ),
        }
    }
}

/// Reads a page of the gate. Its texts lose their control characters and marks that turn the direction of writing, because
/// they are printed on a terminal: names come from the configuration, and addresses from clients.
///
/// # Errors
/// If the answer of the gate has another form.
pub(super) fn page<P: DeserializeOwned>(value: &Value) -> anyhow::Result<P> {
    let mut value = value.clone();
    clean(&mut value);
    serde_json::from_value(value).context("the gate's answer has another form")
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) => text.retain(is_shown),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
            // The text of a diagnostic has lines.
            Value::String(text) if name == "text" => text.retain(|letter| letter == '\n' || is_shown(letter)),
            other => clean(other),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a terminal shows a character, and does nothing else.
pub(super) fn is_shown(letter: char) -> bool {
    // `Bidi_Control` of Unicode (UAX 9).
    let turns = matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    !turns && !letter.is_control()
}
