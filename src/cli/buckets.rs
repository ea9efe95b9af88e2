//! `tollgate buckets`: lists the clients of a running gate, and shows and changes single buckets.
//!
//! The gate does the work, behind its admin socket. Keys, rates and times are parsed here first, so that a typing error
//! is shown in the words of the command line.

mod ban;
mod exempt;
mod list;
mod table;

use clap::error::ErrorKind;
use clap::{Args, Subcommand};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use self::ban::{BanArgs, ban};
use self::exempt::{ExemptArgs, exempt};
pub(super) use self::table::aligned;
use super::admin_api::{AdminArgs, ApiRequest, ReasonArgs};
use super::sources::ConfigArgs;
use super::{Exit, usage_error};
use crate::config::values;
use crate::defences::OWNERS;
use crate::observe::admin::BucketsPage;
use crate::observe::admin::pages::{CreditRequest, LimitRequest, RateRequest, ResetRequest};
use crate::policy::bucket_ref::BucketSelector;

#[derive(Debug, Args)]
pub(super) struct BucketsArgs {
    #[command(subcommand)]
    action: BucketsAction,
}

#[derive(Debug, Subcommand)]
enum BucketsAction {
    /// List the busiest clients, the most refused ones, or the buckets with a temporary rate
    List(list::ListArgs),
    /// Show each limit's tokens, and when there will be more; takes nothing
    Show(BucketKeyArgs),
    /// Give tokens, never more than fit
    Credit {
        #[command(flatten)]
        at: BucketKeyArgs,
        /// How many
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        tokens: u32,
        /// Under this limit only
        #[arg(long, value_name = "NAME")]
        limit: Option<String>,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Fill them: no debt, no failures, no waits. An address fills the buckets of its whole subnet, too
    Reset {
        #[command(flatten)]
        at: BucketKeyArgs,
        /// Under this limit only
        #[arg(long, value_name = "NAME")]
        limit: Option<String>,
        /// Not the buckets that an address shares with its subnet: only those with the narrowest prefix
        #[arg(long)]
        only: bool,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Forget the addresses that an account is known from, by user:NAME
    Forget {
        #[command(flatten)]
        at: BucketKeyArgs,
        #[command(flatten)]
        reason: ReasonArgs,
    },
    /// Give buckets a temporary rate, or end that
    Rate(RateArgs),
    /// Exempt clients from all limits for a while, end that, or list who is exempt
    Exempt(ExemptArgs),
    /// Refuse all attempts of a client, an account or a prefix for a while (--all: all requests of a prefix), end that, or
    /// list which prefixes are banned
    Ban(BanArgs),
}

#[derive(Debug, Args)]
struct BucketKeyArgs {
    /// The keys: ADDRESS, ip:ADDRESS, user:NAME, user+ip:NAME,ADDRESS, device:TOKEN, host:NAME, header:NAME=VALUE,
    /// cookie:NAME=VALUE, asn:NUMBER, cert:NAME, ja4:FINGERPRINT, all:LIMIT
    #[arg(required = true, value_name = "KEY", value_parser = key)]
    keys: Vec<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
#[command(override_usage = "tollgate buckets rate [OPTIONS] <KEY>... <LIMIT> <RATE> --for <TIME>\n       \
                      tollgate buckets rate [OPTIONS] <KEY>... <LIMIT> --end")]
struct RateArgs {
    /// The keys as for `show`, the limit, and the rate as in the file: "60/min"
    #[arg(required = true, num_args = 2.., value_name = "KEY... LIMIT RATE")]
    words: Vec<String>,
    /// For how long: 1h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = time, required_unless_present = "end")]
    lasts: Option<String>,
    /// End it now
    #[arg(long, conflicts_with = "lasts")]
    end: bool,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The same request about each of these keys.
struct BucketCommand<'a> {
    keys: &'a [String],
    admin: &'a AdminArgs,
    method: &'static str,
    /// Behind the key in the path.
    below: &'static str,
    body: Option<Value>,
    reason: &'a ReasonArgs,
}

impl BucketsArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        let admin = match &mut self.action {
            BucketsAction::List(list) => &mut list.admin,
            BucketsAction::Rate(rate) => &mut rate.admin,
            BucketsAction::Exempt(exempt) => &mut exempt.admin,
            BucketsAction::Ban(ban) => &mut ban.admin,
            BucketsAction::Show(at)
            | BucketsAction::Forget { at, .. }
            | BucketsAction::Credit { at, .. }
            | BucketsAction::Reset { at, .. } => &mut at.admin,
        };
        admin.config_mut()
    }
}

pub(super) fn buckets(BucketsArgs { action }: &BucketsArgs) -> anyhow::Result<Exit> {
    let none = ReasonArgs::default();
    let (at, method, below, body, reason) = match action {
        BucketsAction::Exempt(arguments) => return exempt(arguments),
        BucketsAction::Ban(arguments) => return ban(arguments),
        BucketsAction::List(list) => return list.run(),
        BucketsAction::Rate(rate) => return rate.run(),
        BucketsAction::Show(at) => (at, "GET", "", None, &none),
        BucketsAction::Forget { at, reason } => (at, "DELETE", "/addresses", None, reason),
        BucketsAction::Credit { at, tokens, limit, reason } => {
            let credit = CreditRequest { tokens: *tokens, limit: limit.clone().into() };
            (at, "POST", "/credit", Some(serde_json::to_value(credit)?), reason)
        }
        BucketsAction::Reset { at, limit, only, reason } => {
            let reset = ResetRequest { limit: limit.clone().into(), only: only.then_some(true).into() };
            (at, "DELETE", "", Some(serde_json::to_value(reset)?), reason)
        }
    };
    BucketCommand { keys: &at.keys, admin: &at.admin, method, below, body, reason }.run()
}

impl RateArgs {
    fn run(&self) -> anyhow::Result<Exit> {
        let words = &self.words[..];
        let (keys, body, method) = match (words, self.end) {
            ([keys @ .., limit], true) => {
                let limit = Some(limit.clone()).into();
                (keys, serde_json::to_value(LimitRequest { limit })?, "DELETE")
            }
            ([keys @ .., limit, rate], false) if !keys.is_empty() => {
                if let Err(mistake) = rate.parse::<values::RateValue>() {
                    refuse(&mistake.to_string());
                }
                let lasts = self.lasts.clone().unwrap_or_default();
                let rate = RateRequest { limit: limit.clone(), rate: rate.clone(), lasts };
                (keys, serde_json::to_value(rate)?, "PUT")
            }
            _ => refuse(
                "a key, a limit and a rate are needed, as in: rate 192.0.2.7 address \"60/min\" --for 1d",
            ),
        };
        for text in keys {
            if let Err(error) = key(text) {
                refuse(&format!("`{text}`: {error}"));
            }
        }
        let (admin, reason, body) = (&self.admin, &self.reason, Some(body));
        BucketCommand { keys, admin, method, below: "/rate", body, reason }.run()
    }
}

impl BucketCommand<'_> {
    /// Ends with the first key for which the gate refuses; what was done before it stays done.
    fn run(&self) -> anyhow::Result<Exit> {
        let mut reports = Vec::new();
        for key in self.keys {
            let path =
                format!("/api/v1/buckets/{}{}", utf8_percent_encode(key, NON_ALPHANUMERIC), self.below);
            let request = ApiRequest { method: self.method, path, body: self.body.clone() };
            let answer = self.admin.call_because(request, self.reason)?;
            let Some(response) = answer else { return Ok(Exit::BadConfiguration) };
            let report = response.success();
            reports.push(if self.keys.len() > 1 {
                report.map_err(|error| error.context(key.clone()))?
            } else {
                report?
            });
        }
        match &reports[..] {
            [report] => self.admin.print(report, |page| table::text(page, &self.keys[0])),
            _ => self.admin.print(&Value::Array(reports), |pages: &Vec<BucketsPage>| {
                let texts = self.keys.iter().zip(pages);
                let texts = texts.map(|(key, page)| format!("{key}\n{}", table::text(page, key)));
                texts.collect::<Vec<_>>().join("\n")
            }),
        }
    }
}

fn refuse(message: &str) -> ! {
    usage_error(ErrorKind::ValueValidation, message)
}

fn key(text: &str) -> anyhow::Result<String> {
    BucketSelector::parse(text.as_bytes(), OWNERS)?;
    Ok(text.to_owned())
}

pub(super) fn time(text: &str) -> anyhow::Result<String> {
    text.parse::<values::Duration>()?;
    Ok(text.to_owned())
}
