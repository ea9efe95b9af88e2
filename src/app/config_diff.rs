//! Describes in one line what a reload changes.
//!
//! It compares what runs with what is to run, not two texts: comments and the order of tables are no change. The
//! surprising thing: a network that is changed shows as the limits that use it.

use crate::net::tls;
use crate::observe::settings::LogSettings;
use crate::policy::{Limit, LimitKind, Policy, Route};
use crate::proxy::runtime_config::RuntimeConfig;

/// What a gate runs with, as far as it may change.
#[derive(Clone, Copy)]
pub(super) struct ConfigView<'r> {
    pub(super) config: &'r RuntimeConfig,
    pub(super) log: &'r LogSettings,
    pub(super) tls: &'r tls::TlsSettings,
}

/// As in ``limit `subnet` added, route `login` changed``.
pub(super) fn diff(old: ConfigView<'_>, new: ConfigView<'_>) -> String {
    let (before, after) = (&old.config.rules.policy, &new.config.rules.policy);
    let limit_names = |facets: &&[Limit]| facets.iter().take(1).map(|limit| &*limit.name).collect();
    let route_names = |route: &Route| route.name.to_string();
    let mut words = named("limit", &by_name(before), &by_name(after), limit_names, |old, new| old == new);
    let same_route = |one: &Route, other: &Route| {
        without_indices(one) == without_indices(other)
            && limits(old.config, one) == limits(new.config, other)
            && upstreams(old.config, one.upstream) == upstreams(new.config, other.upstream)
    };
    words.extend(named("route", &before.routes, &after.routes, route_names, same_route));
    let others = [
        ("upstream", upstreams(old.config, Some(0)) == upstreams(new.config, Some(0))),
        ("device", before.devices == after.devices),
        ("client", old.config.client == new.config.client),
        ("refuse", old.config.refuse == new.config.refuse),
        ("proxy", old.config.settings == new.config.settings),
        ("tls", old.tls == new.tls && old.config.redirect == new.config.redirect),
        ("log", old.log == new.log),
    ];
    words.extend(others.iter().filter(|(_, same)| !same).map(|(name, _)| format!("`{name}` changed")));
    if words.is_empty() { "nothing has changed".to_owned() } else { words.join(", ") }
}

/// What was added, changed or removed of things that have a name.
fn named<T>(
    kind: &str,
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> String,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<String> {
    let find = |list: &'_ [T], wanted: &T| list.iter().position(|known| name(known) == name(wanted));
    let mut words = Vec::new();
    for new in after {
        match find(before, new) {
            None => words.push(format!("{kind} `{}` added", name(new))),
            Some(at) if !same(&before[at], new) => words.push(format!("{kind} `{}` changed", name(new))),
            Some(_) => {}
        }
    }
    let removed = before.iter().filter(|old| find(after, old).is_none());
    words.extend(removed.map(|old| format!("{kind} `{}` removed", name(old))));
    if !after.iter().filter_map(|new| find(before, new)).is_sorted() {
        words.push(format!("{kind}s in another order"));
    }
    words
}

/// A route without what it says by positions.
fn without_indices(route: &Route) -> Route {
    Route { limits: Vec::new(), upstream: None, ..route.clone() }
}

/// Each limit with all that it keeps for a key.
fn by_name(policy: &Policy) -> Vec<&[Limit]> {
    policy.limits.chunk_by(|one, next| one.name == next.name).collect()
}

fn limits<'s>(site: &'s RuntimeConfig, route: &Route) -> Vec<&'s str> {
    let limits = route.limits.iter().filter_map(|&at| site.rules.policy.limits.get(at));
    limits.filter(|limit| limit.kind == LimitKind::Rate).map(|limit| &*limit.name).collect()
}

fn upstreams(site: &RuntimeConfig, group: Option<usize>) -> Vec<&str> {
    let group = group.and_then(|at| site.upstreams.get(at));
    group.into_iter().flatten().map(|health| health.name()).collect()
}
