//! The groups of upstreams that a file names, and how requests to each are forwarded.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use tollgate_grammar::{Findings, Spot};

use super::super::names::{MAX_NAMES, NamedAddresses, ServiceTarget};
use crate::proxy::settings::Forwarding;
use crate::proxy::upstream::{HealthProbe, TargetShare, UpstreamAddress, UpstreamTarget};
use crate::time::Span;

/// The groups of upstreams, each with what its routes say about forwarding.
pub(super) struct GroupTable {
    pub(super) targets: Vec<Vec<UpstreamTarget>>,
    /// Their shares, where an SRV record names them; empty otherwise.
    pub(super) shares: Vec<Vec<TargetShare>>,
    /// The health checks of those that have one.
    pub(super) probes: HashMap<UpstreamTarget, HealthProbe>,
    /// What `srv+http://NAME` stands for in an `upstream`.
    pub(super) services: ServiceTable,
    own: Vec<OwnForwarding>,
    numbers: HashMap<(CheckedGroup, OwnForwarding), usize>,
}

/// A group as one key names it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct CheckedGroup {
    pub(super) targets: Vec<UpstreamTarget>,
    pub(super) shares: Vec<TargetShare>,
}

/// What a route says about forwarding.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OwnForwarding {
    pub(super) reply_timeout: Option<Span>,
    pub(super) streams: bool,
}

impl GroupTable {
    /// The first group, to which requests go where no route says otherwise.
    pub(super) fn new(first: CheckedGroup, services: ServiceTable) -> Self {
        let own = OwnForwarding::default();
        let numbers = HashMap::from([((first.clone(), own), 0)]);
        let CheckedGroup { targets, shares } = first;
        Self {
            targets: vec![targets],
            shares: vec![shares],
            probes: HashMap::new(),
            services,
            own: vec![own],
            numbers,
        }
    }

    /// The group of the top-level `upstream`.
    pub(super) fn first(&self) -> Option<CheckedGroup> {
        let (targets, shares) = (self.targets.first()?.clone(), self.shares.first()?.clone());
        Some(CheckedGroup { targets, shares })
    }

    /// The number of a group, which routes with the same upstreams and forwarding share.
    pub(super) fn number_of(&mut self, group: CheckedGroup, own: OwnForwarding) -> usize {
        *self.numbers.entry((group, own)).or_insert_with_key(|(group, own)| {
            self.targets.push(group.targets.clone());
            self.shares.push(group.shares.clone());
            self.own.push(*own);
            self.targets.len() - 1
        })
    }

    /// Has the upstreams of a group checked. The first one that has another check already, with that.
    pub(super) fn check_by(
        &mut self,
        group: &[UpstreamTarget],
        probe: &HealthProbe,
    ) -> Option<(UpstreamTarget, HealthProbe)> {
        let other = |target: &UpstreamTarget| match self.probes.entry(target.clone()) {
            Entry::Occupied(known) if known.get() != probe => Some((target.clone(), known.get().clone())),
            entry => {
                entry.or_insert_with(|| probe.clone());
                None
            }
        };
        group.iter().find_map(other)
    }

    /// How requests to each group are forwarded, by what is said for all.
    pub(super) fn forwarding(&self, of_all: Forwarding) -> Vec<Forwarding> {
        let by_route = |own: &OwnForwarding| Forwarding {
            reply_timeout: own.reply_timeout.unwrap_or(of_all.reply_timeout),
            event_timeout: own.reply_timeout.unwrap_or(of_all.event_timeout),
            request_buffer: if own.streams { 0 } else { of_all.request_buffer },
            response_buffer: if own.streams { 0 } else { of_all.response_buffer },
        };
        self.own.iter().map(by_route).collect()
    }
}

/// The names with SRV records that upstreams have, and what is known of them.
#[derive(Debug, Default, Clone)]
pub(super) struct ServiceTable {
    known: NamedAddresses,
    names: BTreeSet<String>,
}

impl ServiceTable {
    pub(super) fn new(known: &NamedAddresses) -> Self {
        Self { known: known.clone(), names: BTreeSet::new() }
    }

    /// Leaves out targets that are `own` addresses of the gate, or no address of a single machine. Returns them with their
    /// names.
    pub(super) fn leave_out(&mut self, own: impl Fn(&UpstreamAddress) -> bool) -> Vec<(String, SocketAddr)> {
        let mut left_out = Vec::new();
        for (name, targets) in &mut self.known.services {
            targets.retain(|target| {
                let ip = target.address.ip();
                let is_refused = ip.is_unspecified() || ip.is_multicast() || own(&address_of(target));
                if is_refused {
                    left_out.push((name.clone(), target.address));
                }
                !is_refused
            });
        }
        left_out
    }

    /// The upstreams that the records of a name list; none, if it was never found.
    pub(super) fn group(&mut self, name: String) -> CheckedGroup {
        let known = self.known.targets(&name);
        let group = CheckedGroup {
            targets: known.iter().map(|target| address_of(target).into()).collect(),
            shares: known.iter().map(|target| target.share).collect(),
        };
        self.names.insert(name);
        group
    }

    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// All names.
    pub(super) fn checked(&self, whole: &Spot, f: &mut Findings) -> BTreeSet<String> {
        if self.names.len() > MAX_NAMES {
            let message =
                format!("upstreams have {} names with SRV records: at most {MAX_NAMES}", self.names.len());
            f.error(whole, message, "write several gates");
        }
        self.names.clone()
    }
}

fn address_of(target: &ServiceTarget) -> UpstreamAddress {
    UpstreamAddress::Tcp { host: target.address.ip().to_string(), port: target.address.port() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_name_the_gate_itself_or_no_machine_are_left_out() {
        let target = |address: &str| ServiceTarget {
            share: TargetShare { priority: 1, weight: 1 },
            address: address.parse().unwrap(),
        };
        let known = ["192.0.2.1:80", "127.0.0.1:9180", "0.0.0.0:80", "224.0.0.1:80"].map(target);
        let services = [("_http._tcp.app.test".to_owned(), known.to_vec())].into();
        let mut table = ServiceTable::new(&NamedAddresses { services, ..NamedAddresses::default() });
        let is_own = |upstream: &UpstreamAddress| matches!(upstream, UpstreamAddress::Tcp { host, port: 9180 } if host == "127.0.0.1");
        assert_eq!(table.leave_out(is_own).len(), 3);
        let group = table.group("_http._tcp.app.test".to_owned());
        assert_eq!((group.targets.len(), group.shares.len()), (1, 1));
    }
}
