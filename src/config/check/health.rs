//! `health` and `proxy.health_...`: which upstreams are checked, by what, and when.

use tollgate_grammar::Findings;
use tollgate_grammar::kind::{Checked as _, Given, Text};

use super::super::raw::{RawFile, RawRoute};
use super::super::values::HealthProbeValue;
use super::context::CheckContext;
use super::groups::GroupTable;
use crate::proxy::settings::{HealthTerms, ProxySettings};
use crate::proxy::upstream::{HealthProbe, UpstreamTarget};

/// `health` of the file, for the first group.
pub(super) fn of_all(raw: &RawFile, groups: &mut GroupTable, f: &mut Findings) {
    let Some(text) = &raw.health else { return };
    if raw.upstream.is_none() {
        f.error(&text.spot, "`health` has no `upstream` next to it", "leave it out");
        return;
    }
    let first = groups.targets.first().cloned().unwrap_or_default();
    add(text, &first, groups, f);
}

/// `health` of a route, for its group; one that has only another name for the first group has the health check of that.
pub(super) fn of_route(raw: &RawRoute, group: &[UpstreamTarget], groups: &mut GroupTable, f: &mut Findings) {
    match (&raw.health, &raw.upstream) {
        (Some(text), Some(_)) => add(text, group, groups, f),
        (Some(text), None) => {
            let hint = "write it where the upstream is named";
            f.error(&text.spot, "`health` has no `upstream` next to it", hint);
        }
        (None, Some(_)) => {}
        (None, None) => {
            let of_first = |target: &UpstreamTarget| {
                let first = UpstreamTarget { host: None, ..target.clone() };
                Some((target.clone(), groups.probes.get(&first)?.clone()))
            };
            let renamed: Vec<(UpstreamTarget, HealthProbe)> = group.iter().filter_map(of_first).collect();
            for (target, probe) in renamed {
                groups.probes.entry(target).or_insert(probe);
            }
        }
    }
}

fn add(
    text: &Given<Text<HealthProbeValue>>,
    group: &[UpstreamTarget],
    groups: &mut GroupTable,
    f: &mut Findings,
) {
    let Some(HealthProbeValue(probe)) = text.checked(f) else { return };
    if let Some((target, HealthProbe { method, target: path })) = groups.check_by(group, &probe) {
        let message = format!("`{target}` has the health check `{method} {path}` already");
        f.error(&text.spot, message, "write the same one wherever the upstream is named");
    }
}

/// When checks are due. Warns where nothing is checked.
pub(super) fn terms(cx: &CheckContext<'_>, f: &mut Findings) -> HealthTerms {
    let raw = &cx.raw.proxy;
    let default = ProxySettings::default().health;
    // What SRV records name is not known in every check.
    if cx.groups.probes.is_empty() && !cx.groups.services.has_names() {
        let intervals = raw.health_interval.iter().map(|key| &key.spot);
        let timeouts = raw.health_timeout.iter().map(|key| &key.spot);
        let counts = [&raw.health_rises, &raw.health_falls].into_iter().flatten().map(|key| &key.spot);
        for spot in intervals.chain(timeouts).chain(counts) {
            f.warning(spot, "no upstream has a health check", "as in health = \"GET /healthz\"");
        }
    }
    HealthTerms {
        interval: raw.health_interval.checked(f).unwrap_or(default.interval),
        timeout: raw.health_timeout.checked(f).unwrap_or(default.timeout),
        rises: raw.health_rises.checked(f).unwrap_or(default.rises),
        falls: raw.health_falls.checked(f).unwrap_or(default.falls),
    }
}
