//! `tollgate buckets list`: who is there, who is refused, and which buckets have a temporary rate.
//!
//! The gate counts; a table is drawn here, once or again and again.

use std::io::{IsTerminal, stdout};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::key;
use super::table::{aligned, seconds};
use crate::cli::Exit;
use crate::cli::admin_api::{AdminArgs, ApiRequest, OutputFormat, page};
use crate::cli::output::{self, out};
use crate::observe::admin::pages::{ClientPart, ClientsPage, RatePart, RatesPage};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only this client or account, named as for `show` [default: all]
    #[arg(value_name = "KEY", value_parser = key)]
    key: Option<String>,
    /// Only clients that were refused, the most refused first [default: the busiest first]
    #[arg(long)]
    refused: bool,
    /// Under this limit only
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// The maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    top: u16,
    /// Over the last 1, 10 or 60 minutes
    #[arg(long, default_value = "10", value_parser = ["1", "10", "60"])]
    minutes: String,
    /// The buckets with a temporary rate
    #[arg(long, conflicts_with_all = ["key", "refused", "limit", "top", "minutes"])]
    own: bool,
    /// Again every 2 seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    pub(in crate::cli) admin: AdminArgs,
}

impl ListArgs {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        // Read once: a list that is drawn again does not repeat the warnings of the configuration.
        let Some(gate) = self.admin.gate()? else { return Ok(Exit::BadConfiguration) };
        loop {
            let request = ApiRequest { method: "GET", path: self.path(), body: None };
            let text = self.text(&request.call(&gate)?.success()?)?;
            let clears = self.watch && self.admin.format == OutputFormat::Text && stdout().is_terminal();
            out!("{}{text}", if clears { CLEAR } else { "" });
            if !self.watch || output::is_closed() {
                return Ok(Exit::Ok);
            }
            sleep(WATCH_INTERVAL);
        }
    }

    fn path(&self) -> String {
        if self.own {
            return "/api/v1/rates".to_owned();
        }
        let by = if self.refused { "refused" } else { "attempts" };
        let pair = |name: &str, value: &Option<String>| {
            let value = value.as_ref().map(|value| utf8_percent_encode(value, NON_ALPHANUMERIC));
            value.map(|value| format!("&{name}={value}")).unwrap_or_default()
        };
        let (limit, key) = (pair("limit", &self.limit), pair("key", &self.key));
        format!("/api/v1/clients?by={by}&n={}&minutes={}{limit}{key}", self.top, self.minutes)
    }

    fn text(&self, response: &Value) -> anyhow::Result<String> {
        Ok(match self.admin.format {
            OutputFormat::Json => format!("{}\n", serde_json::to_string_pretty(response)?),
            OutputFormat::Text if self.own => rates(&page(response)?),
            OutputFormat::Text => clients(&page(response)?),
        })
    }
}

fn clients(ClientsPage { clients, since, .. }: &ClientsPage) -> String {
    let head = ["LIMIT", "CLIENT", "ATTEMPTS", "REFUSED", "TOKENS", "NEXT", "LAST"].map(str::to_owned);
    let rows: Vec<_> = clients.iter().map(client).collect();
    if rows.is_empty() {
        return format!("no client since {since}\n");
    }
    aligned(&[vec![head], rows].concat())
}

fn client(row: &ClientPart) -> [String; 7] {
    let at_least = if row.error > 0 { "+" } else { "" };
    let tokens = row.tokens.zip(*row.burst).map(|(tokens, burst)| format!("{tokens} of {burst}"));
    let next = row.next.filter(|next| *next > 0.0).map(|next| format!("in {}", seconds(next)));
    let [attempts, refused] = [row.attempts, row.refused].map(|count| format!("{count}{at_least}"));
    let only_observes = row.mode.as_ref().is_some_and(|mode| mode != "enforce");
    let refused = if only_observes && row.refused > 0 { format!("{refused} would be") } else { refused };
    let dash = || "-".to_owned();
    let (tokens, next) = (tokens.unwrap_or_else(dash), next.unwrap_or_else(dash));
    let owner = owner(row.client.as_ref(), row.account.as_ref());
    [row.limit.clone(), owner, attempts, refused, tokens, next, row.last.clone()]
}

fn rates(RatesPage { rates, total }: &RatesPage) -> String {
    let rows: Vec<_> = rates.iter().map(rate).collect();
    if rows.is_empty() {
        return "no bucket has a temporary rate\n".to_owned();
    }
    let more = total.saturating_sub(rows.len() as u64);
    let head = ["LIMIT", "CLIENT", "BURST", "ONE EVERY", "UNTIL"].map(str::to_owned);
    let table = aligned(&[vec![head], rows].concat());
    if more > 0 { format!("{table}and {more} more\n") } else { table }
}

fn rate(row: &RatePart) -> [String; 5] {
    let owner = owner(row.client.as_ref(), row.account.as_ref());
    let (burst, every) = (row.burst.to_string(), seconds(row.seconds_per_token));
    [row.limit.clone(), owner, burst, every, row.until.clone()]
}

/// The client, or the hash of the account as in the log.
fn owner(client: Option<&String>, account: Option<&String>) -> String {
    match (client, account) {
        (Some(client), _) => client.clone(),
        (_, Some(account)) => format!("user:#{account}"),
        _ => "-".to_owned(),
    }
}

const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Cursor home, erase the screen (ECMA-48).
const CLEAR: &str = "\x1b[H\x1b[2J";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_list_shows_clients_accounts_and_what_is_left() {
        let response = json!({"clients": [
            {"limit": "address", "client": "192.0.2.7", "account": null, "attempts": 120, "refused": 110, "error": 0,
             "last": "then", "tokens": 0, "burst": 10, "next": 21.5, "full_at": "later"},
            {"limit": "acc\u{1b}ount", "client": null, "account": "123456789abc", "attempts": 9, "refused": 9,
             "error": 3, "last": "then", "mode": "observe"},
        ]});
        assert_eq!(
            lines(&clients(&page(&response).unwrap())),
            [
                "LIMIT CLIENT ATTEMPTS REFUSED TOKENS NEXT LAST",
                "address 192.0.2.7 120 110 0 of 10 in 21s500ms then",
                "account user:#123456789abc 9+ 9+ would be - - then",
            ]
        );
        let none = ClientsPage { since: "then".to_owned(), ..ClientsPage::default() };
        assert_eq!(clients(&none), "no client since then\n");
    }

    #[test]
    fn rates_of_their_own_are_listed_with_their_end() {
        let response = json!({"total": 3, "rates": [
            {"limit": "address", "client": null, "account": null, "burst": 9, "seconds_per_token": 60.0, "until": "then"},
        ]});
        assert_eq!(
            lines(&rates(&page(&response).unwrap())),
            ["LIMIT CLIENT BURST ONE EVERY UNTIL", "address - 9 1m then", "and 2 more"]
        );
    }
}
