//! What a file that was read again changes, in one line for people.
//!
//! It compares what runs with what is to run, not two texts: comments and the order of tables are no change. The
//! surprising thing: a network that is changed shows as the limits that use it.

use crate::net::tls;
use crate::observe::settings::LogSettings;
use crate::policy::{Facet, Limit, Policy, Route};
use crate::proxy::site::Site;

/// What a gate runs with, as far as it may change.
#[derive(Clone, Copy)]
pub(super) struct Running<'r> {
    pub(super) site: &'r Site,
    pub(super) log: &'r LogSettings,
    pub(super) tls: &'r tls::Settings,
}

/// As in ``limit `subnet` added, route `login` changed``.
pub(super) fn between(old: Running<'_>, new: Running<'_>) -> String {
    let (before, after) = (&old.site.rules.policy, &new.site.rules.policy);
    let limit_names = |facets: &&[Limit]| facets.iter().take(1).map(|limit| &*limit.name).collect();
    let route_names = |route: &Route| route.name.to_string();
    let mut words = named("limit", &by_name(before), &by_name(after), limit_names, |old, new| old == new);
    let same_route = |one: &Route, other: &Route| {
        bare(one) == bare(other)
            && limits(old.site, one) == limits(new.site, other)
            && upstreams(old.site, one.upstream) == upstreams(new.site, other.upstream)
    };
    words.extend(named("route", &before.routes, &after.routes, route_names, same_route));
    let others = [
        ("upstream", upstreams(old.site, Some(0)) == upstreams(new.site, Some(0))),
        ("device", before.devices == after.devices),
        ("client", old.site.client == new.site.client),
        ("refuse", old.site.refuse == new.site.refuse),
        ("proxy", old.site.settings == new.site.settings),
        ("tls", old.tls == new.tls && old.site.redirect == new.site.redirect),
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
fn bare(route: &Route) -> Route {
    Route { limits: Vec::new(), upstream: None, ..route.clone() }
}

/// Each limit with all that it keeps for a key.
fn by_name(policy: &Policy) -> Vec<&[Limit]> {
    policy.limits.chunk_by(|one, next| one.name == next.name).collect()
}

fn limits<'s>(site: &'s Site, route: &Route) -> Vec<&'s str> {
    let limits = route.limits.iter().filter_map(|&at| site.rules.policy.limits.get(at));
    limits.filter(|limit| limit.facet == Facet::Rate).map(|limit| &*limit.name).collect()
}

fn upstreams(site: &Site, group: Option<usize>) -> Vec<&str> {
    let group = group.and_then(|at| site.upstreams.get(at));
    group.into_iter().flatten().map(|health| health.name()).collect()
}
