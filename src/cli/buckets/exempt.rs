//! `tollgate buckets exempt`: a prefix, or any other key, that no limit of a running gate refuses for a while, over its
//! admin socket.

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::super::Exit;
use super::super::admin_api::{AdminArgs, ApiRequest, ReasonArgs};
use super::super::user_name;
use super::{BucketCommand, key, time};
use crate::config::values::Prefix;
use crate::observe::admin::pages::{EndedPage, LastingRequest, PrefixPart, PrefixRequest};

#[derive(Debug, Args)]
pub(super) struct ExemptArgs {
    /// The clients: 203.0.113.0/24, 2001:db8::1; or another key as for `show` [default: list all exempt prefixes]
    #[arg(value_name = "PREFIX|KEY", value_parser = exempt_key, requires = "how")]
    prefix: Option<String>,
    /// For how long: 1h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = time, group = "how", requires = "prefix")]
    lasts: Option<String>,
    #[command(flatten)]
    reason: ReasonArgs,
    /// End it now
    #[arg(long, group = "how", requires = "prefix")]
    end: bool,
    #[command(flatten)]
    pub(in crate::cli) admin: AdminArgs,
}

pub(super) fn exempt(arguments: &ExemptArgs) -> anyhow::Result<Exit> {
    let ExemptArgs { prefix, lasts, reason, end, admin } = arguments;
    if let Some(key) = prefix.as_ref().filter(|text| text.parse::<Prefix>().is_err()) {
        let lasting = |lasts| serde_json::to_value(LastingRequest { lasts, limit: None.into() });
        let body = lasts.clone().filter(|_| !end).map(lasting).transpose()?;
        let method = if *end { "DELETE" } else { "PUT" };
        let keys = std::slice::from_ref(key);
        return BucketCommand { keys, admin, method, below: "/exemption", body, reason }.run();
    }
    let words = PrefixWords { page: "exemptions", none: "no temporary exemptions", is: "exempt" };
    let lasting = lasts
        .as_ref()
        .map(|lasts| serde_json::to_value(PrefixRequest { lasts: lasts.clone(), why: None.into() }));
    words.ask(prefix.as_deref(), lasting.transpose()?, *end, (admin, reason))
}

/// The words for prefixes that are all in one state for a while, and the page of the admin API that lists them.
pub(super) struct PrefixWords {
    pub(super) page: &'static str,
    pub(super) none: &'static str,
    pub(super) is: &'static str,
}

impl PrefixWords {
    /// Begins (with this request) or ends it for a prefix, or lists all.
    pub(super) fn ask(
        &self,
        prefix: Option<&str>,
        lasting: Option<Value>,
        end: bool,
        (admin, reason): (&AdminArgs, &ReasonArgs),
    ) -> anyhow::Result<Exit> {
        let path = match prefix {
            Some(prefix) => {
                format!("/api/v1/{}/{}", self.page, utf8_percent_encode(prefix, NON_ALPHANUMERIC))
            }
            None => format!("/api/v1/{}", self.page),
        };
        let (method, body) = match (prefix, end) {
            (None, _) => ("GET", None),
            (_, true) => ("DELETE", None),
            (_, false) => ("PUT", lasting),
        };
        let Some(response) = admin.call_because(ApiRequest { method, path, body }, reason)? else {
            return Ok(Exit::BadConfiguration);
        };
        let value = response.success()?;
        match (prefix, end) {
            (None, _) => admin.print(&value, |lists: &PrefixLists| self.list(lists)),
            (_, true) => {
                admin.print(&value, |EndedPage { prefix, .. }| format!("{prefix}: no longer {}\n", self.is))
            }
            (_, false) => admin.print(&value, |one| self.line(one)),
        }
    }

    fn list(&self, PrefixLists { exemptions, bans }: &PrefixLists) -> String {
        match exemptions.is_empty() && bans.is_empty() {
            true => format!("{}\n", self.none),
            false => exemptions.iter().chain(bans).map(|one| self.line(one)).collect(),
        }
    }

    /// As in `203.0.113.0/24: banned until ..., by alice since ...: scan`.
    fn line(&self, PrefixPart { prefix, since, until, by, why, all }: &PrefixPart) -> String {
        let all = if **all == Some(true) { " from everything" } else { "" };
        let by = by.as_ref().map(|by| format!(", by {}", user_name::of_operator(by))).unwrap_or_default();
        let since = since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        format!("{prefix}: {}{all} until {until}{by}{since}{why}\n", self.is)
    }
}

/// Either of the two pages that list prefixes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PrefixLists {
    exemptions: Vec<PrefixPart>,
    bans: Vec<PrefixPart>,
}

fn exempt_key(text: &str) -> anyhow::Result<String> {
    match text.parse::<Prefix>() {
        Ok(_) => Ok(text.to_owned()),
        Err(mistake) => key(text).map_err(|_| mistake.into()),
    }
}
