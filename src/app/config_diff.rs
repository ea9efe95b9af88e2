//! Describes in one line what a reload changes.
//!
//! It compares the running configuration with the next one, not two texts: comments and the order of tables are no
//! change. A changed network shows as a change of the limits that use it.

use std::collections::HashMap;

use crate::defences::{LOOKUP, OWNERS};
use crate::net::tls;
use crate::observe::settings::LogSettings;
use crate::policy::{Limit, LimitKind, Policy, Route};
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::settings::{Forwarding, ProxySettings};
use crate::proxy::upstream::TargetShare;

/// The parts of a configuration that a reload may change.
#[derive(Clone, Copy)]
pub(super) struct ConfigView<'r> {
    pub(super) config: &'r RuntimeConfig,
    pub(super) log: &'r LogSettings,
    pub(super) tls: &'r tls::TlsSettings,
    /// `reload = "watch"`.
    pub(super) is_watched: bool,
}

/// As in ``limit `subnet` added, route `login` changed``.
pub(super) fn diff(old: ConfigView<'_>, new: ConfigView<'_>) -> String {
    let (before, after) = (&old.config.rules.policy, &new.config.rules.policy);
    let mut changes = named("limit", &by_name(before), &by_name(after), |old, new| old == new);
    let same_route = |one: &Route, other: &Route| {
        without_indices(one) == without_indices(other)
            && limits(old.config, one) == limits(new.config, other)
            && upstreams(old.config, one.upstream) == upstreams(new.config, other.upstream)
            && forwarding(old.config, one.upstream) == forwarding(new.config, other.upstream)
    };
    changes.extend(named("route", &before.routes, &after.routes, same_route));
    let others = [
        ("upstream", upstreams(old.config, Some(0)) == upstreams(new.config, Some(0))),
        ("health", old.config.probes == new.config.probes),
        (OWNERS.key, before.owner_cookie == after.owner_cookie && before.owner_memory == after.owner_memory),
        (LOOKUP, before.lookup == after.lookup),
        ("client", old.config.client == new.config.client),
        ("refuse", old.config.refuse == new.config.refuse),
        ("proxy", without_routes(&old.config.settings) == without_routes(&new.config.settings)),
        ("tls", old.tls == new.tls && old.config.redirect == new.config.redirect),
        ("log", old.log == new.log),
        ("reload", old.is_watched == new.is_watched),
    ];
    changes.extend(others.iter().filter(|(_, same)| !same).map(|(name, _)| format!("`{name}` changed")));
    if changes.is_empty() { "nothing has changed".to_owned() } else { changes.join(", ") }
}

/// Says which named items were added, changed or removed.
fn named<T: Named>(kind: &str, before: &[T], after: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<String> {
    let (known, kept) = (positions(before), positions(after));
    let mut changes = Vec::new();
    for new in after {
        match known.get(new.name()) {
            None => changes.push(format!("{kind} `{}` added", new.name())),
            Some(&at) if !same(&before[at], new) => {
                changes.push(format!("{kind} `{}` changed", new.name()));
            }
            Some(_) => {}
        }
    }
    let removed = before.iter().filter(|old| !kept.contains_key(old.name()));
    changes.extend(removed.map(|old| format!("{kind} `{}` removed", old.name())));
    if !after.iter().filter_map(|new| known.get(new.name())).is_sorted() {
        changes.push(format!("{kind}s in another order"));
    }
    changes
}

/// The positions of items; if two have one name, that of the first.
fn positions<T: Named>(list: &[T]) -> HashMap<&str, usize> {
    list.iter().enumerate().rev().map(|(at, item)| (item.name(), at)).collect()
}

/// What is compared by its name.
trait Named {
    fn name(&self) -> &str;
}

impl Named for Route {
    fn name(&self) -> &str {
        &self.name
    }
}

/// A limit with its sub-limits.
impl Named for &[Limit] {
    fn name(&self) -> &str {
        self.first().map_or("", |limit| &limit.name)
    }
}

/// A route without the fields that hold positions, which shift with other tables.
fn without_indices(route: &Route) -> Route {
    Route { upstream: None, limits: Vec::new(), ..route.clone() }
}

/// The limits, grouped by name: each with its sub-limits.
fn by_name(policy: &Policy) -> Vec<&[Limit]> {
    policy.limits.chunk_by(|one, next| one.name == next.name).collect()
}

fn limits<'s>(config: &'s RuntimeConfig, route: &Route) -> Vec<&'s str> {
    let limits = route.limits.iter().filter_map(|&at| config.rules.policy.limits.get(at));
    limits.filter(|limit| limit.kind == LimitKind::Rate).map(|limit| &*limit.name).collect()
}

fn forwarding(config: &RuntimeConfig, group: Option<usize>) -> Option<&Forwarding> {
    config.settings.forwarding.get(group.unwrap_or(0))
}

/// The settings without what routes say about forwarding.
fn without_routes(settings: &ProxySettings) -> ProxySettings {
    let forwarding = settings.forwarding.iter().take(1).copied().collect();
    ProxySettings { forwarding, shares: Vec::new(), ..settings.clone() }
}

/// The names of the upstreams of a group, and their shares.
fn upstreams(config: &RuntimeConfig, group: Option<usize>) -> (Vec<&str>, &[TargetShare]) {
    let Some(at) = group else { return (Vec::new(), &[]) };
    let names = config.upstreams.get(at).into_iter().flatten().map(|health| health.name()).collect();
    (names, config.settings.shares.get(at).map_or(&[], Vec::as_slice))
}
