//! `tollgate check --privacy`: what a gate with this file keeps about people, where, and for how long at most.
//!
//! It reads the checked configuration and asks no gate. docs/privacy.md has the same for every file.

use serde::Serialize;

use crate::config::Config;
use crate::config::values::in_words;
use crate::observe::settings::{AccessLogStyle, ClientsShown, DecisionLog, LogSettings, LogTarget};
use crate::policy::{Alarm, LimitKind};
use crate::time::Span;

/// A place with data about people.
#[derive(Debug, Serialize)]
pub(super) struct PrivatePlace {
    place: String,
    holds: String,
    /// At most.
    lasts: String,
}

impl PrivatePlace {
    fn new(place: impl Into<String>, holds: impl Into<String>, lasts: impl Into<String>) -> Self {
        Self { place: place.into(), holds: holds.into(), lasts: lasts.into() }
    }

    /// As in "personal data: access.log: addresses; until it is rotated".
    pub(super) fn text(&self) -> String {
        format!("personal data: {}: {}; {}", self.place, self.holds, self.lasts)
    }
}

/// Every place of a gate with this configuration.
pub(super) fn places(config: &Config) -> Vec<PrivatePlace> {
    let mut places = buckets(config);
    if !config.operators.admin.is_empty() {
        let holds = "the busiest clients by prefix, and accounts by keyed hash";
        places.push(PrivatePlace::new("memory", holds, "an hour"));
    }
    places.extend(sign_ins(config));
    if !config.operators.admin.is_empty() {
        let holds = "prefixes that operators exempt, ban or rate, with the reason";
        places.push(PrivatePlace::new("memory, snapshot or store", holds, "until the operator's end"));
    }
    if let Some(table) = &config.process.nftables {
        let at = format!("the kernel's table `inet {table}`");
        places.push(PrivatePlace::new(at, "addresses that it drops", "until their ban or wait ends"));
    }
    if config.policy.owner_cookie.is_some() {
        let holds = "the account, readable with the gate's key only";
        places.push(PrivatePlace::new("the browser's cookie", holds, "device.ttl (180 days by default)"));
    }
    places.extend(logs(&config.log));
    if let Some(audit) = &config.operators.audit {
        let holds = "operators and their addresses, clients and accounts that they changed, reasons";
        places.push(PrivatePlace::new(audit.display().to_string(), holds, "until you delete the file"));
        if config.store.is_shared_and_sealed() {
            let place = format!("the store ({}): the audit of all gates", config.store.address);
            places.push(PrivatePlace::new(place, holds, "a year; the newest 512 KiB of changes"));
        }
    }
    if config.otel.is_some() {
        places.push(PrivatePlace::new(
            "the collector of [otel]",
            "addresses, in spans and log records",
            ELSEWHERE,
        ));
    }
    let reports = config.policy.alarms().filter_map(|(_, alarm)| Alarm::report_to(alarm));
    let mut hooks: Vec<String> = reports.map(ToString::to_string).collect();
    hooks.sort_unstable();
    hooks.dedup();
    for hook in hooks {
        places.push(PrivatePlace::new(hook, "hashes of accounts", ELSEWHERE));
    }
    places.push(PrivatePlace::new(
        "metrics",
        "nothing about people",
        "no client, account or path is a label",
    ));
    places
}

/// Those of sign-ins, in memory.
fn sign_ins(config: &Config) -> Vec<PrivatePlace> {
    let mut places = Vec::new();
    let routes = &config.policy.routes;
    if routes.iter().any(|route| route.step.is_some()) {
        places.push(PrivatePlace::new(
            "memory",
            "recent sign-ins: cookies and accounts, by keyed hash",
            "minutes",
        ));
    }
    if !config.endpoints.is_empty() {
        let holds = "attempts without a report: accounts, by keyed hash";
        places.push(PrivatePlace::new("memory", holds, "minutes"));
    }
    if routes.iter().any(|route| route.defences.iter().any(|defence| defence.name() == "repeats")) {
        places.push(PrivatePlace::new("memory", "failures that may repeat, by keyed hash", "a day"));
    }
    places
}

/// Those of buckets: in memory, and in the store or the snapshot.
fn buckets(config: &Config) -> Vec<PrivatePlace> {
    let mut at = vec!["memory".to_owned()];
    if config.store.address.is_shared() {
        at.push(config.store.address.to_string());
    }
    at.extend(config.store.snapshot.iter().map(|path| path.display().to_string()));
    let at = at.join(", ");
    let longest = config.policy.limits.iter().flat_map(|limit| {
        let lasts = limit.classes().into_iter().filter_map(|(_, spec)| spec).map(|spec| spec.max_ttl());
        lasts.max().map(|lasts| (lasts, &limit.name, limit.kind))
    });
    let mut places = Vec::new();
    if let Some((lasts, name, kind)) = longest.max_by_key(|(lasts, ..)| *lasts) {
        let beyond = if kind == LimitKind::Rate { "" } else { ", for its failures or waits" };
        let lasts = match lasts {
            lasts if lasts >= FOR_EVER => format!("until a sign-in or a reset (`{name}`{beyond})"),
            lasts => format!("{} after an attempt (`{name}`{beyond})", in_words(lasts)),
        };
        places.push(PrivatePlace::new(&*at, "buckets, by keyed hashes of addresses and accounts", lasts));
    }
    if let Some(memory) = &config.policy.owner_memory {
        let lasts = format!("{} after a sign-in", in_words(memory.recent().ttl()));
        places.push(PrivatePlace::new(at, "clients that accounts signed in from, by keyed hash", lasts));
    }
    places
}

fn logs(log: &LogSettings) -> Vec<PrivatePlace> {
    let clients = match log.clients {
        ClientsShown::Full => "addresses",
        ClientsShown::Prefix => "prefixes of addresses",
        ClientsShown::Hash => "hashes of addresses (another key after each start)",
    };
    let lasts = |target: &LogTarget| match (target, log.retention) {
        (LogTarget::File(_), Some(kept)) => {
            format!("{} after it was rotated (log.retention)", in_words(kept))
        }
        (LogTarget::File(_), None) => "until it is deleted: log.retention is not set".to_owned(),
        (LogTarget::StandardOutput | LogTarget::Syslog(_), _) => ELSEWHERE.to_owned(),
    };
    let mut places = Vec::new();
    if let Some(target) = &log.access {
        let more = match log.style {
            AccessLogStyle::Combined => "paths with queries, Referer, User-Agent",
            AccessLogStyle::Json => "paths with queries, hosts, Referer, User-Agent",
        };
        places.push(PrivatePlace::new(target.to_string(), format!("{clients}, {more}"), lasts(target)));
    }
    if let DecisionLog::Every(target) = &log.decisions {
        let holds = format!("{clients}, keyed hashes of accounts");
        places.push(PrivatePlace::new(target.to_string(), holds, lasts(target)));
    }
    let holds = format!("{clients}, keyed hashes of accounts, where something happened");
    places.push(PrivatePlace::new("messages on standard error", holds, ELSEWHERE));
    places
}

const ELSEWHERE: &str = "as long as those who receive it keep it";
/// A run of failures lasts for the longest span that a bucket takes, which time does not end in practice.
const FOR_EVER: Span = Span::from_secs(50 * 365 * 86_400);
