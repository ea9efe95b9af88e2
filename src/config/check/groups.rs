//! The groups of upstreams that a file names, and how requests to each are forwarded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::proxy::settings::Forwarding;
use crate::proxy::upstream::{HealthProbe, UpstreamTarget};
use crate::time::Span;

/// The groups of upstreams, each with what its routes say about forwarding.
pub(super) struct GroupTable {
    pub(super) targets: Vec<Vec<UpstreamTarget>>,
    /// The health checks of those that have one.
    pub(super) probes: HashMap<UpstreamTarget, HealthProbe>,
    own: Vec<OwnForwarding>,
    numbers: HashMap<(Vec<UpstreamTarget>, OwnForwarding), usize>,
}

/// What a route says about forwarding.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OwnForwarding {
    pub(super) reply_timeout: Option<Span>,
    pub(super) streams: bool,
}

impl GroupTable {
    /// The first group, to which requests go where no route says otherwise.
    pub(super) fn new(first: Vec<UpstreamTarget>) -> Self {
        let own = OwnForwarding::default();
        let numbers = HashMap::from([((first.clone(), own), 0)]);
        Self { targets: vec![first], probes: HashMap::new(), own: vec![own], numbers }
    }

    /// The number of a group, which routes with the same upstreams and forwarding share.
    pub(super) fn number_of(&mut self, group: Vec<UpstreamTarget>, own: OwnForwarding) -> usize {
        *self.numbers.entry((group, own)).or_insert_with_key(|(group, own)| {
            self.targets.push(group.clone());
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
