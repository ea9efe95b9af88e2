//! Which site a line is about: by its route, and for a template by its host as well.
//!
//! All names come from the configuration, so a client that invents hosts adds none.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::attempt::Client;
use crate::policy::key::PrefixLengths;
use crate::policy::matcher::HostPattern;
use crate::policy::{Policy, Site};
use crate::replay::attempt::normalize;

/// The sites of a policy.
#[derive(Debug)]
pub struct SiteTable {
    lines: Vec<SiteName>,
    routes: HashMap<Arc<str>, RouteLines>,
    limits: HashMap<Arc<str>, usize>,
    /// The limits, each with whether it is by account.
    named_limits: Vec<(Arc<str>, bool)>,
    prefixes: PrefixLengths,
}

/// A line of a report.
#[derive(Debug)]
pub(super) struct SiteName {
    pub(super) site: String,
    pub(super) hosts: Vec<String>,
    /// Whether each of its hosts has a line.
    is_template: bool,
}

/// The lines for attempts at a route.
#[derive(Debug, Clone)]
struct RouteLines {
    /// For what no host has.
    rest: usize,
    hosts: Option<Arc<HostLines>>,
}

#[derive(Debug, Default)]
struct HostLines {
    exact: HashMap<String, usize>,
    patterns: Vec<(HostPattern, usize)>,
}

impl SiteTable {
    /// The sites of a policy, where each host of a template is one. Clients of one prefix are one client.
    #[must_use]
    pub fn new(policy: &Policy, prefixes: PrefixLengths, is_template: impl Fn(&str) -> bool) -> Self {
        let (mut lines, mut routes) = (Vec::new(), HashMap::new());
        for site in Site::all(policy) {
            let rest = lines.len();
            let hosts: Vec<String> = site.hosts().iter().map(ToString::to_string).collect();
            let is_template = is_template(site.name);
            let name = |hosts| SiteName { site: site.name.to_owned(), hosts, is_template: false };
            let of_hosts = is_template.then(|| {
                lines.push(SiteName { is_template, ..name(Vec::new()) });
                let first = lines.len();
                lines.extend(hosts.iter().map(|host| name(vec![host.clone()])));
                Arc::new(HostLines::of(site.hosts(), first))
            });
            if !is_template {
                lines.push(name(hosts));
            }
            let of_route = RouteLines { rest, hosts: of_hosts };
            routes.extend(site.routes.iter().map(|route| (Arc::clone(&route.name), of_route.clone())));
        }
        let mut named_limits: Vec<(Arc<str>, bool)> =
            policy.limits.iter().map(|limit| (Arc::clone(&limit.name), limit.is_account())).collect();
        named_limits.dedup_by(|next, one| next.0 == one.0);
        let limits = named_limits.iter().enumerate().map(|(at, (name, _))| (Arc::clone(name), at)).collect();
        Self { lines, routes, limits, named_limits, prefixes }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &SiteName> {
        self.lines.iter()
    }

    /// The number of the line for an attempt; `None` if the configuration does not have the route.
    pub(super) fn line_of(&self, route: &str, host: Option<&str>) -> Option<usize> {
        let RouteLines { rest, hosts } = self.routes.get(route)?;
        let of_host = hosts.as_ref().zip(host).and_then(|(hosts, host)| hosts.line_of(&normalize(host)));
        Some(of_host.unwrap_or(*rest))
    }

    /// The number of a limit; `None` if the configuration does not have it.
    pub(super) fn limit(&self, name: &str) -> Option<usize> {
        self.limits.get(name).copied()
    }

    /// The name of a limit of this number.
    pub(super) fn limit_name(&self, number: usize) -> &str {
        self.named_limits.get(number).map_or("", |(name, _)| name)
    }

    pub(super) fn is_by_account(&self, limit: usize) -> bool {
        self.named_limits.get(limit).is_some_and(|(_, is_by_account)| *is_by_account)
    }

    /// The client as reports tell clients apart.
    pub(super) fn shown(&self, client: Client) -> Client {
        client.ip().map_or(client, |ip| Client::Ip(self.prefixes.mask(ip)))
    }
}

impl SiteName {
    /// Whether it has what no host of a template has.
    pub(super) fn is_rest(&self) -> bool {
        self.is_template
    }
}

impl HostLines {
    /// The hosts of a template, whose lines follow each other from this one on.
    fn of(hosts: &[HostPattern], first: usize) -> Self {
        let mut lines = Self::default();
        for (host, line) in hosts.iter().zip(first..) {
            match host.to_string() {
                name if name.starts_with("*.") => lines.patterns.push((host.clone(), line)),
                name => drop(lines.exact.insert(name, line)),
            }
        }
        lines
    }

    fn line_of(&self, host: &str) -> Option<usize> {
        let pattern = || self.patterns.iter().find(|(pattern, _)| pattern.matches(host));
        self.exact.get(host).copied().or_else(|| pattern().map(|(_, line)| *line))
    }
}
