//! `host` and `host_default`: the hosts of a route.
//!
//! A route with `host` does not see other hosts. If one application answers for every host, that is a way past the
//! limits: the same form under another name, or without one, as in HTTP/1.0. A warning reports such routes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located, RawNamed, Spot, StringList};

use super::super::raw;
use super::context::CheckContext;
use super::files::Files;
use super::list_file;
use crate::policy::canonical::Case;
use crate::policy::matcher::{HostPattern, Pattern};
use crate::policy::{HostSet, Route};
use crate::proxy::upstream::{UpstreamAddress, UpstreamTarget};

/// The hosts of a route; none means any.
pub(super) fn check(raw: &raw::RawRoute, files: &mut Files<'_>, f: &mut Findings) -> Vec<HostPattern> {
    if let Some(list) = raw.host.as_ref().filter(|list| list.is_empty) {
        f.error(&list.spot, "`host` is empty", "leave it out to mean any host");
    }
    if let (None, Some(wanted)) = (&raw.host, raw.host_default.as_ref().filter(|wanted| wanted.value)) {
        f.error(
            &wanted.spot,
            "`host_default` without `host`",
            "leave it out: without `host` a route is for any host",
        );
    }
    let hosts = raw.host.as_deref().map(|list| with_lists(list, files, f));
    distinct(hosts.as_ref(), f).into_iter().filter_map(|host| host_pattern(host, f)).collect()
}

/// The hosts, with those of the files that the list names.
fn with_lists(list: &StringList, files: &mut Files<'_>, f: &mut Findings) -> StringList {
    let mut hosts: Vec<Located<String>> = Vec::new();
    for entry in &list.value {
        match entry.value.strip_prefix('@') {
            Some(path) => read_list(path, &entry.spot, files, &mut hosts, f),
            None => hosts.push(entry.clone()),
        }
    }
    StringList { value: hosts, spot: list.spot.clone(), is_empty: list.is_empty }
}

/// Adds the hosts of a file. What is no host is reported with those of the route.
fn read_list(
    path: &str,
    spot: &Spot,
    files: &mut Files<'_>,
    hosts: &mut Vec<Located<String>>,
    f: &mut Findings,
) {
    let (before, mut known) = (hosts.len(), HashSet::new());
    let was_read = list_file::read(path, spot, files, f, |host, _| {
        let is_good = HostPattern::new(&host.value).is_some() && known.insert(host.value.clone());
        hosts.push(host);
        is_good
    });
    if was_read && hosts.len() == before {
        f.error(spot, format!("`{path}` names no host"), "a host a line, as in www.example.org");
    }
}

fn host_pattern(text: &Located<String>, f: &mut Findings) -> Option<HostPattern> {
    let has_port = text.value.contains(':') && !text.value.starts_with('[');
    let pattern = HostPattern::new(&text.value).filter(|_| !has_port);
    if pattern.is_none() {
        let hint = match () {
            () if has_port => "hosts are compared without scheme and port",
            () if text.value == "*" => "leave `host` out to mean any host",
            () if !text.value.is_ascii() => "write it in its ASCII form, as in xn--mnchen-3ya.example",
            () => "write it as intranet.example.org or *.example.org",
        };
        f.error(&text.spot, format!("`{}` is not a host", text.value), hint);
    }
    pattern
}

/// Gives the routes with `host_default` all hosts that no route names.
pub(super) fn take_others(raw: &[RawNamed<raw::RawRoute>], routes: &mut [Option<Route>]) {
    let named: Arc<HostSet> =
        Arc::new(routes.iter().flatten().flat_map(|route| &route.matching.hosts).collect());
    for (RawNamed { value: raw, .. }, route) in raw.iter().zip(routes) {
        let is_wanted = raw.host_default.as_ref().is_some_and(|wanted| wanted.value);
        if let Some(route) = route.as_mut().filter(|route| is_wanted && !route.matching.hosts.is_empty()) {
            route.matching.other_than = Some(Arc::clone(&named));
        }
    }
}

/// Warns of routes whose application another host reaches past some of their limits.
pub(super) fn warn(cx: &CheckContext<'_>, f: &mut Findings) {
    let (routes, upstreams) = (&cx.routes, &cx.groups.targets);
    let wide: Vec<&Route> = routes.iter().flatten().filter(|route| takes_others(route)).collect();
    let alike = AlikeRoutes::of(routes, upstreams);
    for (RawNamed { value: raw, .. }, route) in cx.raw.routes.iter().zip(routes) {
        let (Some(route), Some(hosts)) = (route, &raw.host) else { continue };
        if takes_others(route) {
            continue;
        }
        let is_covered = |pattern: &Pattern| wide.iter().any(|other| covers(other, route, pattern));
        let at_default =
            shares(route.upstream, None, upstreams) && !route.matching.patterns.iter().all(is_covered);
        match alike.first_bypass(route) {
            _ if at_default => warn_of(route, &hosts.spot, "for hosts that no route names", f),
            Some(other) => warn_of(route, &hosts.spot, &format!("by route `{}`", other.name), f),
            None => {}
        }
    }
}

