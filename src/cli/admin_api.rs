//! The admin API of a running gate, as commands reach it: over its admin socket, or over TCP with a token.
//!
//! With `--admin unix:PATH` no configuration is read, so a user of the socket needs neither the file nor its secrets.

mod request;
mod server;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use self::request::{ApiRequest, ApiResponse};
use self::server::AdminServer;
use super::Exit;
use super::sources::{ConfigArgs, report_all};
use crate::cli::output::{out, outln};
use crate::config::{Config, Sources, admin_token, load};

/// Selects the gate, and how its response is printed.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// The gate's admin API: unix:PATH, http://HOST:PORT or https://HOST:PORT. Over TCP the token is
    /// $TOLLGATE_ADMIN__TOKEN or the configuration's admin.token [default: the configuration's admin.listen]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<AdminServer>,
    /// The same as --admin unix:PATH
    #[arg(long, value_name = "PATH", conflicts_with = "admin")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(super) format: OutputFormat,
}

/// Why something is changed.
#[derive(Debug, Default, Clone, Args)]
pub(super) struct ReasonArgs {
    /// The reason, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(super) why: Option<String>,
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
        let Some(gate) = self.gate()? else { return Ok(None) };
        request.call(&gate).map(Some)
    }

    /// The same, to change something for a reason.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(super) fn call_because(
        &self,
        request: ApiRequest,
        ReasonArgs { why }: &ReasonArgs,
    ) -> anyhow::Result<Option<ApiResponse>> {
        let Some(gate) = self.gate()? else { return Ok(None) };
        request.call(&AdminGate { why: why.clone(), ..gate }).map(Some)
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

    /// Where the gate is asked; `None` if the configuration is needed and bad, which is then reported.
    ///
    /// # Errors
    /// If there is no configuration, it names no address for operators, or a token would be sent unencrypted.
    pub(super) fn gate(&self) -> anyhow::Result<Option<AdminGate>> {
        let server = match (&self.admin, &self.socket) {
            (Some(server), _) => server.clone(),
            (None, Some(path)) => AdminServer::Unix(path.clone()),
            (None, None) => match self.configured()? {
                Some(server) => server,
                None => return Ok(None),
            },
        };
        let token = match server {
            AdminServer::Unix(_) => None,
            AdminServer::Http(_) => self.token(),
        };
        ensure!(
            token.is_none() || server.keeps_token_secret(),
            "the token would be sent to {server} unencrypted: use https://, or a tunnel to 127.0.0.1"
        );
        Ok(Some(AdminGate { server, token, why: None }))
    }

    /// The first address of `admin.listen`, a socket if there is one.
    fn configured(&self) -> anyhow::Result<Option<AdminServer>> {
        let sources = self.config.sources()?;
        let loaded = load(&sources);
        let Some(config) = &loaded.config else {
            report_all(&loaded, &sources.name);
            return Ok(None);
        };
        let mut servers: Vec<_> = config.operators.admin.iter().filter_map(AdminServer::of).collect();
        servers.sort_by_key(|server| matches!(server, AdminServer::Http(_)));
        match servers.into_iter().next() {
            Some(server) => Ok(Some(server)),
            None => bail!(
                "the configuration has no admin socket: write\n\n\
                 [admin]\nlisten = \"unix:/run/tollgate/admin.sock\"\n\n\
                 and start the gate again, or name another gate with --admin unix:PATH or --admin http://HOST:PORT"
            ),
        }
    }

    /// The token from the environment, or else from the file. Without one, the gate answers that one is missing.
    fn token(&self) -> Option<String> {
        let named = std::env::var("TOLLGATE_ADMIN__TOKEN").ok().filter(|token| !token.is_empty());
        let is_reference = |token: &String| token.starts_with("${");
        named.filter(|token| !is_reference(token)).or_else(|| admin_token(&self.config.sources().ok()?))
    }
}

/// A gate that commands ask.
#[derive(Debug, Clone)]
pub(super) struct AdminGate {
    server: AdminServer,
    token: Option<String>,
    /// The reason of a change.
    why: Option<String>,
}

impl AdminGate {
    /// The gate of this configuration by its Unix socket; `None` if it has none.
    pub(super) fn on_socket(config: &Config) -> Option<Self> {
        let mut servers = config.operators.admin.iter().filter_map(AdminServer::of);
        let server = servers.find(|server| matches!(server, AdminServer::Unix(_)))?;
        Some(Self { server, token: None, why: None })
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
