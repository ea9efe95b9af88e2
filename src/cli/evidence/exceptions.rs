//! Where the limits did not hold as they are written: by an operator, by the configuration, without a store, or without a gate.

use serde::Serialize;
use serde_json::Value;

use super::parts::{AuditedPart, DecisionsPart};
use crate::config::Config;
use crate::policy::{LimitKind, Mode};
use crate::replay::evidence::{AuditEvidence, ReadChange, StoreOutage, UnannouncedEnd};

/// An exception. Times are RFC 3339 in UTC.
#[derive(Debug, Serialize)]
pub(super) struct ShownException {
    /// A word: `exemption`, `rate`, `ban`, `mode`, `drain`, `store`, `gap`, `end`, `configuration`, `log`.
    pub(super) kind: &'static str,
    pub(super) what: String,
    pub(super) from: Option<String>,
    pub(super) until: Option<String>,
    pub(super) who: Option<String>,
    pub(super) why: Option<String>,
}

pub(super) fn exceptions(
    config: &Config,
    decisions: &DecisionsPart,
    audited: &AuditedPart,
    audit: &AuditEvidence,
) -> Vec<ShownException> {
    let configured = of_configuration(config);
    let changes = audit.changes.iter().filter_map(of_change);
    let outages = audit.outages.iter().map(of_outage);
    let gaps = audited.gaps.iter().map(|gap| ShownException {
        from: Some(gap.from.clone()),
        until: Some(gap.until.clone()),
        ..ShownException::new(
            "gap",
            match gap.announced {
                true => "no gate served".to_owned(),
                false => "no gate said that it serves: the one before did not say that it ends".to_owned(),
            },
        )
    });
    configured
        .into_iter()
        .chain(changes)
        .chain(outages)
        .chain(gaps)
        .chain(audited.unannounced_ends.iter().map(of_end))
        .chain(of_logs(decisions, audited))
        .collect()
}

impl ShownException {
    fn new(kind: &'static str, what: String) -> Self {
        Self { kind, what, from: None, until: None, who: None, why: None }
    }
}

/// What the file itself leaves out.
fn of_configuration(config: &Config) -> Vec<ShownException> {
    let mut found = Vec::new();
    for limit in config.policy.limits.iter().filter(|limit| limit.kind == LimitKind::Rate) {
        if limit.is_live() && limit.mode != Mode::Enforce {
            let what = format!("limit {}: mode {}", limit.name, limit.mode.name());
            found.push(ShownException::new("configuration", what));
        }
        if !limit.exempt.is_empty() {
            let what = format!("limit {}: exempts clients", limit.name);
            found.push(ShownException::new("configuration", what));
        }
    }
    found
}

fn of_change(ReadChange { entry, .. }: &ReadChange) -> Option<ShownException> {
    let kind = match &*entry.what {
        "prefix.exempt" | "prefix.exempt.end" | "bucket.exempt" | "bucket.exempt.end" => "exemption",
        "bucket.rate" | "bucket.rate.end" => "rate",
        "prefix.ban" | "prefix.ban.end" | "bucket.ban" | "bucket.ban.end" => "ban",
        "mode" => "mode",
        "drain" => "drain",
        _ => return None,
    };
    let mut what = [entry.what.as_str(), entry.target.as_deref().unwrap_or_default()].join(" ");
    if let Some(mode) = entry.after["mode"].as_str() {
        what.push_str(&format!(": {mode}"));
    }
    if let Some(failed) = &entry.failed {
        what.push_str(&format!(" (not made: {failed})"));
    }
    let until = match &entry.after {
        Value::Array(buckets) => buckets.iter().find_map(|bucket| {
            let texts = [&bucket["exempt_until"], &bucket["banned_until"], &bucket["own"]["until"]];
            texts.into_iter().find_map(Value::as_str)
        }),
        after => after["until"].as_str(),
    };
    Some(ShownException {
        kind,
        what: what.trim_end().to_owned(),
        from: Some(entry.time.clone()),
        until: until.map(str::to_owned),
        who: Some(entry.who.clone()),
        why: Some(entry.why.clone()).filter(|why| !why.is_empty()),
    })
}

fn of_outage(outage: &StoreOutage) -> ShownException {
    let StoreOutage { gate, from, until, why, local, allowed, denied } = outage;
    let what = format!(
        "{gate} was without its store: {local} attempts decided by its memory, {allowed} admitted, {denied} refused (on_error)"
    );
    ShownException {
        from: Some(from.clone()),
        until: until.clone(),
        why: Some(why.clone()).filter(|why| !why.is_empty()),
        ..ShownException::new("store", what)
    }
}

/// From when the gate was last heard of until the next one began.
fn of_end(end: &UnannouncedEnd) -> ShownException {
    let UnannouncedEnd { gate, heard, followed } = end;
    let what = match followed {
        Some(_) => format!("{gate} began again, and has not said that the process before ended"),
        None => format!("{gate} fell silent, and has not said that it ended"),
    };
    ShownException { from: Some(heard.clone()), until: followed.clone(), ..ShownException::new("end", what) }
}

fn of_logs(decisions: &DecisionsPart, audited: &AuditedPart) -> Vec<ShownException> {
    let compared = decisions.compared.clone().unwrap_or_default();
    let shown = &decisions.shown;
    let over = shown.limits.iter().filter_map(|limit| Some(limit.promise.as_ref()?.over_before)).sum::<u64>();
    let figures = [
        (audited.lost, "lines that the gate could not write to the decision log"),
        (compared.missing, "lines of the decision log that are missing"),
        (compared.expired, "lines of the decision log that log.retention has removed"),
        (compared.older, "lines from before the decision logs that are left: rotated away, or removed"),
        (compared.untold, "lines of the decision log that no line of the audit log tells of"),
        (shown.unreadable, "lines of the decision log that cannot be read"),
        (shown.late, "attempts out of order by more than two minutes, which no window has"),
        (shown.at_unknown_routes, "attempts at routes that the configuration does not have"),
        (over, "attempts over a present promise, before the configuration was last changed"),
    ];
    let figures = figures.into_iter().filter(|(number, _)| *number > 0);
    figures.map(|(number, what)| ShownException::new("log", format!("{number} {what}"))).collect()
}
