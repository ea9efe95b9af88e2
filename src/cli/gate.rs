//! A running gate, as commands find it: by its admin socket.
//!
//! The surprising thing: with `--socket` no configuration is read, so that whoever may use the socket needs neither the file
//! nor its secrets.

mod ask;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};

pub(super) use self::ask::{Answer, Question};
use super::sources::{ConfigArgs, load_and_report};
use crate::net::listener::Address;

/// Which gate, and how its answer is printed.
#[derive(Debug, Args)]
pub(super) struct At {
    /// The gate's admin socket [default: the first one in the configuration's admin.listen]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

impl At {
    /// Asks it; `None` if the configuration is needed and bad, and that was said.
    ///
    /// # Errors
    /// If there is no gate, or it does not answer.
    pub(super) fn ask(&self, question: Question) -> anyhow::Result<Option<Answer>> {
        let Some(socket) = self.socket()? else { return Ok(None) };
        question.ask(&socket).map(Some)
    }

    fn socket(&self) -> anyhow::Result<Option<PathBuf>> {
        if let Some(socket) = &self.socket {
            return Ok(Some(socket.clone()));
        }
        let Some(config) = load_and_report(&self.config.sources()?) else { return Ok(None) };
        let sockets = config.admin.into_iter().filter_map(|address| match address {
            Address::Unix(path) => Some(path),
            Address::Tcp(_) | Address::Tls(_) | Address::Systemd { .. } => None,
        });
        match sockets.into_iter().next() {
            Some(socket) => Ok(Some(socket)),
            None => bail!(
                "the configuration has no admin socket: write\n\n[admin]\nlisten = \"unix:/run/tollgate/admin.sock\"\n\n\
                 and start the gate again, or name the socket of another gate with --socket PATH"
            ),
        }
    }
}
