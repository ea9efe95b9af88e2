//! Which routes a host has: found by its name, so that a thousand sites cost a request no more than one.
//!
//! What a pattern means is left to [`HostPattern`]; a table answers the same, and a test compares the two.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::matcher::HostPattern;

/// Hosts by their patterns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSet(HostTable<()>);

/// The routes of each host, by position.
#[derive(Debug, Clone, Default)]
pub(super) struct RouteHosts {
    /// Those that match any host.
    any: Vec<usize>,
    named: HostTable<Vec<usize>>,
    /// Those that match all hosts but these as well.
    others: Vec<(Arc<HostSet>, Vec<usize>)>,
}

/// The hosts of one route: its patterns, none for any host, and the hosts that others name if it takes all but these.
pub(super) type HostsOfRoute<'r> = (&'r [HostPattern], Option<&'r Arc<HostSet>>);

/// Positions of routes, ascending, each once.
pub(super) type RoutePositions = SmallVec<[usize; 8]>;

/// What patterns of hosts have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct HostTable<T> {
    exact: HashMap<Box<str>, T>,
    /// By the name that the hosts are below.
    below: HashMap<Box<str>, T>,
    /// Bytes of the longest name in `below`: a host that a client invents has no more parts to look up.
    longest: usize,
}

impl HostSet {
    /// Whether one of the patterns matches a host, in lower case and without port.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        self.0.matching(host).next().is_some()
    }
}

impl<'p> FromIterator<&'p HostPattern> for HostSet {
    fn from_iter<I: IntoIterator<Item = &'p HostPattern>>(patterns: I) -> Self {
        let mut table = HostTable::default();
        patterns.into_iter().for_each(|pattern| *table.entry(pattern) = ());
        Self(table)
    }
}

impl RouteHosts {
    pub(super) fn of<'r>(routes: impl Iterator<Item = HostsOfRoute<'r>>) -> Self {
        let mut all = Self::default();
        for (position, (patterns, other_than)) in routes.enumerate() {
            if patterns.is_empty() {
                all.any.push(position);
                continue;
            }
            patterns.iter().for_each(|pattern| all.named.entry(pattern).push(position));
            if let Some(known) = other_than {
                all.add_other(known, position);
            }
        }
        all
    }

    fn add_other(&mut self, known: &Arc<HostSet>, position: usize) {
        match self.others.iter_mut().find(|(same, _)| Arc::ptr_eq(same, known)) {
            Some((_, positions)) => positions.push(position),
            None => self.others.push((Arc::clone(known), vec![position])),
        }
    }

    /// The routes that match this host.
    pub(super) fn routes_of(&self, host: &str) -> RoutePositions {
        let others = self.others.iter().filter(|(known, _)| !known.matches(host)).map(|(_, routes)| routes);
        let lists = self.named.matching(host).chain(others);
        let mut found = RoutePositions::from_slice(&self.any);
        for list in lists {
            found.extend_from_slice(list);
        }
        if found.len() > self.any.len() {
            // Few come from several lists, and sorting what is sorted costs a comparison each.
            found.sort_unstable();
            found.dedup();
        }
        found
    }
}

impl<T: Default> HostTable<T> {
    fn entry(&mut self, pattern: &HostPattern) -> &mut T {
        match pattern.parent() {
            Some(name) => {
                self.longest = self.longest.max(name.len());
                self.below.entry(name.into()).or_default()
            }
            None => self.exact.entry(pattern.name().into()).or_default(),
        }
    }
}

