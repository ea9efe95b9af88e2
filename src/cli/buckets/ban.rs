//! `tollgate buckets ban`: keys or whole prefixes of which a running gate refuses all attempts for a while, or all requests.

use clap::Args;

use super::super::Exit;
use super::super::admin_api::{AdminArgs, ReasonArgs};
use super::exempt::PrefixWords;
use super::{BucketCommand, key, refuse, time};
use crate::config::values::Prefix;
use crate::observe::admin::pages::{BanRequest, LastingRequest, LimitRequest};

#[derive(Debug, Args)]
pub(super) struct BanArgs {
    /// The keys as for `show`, or one prefix: 203.0.113.0/24 [default: list all banned prefixes]
    #[arg(value_name = "KEY|PREFIX", value_parser = ban_key, requires = "how")]
    keys: Vec<String>,
    /// For how long: 1h, 1d
    #[arg(long = "for", value_name = "TIME", value_parser = time, group = "how", requires = "keys")]
    lasts: Option<String>,
    #[command(flatten)]
    reason: ReasonArgs,
    /// End it now
    #[arg(long, group = "how", requires = "keys")]
    end: bool,
    /// Refuse every request of the prefix (or address), also those that no route counts
    #[arg(long, requires = "lasts", conflicts_with = "limit")]
    all: bool,
    /// Under this limit only, of keys [default: of an address, those with the narrowest prefix]
    #[arg(long, value_name = "NAME", requires = "keys")]
    limit: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) admin: AdminArgs,
}

pub(super) fn ban(arguments: &BanArgs) -> anyhow::Result<Exit> {
    let BanArgs { keys, lasts, reason, end, all, limit, admin } = arguments;
    let is_prefix = |text: &String| key(text).is_err() || (*all && text.parse::<Prefix>().is_ok());
    match &keys[..] {
        [] => {}
        [prefix] if is_prefix(prefix) && limit.is_some() => {
            refuse(&format!("--limit goes with keys, not with {prefix}"))
        }
        [prefix] if is_prefix(prefix) => {}
        keys if keys.iter().any(is_prefix) => refuse("one prefix at a time, and no other keys"),
        _ if *all => refuse("--all goes with a prefix or an address"),
        keys => {
            let limit = limit.clone().into();
            let (method, body) = match lasts.clone().filter(|_| !end) {
                Some(lasts) => ("PUT", serde_json::to_value(LastingRequest { lasts, limit })?),
                None => ("DELETE", serde_json::to_value(LimitRequest { limit })?),
            };
            return BucketCommand { keys, admin, method, below: "/ban", body: Some(body), reason }.run();
        }
    }
    let words = PrefixWords { page: "bans", none: "no banned prefixes", is: "banned" };
    let lasting = lasts.as_ref().map(|lasts| {
        let all = all.then_some(true).into();
        serde_json::to_value(BanRequest { lasts: lasts.clone(), why: None.into(), all })
    });
    words.ask(keys.first().map(String::as_str), lasting.transpose()?, *end, (admin, reason))
}

fn ban_key(text: &str) -> anyhow::Result<String> {
    match key(text) {
        Ok(text) => Ok(text),
        // A list of prefixes tells them by their slash.
        Err(error) if !text.contains('/') => Err(error),
        Err(_) => Ok(text.parse::<Prefix>().map(|_| text.to_owned())?),
    }
}