/// Groups of routes with the same upstreams and the same limits, in the order of the first of each.
struct AlikeRoutes<'r> {
    groups: Vec<Vec<(usize, &'r Route)>>,
    /// The groups that lead to an address.
    by_address: HashMap<&'r UpstreamAddress, Vec<usize>>,
    upstreams: &'r [Vec<UpstreamTarget>],
}

impl<'r> AlikeRoutes<'r> {
    fn of(routes: &'r [Option<Route>], upstreams: &'r [Vec<UpstreamTarget>]) -> Self {
        let mut alike = Self { groups: Vec::new(), by_address: HashMap::new(), upstreams };
        let mut numbers = HashMap::new();
        let routes = routes.iter().enumerate().filter_map(|(at, route)| Some((at, route.as_ref()?)));
        for (at, route) in routes {
            let number = *numbers.entry((route.upstream, &route.limits)).or_insert_with(|| {
                alike.groups.push(Vec::new());
                alike.groups.len() - 1
            });
            if alike.groups[number].is_empty() {
                for target in targets(route.upstream, upstreams) {
                    alike.by_address.entry(&target.address).or_default().push(number);
                }
            }
            alike.groups[number].push((at, route));
        }
        alike
    }

    /// The first route that leads to the application of this one past some of its limits.
    fn first_bypass(&self, route: &Route) -> Option<&'r Route> {
        let own = targets(route.upstream, self.upstreams).iter();
        let mut near: Vec<usize> =
            own.filter_map(|target| self.by_address.get(&target.address)).flatten().copied().collect();
        near.sort_unstable();
        near.dedup();
        let mut found: Option<(usize, &Route)> = None;
        for group in near.into_iter().map(|number| &self.groups[number]) {
            let Some((first, other)) = group.first() else { continue };
            if found.is_some_and(|(found, _)| found < *first) {
                break;
            }
            // A route itself is in a group that has all its limits.
            if lacks_limits(other, route) && shares(route.upstream, other.upstream, self.upstreams) {
                let bypass = group.iter().find(|(_, other)| is_bypass(other, route));
                found = found.into_iter().chain(bypass.copied()).min_by_key(|(at, _)| *at);
            }
        }
        found.map(|(_, route)| route)
    }
}

fn warn_of(route: &Route, spot: &Spot, how: &str, f: &mut Findings) {
    let message =
        format!("the application of route `{}` can be reached past its limits, {how}", route.application);
    f.warning(
        spot,
        message,
        "host_default = true takes all hosts that no route names; or add the same route without `host`",
    );
}

/// Whether two groups have an upstream in common; the default one is the first. Without its own name an upstream
/// is asked for whatever host the client says.
fn shares(one: Option<usize>, other: Option<usize>, upstreams: &[Vec<UpstreamTarget>]) -> bool {
    let is_same = |one: &UpstreamTarget, other: &UpstreamTarget| {
        one.address == other.address && (one.host == other.host || one.host.is_none() || other.host.is_none())
    };
    let others = targets(other, upstreams);
    targets(one, upstreams).iter().any(|target| others.iter().any(|other| is_same(target, other)))
}

fn targets(group: Option<usize>, upstreams: &[Vec<UpstreamTarget>]) -> &[UpstreamTarget] {
    upstreams.get(group.unwrap_or(0)).map_or(&[][..], Vec::as_slice)
}

fn takes_others(route: &Route) -> bool {
    route.matching.hosts.is_empty() || route.matching.other_than.is_some()
}

/// Whether another route counts every request that this pattern of a route matches.
fn covers(other: &Route, route: &Route, pattern: &Pattern) -> bool {
    let case = other.matching.case == Case::Insensitive || other.matching.case == route.matching.case;
    let when = !other.is_conditional()
        || (other.matching.when == route.matching.when && other.reading.cost == route.reading.cost);
    case && when && other.matching.patterns.iter().any(|wider| wider.covers(pattern))
}

fn lacks_limits(other: &Route, route: &Route) -> bool {
    !route.limits.iter().all(|limit| other.limits.contains(limit))
}

/// Whether another route leads to the same form by other hosts and with fewer limits.
fn is_bypass(other: &Route, route: &Route) -> bool {
    let leads_there = |pattern: &Pattern| other.matching.patterns.iter().any(|wider| wider.covers(pattern));
    other.matching.hosts != route.matching.hosts
        && route.matching.patterns.iter().any(leads_there)
        && lacks_limits(other, route)
}
