//! Sites: the routes of a policy by their hosts, as people who host them count.
//!
//! A file knows routes, and a site may have several: a preset's, and one for its other pages.

use std::collections::HashMap;

use super::matcher::HostPattern;
use super::{Policy, Route};

/// The routes with the same hosts, or without any those of one application.
#[derive(Debug)]
pub struct Site<'p> {
    /// The application of the first route. No other site has this name.
    pub name: &'p str,
    /// In the order of the policy; at least one.
    pub routes: Vec<&'p Route>,
}

impl<'p> Site<'p> {
    /// All of a policy, in the order of their first routes.
    #[must_use]
    pub fn all(policy: &'p Policy) -> Vec<Self> {
        let (mut sites, mut numbers) = (Vec::<Self>::new(), HashMap::new());
        for route in &policy.routes {
            let hosts = &route.matching.hosts[..];
            let application = if hosts.is_empty() { &*route.application } else { "" };
            let number = *numbers.entry((hosts, application)).or_insert(sites.len());
            match sites.get_mut(number) {
                Some(site) => site.routes.push(route),
                None => sites.push(Self { name: &route.application, routes: vec![route] }),
            }
        }
        sites
    }

    /// Its hosts; none means any.
    #[must_use]
    pub fn hosts(&self) -> &'p [HostPattern] {
        self.routes.first().map_or(&[], |route| &route.matching.hosts)
    }
}
