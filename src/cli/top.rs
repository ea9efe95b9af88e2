//! `tollgate top`: a running gate in a terminal: who is there, who is refused, and what its limits decide.
//!
//! `overview` reads the pages of the admin API, `poller` asks for them in a separate thread, `state` holds what the
//! operator has chosen and answers to keys, `screen` draws, and `terminal` runs the loop. Where standard output is no
//! terminal, one overview is printed as text.

mod overview;
mod poller;
mod screen;
mod state;
mod terminal;

use std::io::IsTerminal;

use clap::Args;

use self::overview::{ClientOrder, Minutes, Overview, OverviewQuery};
use self::screen::Palette;
use self::state::TopState;
use super::Exit;
use super::admin_api::{AdminArgs, OutputFormat};
use super::sources::ConfigArgs;
use crate::cli::output::out;
use crate::config::values;
use crate::time::Span;

/// Arguments of `tollgate top`.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    #[command(flatten)]
    at: AdminArgs,
    /// How often the gate is asked: 1s to 60s
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "2s")]
    every: Span,
    /// Print one overview and end; the default if the output is not a terminal or --format is json
    #[arg(long)]
    once: bool,
    /// The order of the clients
    #[arg(long, value_enum, default_value_t = ClientOrder::Refused)]
    sort: ClientOrder,
    /// Only the clients of this limit
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// Count the last minute, the last ten or the last sixty
    #[arg(long, value_enum, default_value_t = Minutes::Ten)]
    minutes: Minutes,
}

impl TopArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        self.at.config_mut()
    }
}

/// Shows the gate until the operator quits, or prints one overview.
///
/// # Errors
/// If no gate listens, or the terminal cannot be used.
pub(super) fn top(arguments: &TopArgs) -> anyhow::Result<Exit> {
    let Some(gate) = arguments.at.gate()? else { return Ok(Exit::BadConfiguration) };
    let query = OverviewQuery {
        order: arguments.sort,
        minutes: arguments.minutes,
        limit: arguments.limit.clone(),
        every: arguments.every,
    };
    // Before the screen is taken: an error about a gate that is not there belongs on standard error.
    let pages = overview::fetch(&gate, &query)?;
    if arguments.at.format == OutputFormat::Json {
        return arguments.at.print(&pages, |_: &serde_json::Value| String::new());
    }
    let state = TopState::new(Overview::parse(&pages)?, query);
    if arguments.once || !std::io::stdout().is_terminal() {
        out!("{}", screen::print(&state)?);
        return Ok(Exit::Ok);
    }
    let palette = Palette::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));
    terminal::run(&gate, state, palette)?;
    Ok(Exit::Ok)
}

fn interval(text: &str) -> anyhow::Result<Span> {
    let values::Duration(every) = text.parse()?;
    anyhow::ensure!((MIN_INTERVAL..=MAX_INTERVAL).contains(&every), "has to be from 1s to 60s");
    Ok(every)
}

/// More often would cost the gate more than a reader sees.
const MIN_INTERVAL: Span = Span::from_secs(1);
/// Less often is not a live view.
const MAX_INTERVAL: Span = Span::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_is_asked_once_a_second_at_most_and_once_a_minute_at_least() {
        assert_eq!(interval("1s").unwrap(), Span::from_secs(1));
        assert_eq!(interval("1m").unwrap(), Span::from_secs(60));
        for wrong in ["999ms", "61s", "0s"] {
            assert_eq!(interval(wrong).unwrap_err().to_string(), "has to be from 1s to 60s", "{wrong}");
        }
        assert!(interval("soon").is_err_and(|error| error.to_string().contains("not a duration")));
    }
}