impl<T> HostTable<T> {
    /// What the patterns that match this host have.
    fn matching(&self, host: &str) -> impl Iterator<Item = &T> {
        // A name is below another only if a part stands before the dot: a dot at the very beginning does not count.
        let first = host.len().saturating_sub(self.longest + 1).max(1);
        let dots = host.bytes().enumerate().skip(first).filter(|(_, byte)| *byte == b'.');
        let below = dots.filter_map(|(dot, _)| self.below.get(host.get(dot + 1..)?));
        self.exact.get(host).into_iter().chain(below)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Hosts = (Vec<HostPattern>, Option<Arc<HostSet>>);

    /// Whether a route matches a host, pattern by pattern.
    fn fits((hosts, other_than): &Hosts, host: &str, named: &[HostPattern]) -> bool {
        let is_one_of = |patterns: &[HostPattern]| patterns.iter().any(|pattern| pattern.matches(host));
        hosts.is_empty() || is_one_of(hosts) || (other_than.is_some() && !is_one_of(named))
    }

    /// Routes, each with its patterns and whether it takes all hosts that no route names.
    fn routes(written: &[(Vec<String>, bool)]) -> (Vec<Hosts>, Vec<HostPattern>) {
        let patterns =
            |texts: &[String]| texts.iter().filter_map(|text| HostPattern::new(text)).collect::<Vec<_>>();
        let named: Vec<HostPattern> = written.iter().flat_map(|(texts, _)| patterns(texts)).collect();
        let all: Arc<HostSet> = Arc::new(named.iter().collect());
        let route = |(texts, is_default): &(Vec<String>, bool)| {
            let hosts = patterns(texts);
            let takes_others = *is_default && !hosts.is_empty();
            (hosts, takes_others.then(|| Arc::clone(&all)))
        };
        (written.iter().map(route).collect(), named)
    }

    fn agree(routes: &[Hosts], named: &[HostPattern], host: &str) -> Result<(), TestCaseError> {
        let one_by_one = (0..routes.len()).filter(|&at| fits(&routes[at], host, named));
        let table = RouteHosts::of(routes.iter().map(|(hosts, others)| (&hosts[..], others.as_ref())));
        prop_assert_eq!(table.routes_of(host).to_vec(), one_by_one.collect::<Vec<_>>());
        let set: HostSet = named.iter().collect();
        prop_assert_eq!(set.matches(host), named.iter().any(|pattern| pattern.matches(host)), "{}", host);
        Ok(())
    }

    proptest! {
        #[test]
        fn a_host_has_the_same_routes_by_its_name_as_pattern_by_pattern(
            written in prop::collection::vec(
                (prop::collection::vec("(\\*\\.)?[aB.]{0,3}(\\.?[ab:]{1,2}){0,2}\\.?", 0..3), any::<bool>()),
                0..12,
            ),
            hosts in prop::collection::vec("[ab.:]{0,7}", 1..12),
        ) {
            let (routes, named) = routes(&written);
            for host in hosts {
                agree(&routes, &named, &host)?;
            }
        }

        #[test]
        fn what_is_near_a_pattern_has_the_same_routes_both_ways(
            names in prop::collection::vec("[a-c]{1,2}(\\.[a-c]{1,2}){0,2}", 1..6),
            before in prop_oneof![Just(""), Just("."), Just("a."), Just("x"), Just("a.b."), Just("..")],
            wild in prop::collection::vec(any::<bool>(), 6),
        ) {
            let text = |(name, wild): (&String, &bool)| {
                if *wild { format!("*.{name}") } else { name.clone() }
            };
            let written: Vec<_> =
                names.iter().zip(&wild).map(|pair| (vec![text(pair)], *pair.1)).collect();
            let (routes, named) = routes(&written);
            for name in &names {
                agree(&routes, &named, &format!("{before}{name}"))?;
            }
        }
    }

    #[test]
    fn a_host_of_dots_is_looked_up_no_longer_than_the_names_of_the_file() {
        let table = HostSet::from_iter(&[HostPattern::new("*.example.org").unwrap()]);
        assert_eq!(table.0.longest, 11);
        assert!(!table.matches(&".".repeat(100_000)));
        assert!(table.matches(&format!("{}a.example.org", ".".repeat(100_000))));
    }
}
