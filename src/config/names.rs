//! What a configuration has looked up by DNS: names in `[networks]`, as `"dns:home.example.org"`, and the SRV records of upstreams.
//!
//! A configuration is checked with the answers that its sources have, so nothing waits for DNS but the start and a reload that
//! brings a name. When a name is looked up again is left to `app/name_lookups.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::proxy::upstream::TargetShare;
use crate::time::Span;

/// The names that a configuration looks up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsNames {
    /// Those of `[networks]`, each once.
    pub names: BTreeSet<String>,
    /// Those with SRV records, each once.
    pub services: BTreeSet<String>,
    /// `proxy.resolver`; if empty, the system's servers are asked.
    pub servers: Vec<SocketAddr>,
    /// `client.dns_keep`: how long the last answer counts while there is no other.
    pub keep: Span,
}

/// What the names of a configuration were found to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedAddresses {
    /// The addresses of those of `[networks]`.
    pub networks: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The targets of those with SRV records.
    pub services: BTreeMap<String, Vec<ServiceTarget>>,
}

/// An upstream that SRV records name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceTarget {
    /// Priority and weight.
    pub share: TargetShare,
    /// An address of the target, and its port.
    pub address: SocketAddr,
}

impl NamedAddresses {
    /// The addresses of a name; none, if it was never found.
    #[must_use]
    pub fn addresses(&self, name: &str) -> BTreeSet<IpAddr> {
        self.networks.get(name).cloned().unwrap_or_default()
    }

    /// The upstreams of a name; none, if it was never found.
    #[must_use]
    pub fn targets(&self, name: &str) -> &[ServiceTarget] {
        self.services.get(name).map_or(&[], Vec::as_slice)
    }

    /// Those of a name as networks.
    pub(super) fn networks(&self, name: &str) -> impl Iterator<Item = IpNet> {
        self.networks.get(name).into_iter().flatten().copied().map(IpNet::from)
    }
}

/// As many addresses as count, always the same ones of a set.
#[must_use]
pub fn first(addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    addresses.into_iter().take(MAX_ADDRESSES).collect()
}

/// Addresses of a name at most.
pub const MAX_ADDRESSES: usize = 16;
/// Upstreams of SRV records at most: those of the lowest priorities.
pub const MAX_TARGETS: usize = 64;
/// Names of each kind in a configuration at most.
pub(super) const MAX_NAMES: usize = 64;
