//! The admin API of a running gate, as commands reach it: over its admin socket.
//!
//! With `--socket` no configuration is read, so a user of the socket needs neither the file nor its secrets.

mod request;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::Value;

pub(super) use self::request::{ApiRequest, ApiResponse};
use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
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

    /// Prints a response, as JSON or as `text` renders it.
    pub(super) fn print(&self, value: &Value, text: impl FnOnce(&Value) -> String) -> anyhow::Result<Exit> {
        match self.format {
            OutputFormat::Json => println!("{}", serde_json::to_string_pretty(value)?),
            OutputFormat::Text => print!("{}", text(value)),
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
        let sockets = config.admin.into_iter().filter_map(|address| match address {
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

/// A value from the gate, in one line without control characters: it is printed on a terminal.
pub(super) fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// The same for a text of several lines.
pub(super) fn lines(value: &Value) -> String {
    let lines = value.as_str().unwrap_or_default().lines();
    lines.map(|line| plain(&line.into())).collect::<Vec<_>>().join("\n")
}
