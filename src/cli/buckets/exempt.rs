//! `tollgate buckets exempt`: a prefix, or any other key, that no limit of a running gate refuses for a while, over its
//! admin socket.

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::super::Exit;
use super::super::admin_api::{AdminArgs, ApiRequest, plain};
use super::{BucketCommand, key, refuse, time, words_of};
use crate::config::values::Prefix;

#[derive(Debug, Args)]
pub(super) struct ExemptArgs {
    /// The clients: 203.0.113.0/24, 2001:db8::1; or another key as for `show` [default: list all exempt prefixes]
    #[arg(value_name = "PREFIX|KEY", value_parser = exempt_key, requires = "how")]
    prefix: Option<String>,
    /// For how long: 1h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = time, group = "how", requires = "prefix")]
    lasts: Option<String>,
    /// The reason, for the log; of a prefix only
    #[arg(long, value_name = "TEXT", requires = "lasts")]
    why: Option<String>,
    /// End it now
    #[arg(long, group = "how", requires = "prefix")]
    end: bool,
    #[command(flatten)]
    pub(in crate::cli) admin: AdminArgs,
}

pub(super) fn exempt(arguments: &ExemptArgs) -> anyhow::Result<Exit> {
    let ExemptArgs { prefix, lasts, why, end, admin } = arguments;
    if let Some(key) = prefix.as_ref().filter(|text| text.parse::<Prefix>().is_err()) {
        if why.is_some() {
            refuse("--why goes with a prefix");
        }
        let (method, body) = if *end { ("DELETE", None) } else { ("PUT", Some(json!({"for": lasts}))) };
        let keys = std::slice::from_ref(key);
        return BucketCommand { keys, admin, method, below: "/exemption", body }.run();
    }
    let words = PrefixWords { page: "exemptions", none: "no temporary exemptions", is: "exempt" };
    words.ask(prefix.as_deref(), (lasts.as_deref(), why.as_deref()), *end, admin)
}

/// The words for prefixes that are all in one state for a while, and the page of the admin API that lists them.
pub(super) struct PrefixWords {
    pub(super) page: &'static str,
    pub(super) none: &'static str,
    pub(super) is: &'static str,
}

impl PrefixWords {
    /// Begins or ends it for a prefix, or lists all.
    pub(super) fn ask(
        &self,
        prefix: Option<&str>,
        (lasts, why): (Option<&str>, Option<&str>),
        end: bool,
        admin: &AdminArgs,
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
            (_, false) => ("PUT", Some(json!({"for": lasts, "why": why.unwrap_or_default()}))),
        };
        let Some(response) = admin.call(ApiRequest { method, path, body })? else {
            return Ok(Exit::BadConfiguration);
        };
        admin.print(&response.success()?, |value| self.text(value))
    }

    fn text(&self, value: &Value) -> String {
        match value[self.page].as_array() {
            Some(all) if all.is_empty() => format!("{}\n", self.none),
            Some(all) => all.iter().map(|one| self.line(one)).collect(),
            None => self.line(value),
        }
    }

    fn line(&self, one: &Value) -> String {
        let (prefix, is) = (plain(&one["prefix"]), self.is);
        if one["ended"] == true {
            return format!("{prefix}: no longer {is}\n");
        }
        let why = match one["why"].as_str() {
            None | Some("") => String::new(),
            Some(_) => format!(": {}", plain(&one["why"])),
        };
        format!("{prefix}: {is} until {}{why}\n", plain(&one["until"]))
    }
}

fn exempt_key(text: &str) -> Result<String, String> {
    match text.parse::<Prefix>() {
        Ok(_) => Ok(text.to_owned()),
        Err(mistake) => key(text).map_err(|_| words_of(mistake)),
    }
}
