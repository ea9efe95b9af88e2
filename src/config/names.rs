//! Names of DNS in `[networks]`, as `"dns:home.example.org"`: their addresses, and how they are looked up.
//!
//! A configuration is checked with the addresses that its sources have, so nothing waits for DNS but the start. When a
//! name is looked up again is left to `app/name_lookups.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;

use crate::time::Span;

/// The names that a configuration looks up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsNames {
    /// All of them, each once.
    pub names: BTreeSet<String>,
    /// `client.dns_keep`: how long the last answer counts while there is no other.
    pub keep: Span,
}

/// The addresses of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedAddresses(BTreeMap<String, BTreeSet<IpAddr>>);

impl NamedAddresses {
    /// The addresses of a name; none, if it was never found.
    #[must_use]
    pub fn addresses(&self, name: &str) -> BTreeSet<IpAddr> {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// Those of a name as networks.
    pub(super) fn networks(&self, name: &str) -> impl Iterator<Item = IpNet> {
        self.0.get(name).into_iter().flatten().copied().map(IpNet::from)
    }
}

impl FromIterator<(String, BTreeSet<IpAddr>)> for NamedAddresses {
    fn from_iter<I: IntoIterator<Item = (String, BTreeSet<IpAddr>)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

/// Asks the system's resolver, which may take many seconds. An answer without an address is an error.
///
/// # Errors
/// That of the resolver.
pub fn look_up(name: &str) -> io::Result<BTreeSet<IpAddr>> {
    let found: BTreeSet<IpAddr> =
        (name, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical()).collect();
    match found.is_empty() {
        true => Err(io::Error::other("it has no address")),
        false => Ok(found),
    }
}

/// Looks up all names at once, and gives up those that take longer than this in all. A name that has no answer is
/// missing.
#[must_use]
pub fn look_up_all(names: &BTreeSet<String>, within: Duration) -> NamedAddresses {
    let (sender, answers) = mpsc::channel();
    for name in names.clone() {
        let sender = sender.clone();
        let look_up = move || {
            if let Ok(addresses) = look_up(&name) {
                // The caller may have given up.
                let _ = sender.send((name, first(addresses)));
            }
        };
        // Without a thread the name has no answer, and is looked up again later.
        let _ = thread::Builder::new().name("dns".to_owned()).spawn(look_up);
    }
    drop(sender);
    let (stop, stopped) = mpsc::channel();
    let _ = thread::Builder::new().name("dns".to_owned()).spawn(move || {
        let _ = stop.send(answers.iter().collect());
    });
    stopped.recv_timeout(within).unwrap_or_default()
}

/// As many addresses as count, always the same ones of a set.
#[must_use]
pub fn first(addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    addresses.into_iter().take(MAX_ADDRESSES).collect()
}

/// Addresses of a name at most.
pub const MAX_ADDRESSES: usize = 16;
/// Names of a configuration at most.
pub(super) const MAX_NAMES: usize = 64;
