//! `tollgate buckets exempt`: a prefix that no limit of a running gate sees for a while, over its admin socket.

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::super::Exit;
use super::super::admin_api::{AdminArgs, ApiRequest, plain};
use super::{time, words_of};
use crate::config::values::Prefix;

#[derive(Debug, Args)]
pub(super) struct ExemptArgs {
    /// The clients: 203.0.113.0/24, 2001:db8::1 [default: list all exemptions]
    #[arg(value_parser = prefix, requires = "how")]
    prefix: Option<String>,
    /// For how long: 1h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = time, group = "how", requires = "prefix")]
    lasts: Option<String>,
    /// The reason, for the log
    #[arg(long, value_name = "TEXT", requires = "lasts")]
    why: Option<String>,
    /// End it now
    #[arg(long, group = "how", requires = "prefix")]
    end: bool,
    #[command(flatten)]
    pub(in crate::cli) admin: AdminArgs,
}

pub(super) fn exempt(ExemptArgs { prefix, lasts, why, end, admin }: &ExemptArgs) -> anyhow::Result<Exit> {
    let path = match prefix {
        Some(prefix) => format!("/api/v1/exemptions/{}", utf8_percent_encode(prefix, NON_ALPHANUMERIC)),
        None => "/api/v1/exemptions".to_owned(),
    };
    let (method, body) = match (prefix, end) {
        (None, _) => ("GET", None),
        (_, true) => ("DELETE", None),
        (_, false) => ("PUT", Some(json!({"for": lasts, "why": why.as_deref().unwrap_or_default()}))),
    };
    let Some(response) = admin.call(ApiRequest { method, path, body })? else {
        return Ok(Exit::BadConfiguration);
    };
    admin.print(&response.success()?, text)
}

fn text(value: &Value) -> String {
    match value["exemptions"].as_array() {
        Some(all) if all.is_empty() => "no temporary exemptions\n".to_owned(),
        Some(all) => all.iter().map(line).collect(),
        None => line(value),
    }
}

fn line(exemption: &Value) -> String {
    let prefix = plain(&exemption["prefix"]);
    if exemption["ended"] == true {
        return format!("{prefix}: no longer exempt\n");
    }
    let why = match exemption["why"].as_str() {
        None | Some("") => String::new(),
        Some(_) => format!(": {}", plain(&exemption["why"])),
    };
    format!("{prefix}: exempt until {}{why}\n", plain(&exemption["until"]))
}

fn prefix(text: &str) -> Result<String, String> {
    text.parse::<Prefix>().map(|_| text.to_owned()).map_err(words_of)
}
