//! `tollgate buckets`: what a running gate keeps for one address or one account, and words to it about that.
//!
//! It asks the gate over its admin socket and knows nothing of buckets by itself. The surprising thing: with `--socket` no
//! configuration is read, so that whoever may use the socket needs neither the file nor its secrets.

mod ask;
mod table;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use self::ask::Question;
use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::config::values;
use crate::net::listener::Address;
use crate::policy::holder::Holder;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show each limit's tokens, and when there will be more; takes nothing
    Show(Where),
    /// Give tokens, never more than fit
    Credit {
        #[command(flatten)]
        at: Where,
        /// How many
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        tokens: u32,
        /// Under this limit only
        #[arg(long, value_name = "NAME")]
        limit: Option<String>,
    },
    /// Make them as if they had never been seen: no debt, no failures, no waits
    Reset {
        #[command(flatten)]
        at: Where,
        /// Under this limit only
        #[arg(long, value_name = "NAME")]
        limit: Option<String>,
    },
    /// Give one a rate of its own for a while, or end that
    Rate {
        #[command(flatten)]
        at: Where,
        /// The limit
        limit: String,
        /// The rate, as in the file: "60/min"
        #[arg(value_parser = rate, required_unless_present = "end", requires = "lasts")]
        rate: Option<String>,
        /// For how long: 1h, 1d
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        lasts: Option<String>,
        /// End it now
        #[arg(long, conflicts_with_all = ["rate", "lasts"])]
        end: bool,
    },
}

#[derive(Debug, Args)]
struct Where {
    /// Whose: ip:ADDRESS or user:NAME
    #[arg(value_parser = key)]
    key: String,
    /// The gate's admin socket [default: the first one in the configuration's admin.listen]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn buckets(Arguments { action }: &Arguments) -> anyhow::Result<Exit> {
    let (at, question) = match action {
        Action::Show(at) => (at, Question { method: "GET", below: "", body: None }),
        Action::Credit { at, tokens, limit } => {
            let body = with_limit(json!({"tokens": tokens}), limit.as_deref());
            (at, Question { method: "POST", below: "/credit", body: Some(body) })
        }
        Action::Reset { at, limit } => {
            let body = with_limit(json!({}), limit.as_deref());
            (at, Question { method: "DELETE", below: "", body: Some(body) })
        }
        Action::Rate { at, limit, rate, lasts, end } => {
            let body = if *end { json!({}) } else { json!({"rate": rate, "for": lasts}) };
            let method = if *end { "DELETE" } else { "PUT" };
            (at, Question { method, below: "/rate", body: Some(with_limit(body, Some(limit))) })
        }
    };
    let Some(socket) = at.socket()? else { return Ok(Exit::BadConfiguration) };
    let answer = question.ask(&socket, &at.key)?;
    match at.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&answer)?),
        Format::Text => print!("{}", table::text(&answer, &at.key)),
    }
    Ok(Exit::Ok)
}

impl Where {
    /// `None` if the configuration is bad, and that was said.
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

fn with_limit(mut body: Value, limit: Option<&str>) -> Value {
    if let Some(limit) = limit {
        body["limit"] = limit.into();
    }
    body
}

fn key(text: &str) -> Result<String, String> {
    Holder::parse(text.as_bytes()).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<String, String> {
    text.parse::<values::Rate>().map(|_| text.to_owned()).map_err(words)
}

fn time(text: &str) -> Result<String, String> {
    text.parse::<values::Duration>().map(|_| text.to_owned()).map_err(words)
}

fn words(mistake: values::Mistake) -> String {
    mistake.to_string()
}
