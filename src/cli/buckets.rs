//! `tollgate buckets`: shows and changes the buckets of one address or one account in a running gate.
//!
//! The gate does the work, behind its admin socket. Keys, rates and times are parsed here first, so that a typing error
//! is shown in the words of the command line.

mod table;

use clap::{Args, Subcommand};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::Exit;
use super::admin_api::{AdminArgs, ApiRequest};
use crate::config::values;
use crate::policy::bucket_ref::BucketSelector;

#[derive(Debug, Args)]
pub(super) struct BucketsArgs {
    #[command(subcommand)]
    action: BucketsAction,
}

#[derive(Debug, Subcommand)]
enum BucketsAction {
    /// Show each limit's tokens, and when there will be more; takes nothing
    Show(SelectedBucket),
    /// Give tokens, never more than fit
    Credit {
        #[command(flatten)]
        at: SelectedBucket,
        /// How many
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        tokens: u32,
        /// Under this limit only
        #[arg(long, value_name = "NAME")]
        limit: Option<String>,
    },
    /// Make them as new: no debt, no failures, no waits
    Reset {
        #[command(flatten)]
        at: SelectedBucket,
        /// Under this limit only
        #[arg(long, value_name = "NAME")]
        limit: Option<String>,
    },
    /// Give one bucket a rate of its own for a while, or end that
    Rate {
        #[command(flatten)]
        at: SelectedBucket,
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
struct SelectedBucket {
    /// The bucket's key: ip:ADDRESS or user:NAME
    #[arg(value_parser = key)]
    key: String,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn buckets(BucketsArgs { action }: &BucketsArgs) -> anyhow::Result<Exit> {
    let (at, method, below, body) = match action {
        BucketsAction::Show(at) => (at, "GET", "", None),
        BucketsAction::Credit { at, tokens, limit } => {
            (at, "POST", "/credit", Some(with_limit(json!({"tokens": tokens}), limit.as_deref())))
        }
        BucketsAction::Reset { at, limit } => {
            (at, "DELETE", "", Some(with_limit(json!({}), limit.as_deref())))
        }
        BucketsAction::Rate { at, limit, rate, lasts, end } => {
            let body = if *end { json!({}) } else { json!({"rate": rate, "for": lasts}) };
            let method = if *end { "DELETE" } else { "PUT" };
            (at, method, "/rate", Some(with_limit(body, Some(limit))))
        }
    };
    let path = format!("/api/v1/buckets/{}{below}", utf8_percent_encode(&at.key, NON_ALPHANUMERIC));
    let Some(response) = at.admin.call(ApiRequest { method, path, body })? else {
        return Ok(Exit::BadConfiguration);
    };
    at.admin.print(&response.success()?, |value| table::text(value, &at.key))
}

fn with_limit(mut body: Value, limit: Option<&str>) -> Value {
    if let Some(limit) = limit {
        body["limit"] = limit.into();
    }
    body
}

fn key(text: &str) -> Result<String, String> {
    BucketSelector::parse(text.as_bytes()).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<String, String> {
    text.parse::<values::RateValue>().map(|_| text.to_owned()).map_err(words)
}

fn time(text: &str) -> Result<String, String> {
    text.parse::<values::Duration>().map(|_| text.to_owned()).map_err(words)
}

fn words(mistake: values::Mistake) -> String {
    mistake.to_string()
}
