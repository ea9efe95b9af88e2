//! Looks a name up: in `/etc/hosts`, then at servers of DNS, whose answers say how long they hold, then by whatever else the
//! system knows (`nsswitch.conf`: mDNS, LDAP). Servers that the configuration names are asked alone.
//!
//! Files are read by the broker, because the confined background may not read all of them. When a name is looked up again is left
//! to `lookup_schedule`.

#[cfg(not(feature = "dns"))]
mod absent;
#[cfg(feature = "dns")]
mod client;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(not(feature = "dns"))]
use self::absent::DnsClient;
#[cfg(feature = "dns")]
use self::client::DnsClient;
use super::sandbox::Broker;
use crate::config::names::{DnsNames, MAX_TARGETS, NamedAddresses, ServiceTarget, first};
use crate::proxy::upstream::TargetShare;

/// Looks names up.
#[derive(Debug, Clone)]
pub(super) struct NameResolver {
    /// If empty, those of `/etc/resolv.conf`.
    servers: Vec<SocketAddr>,
    broker: Broker,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DnsFound<T> {
    pub(super) value: T,
    /// How long it holds; `None` if it is not from a server of DNS.
    pub(super) ttl: Option<Duration>,
}

/// An SRV record.
#[cfg_attr(not(feature = "dns"), allow(dead_code, reason = "no client makes one"))]
struct ServiceRecord {
    share: TargetShare,
    target: String,
    port: u16,
}

impl NameResolver {
    pub(super) fn new(servers: &[SocketAddr], broker: &Broker) -> Self {
        Self { servers: servers.to_vec(), broker: broker.clone() }
    }

    /// At least one address.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn addresses(&self, name: &str) -> io::Result<DnsFound<BTreeSet<IpAddr>>> {
        let files = self.files(name).await?;
        let mut failed = None;
        if !files.is_host && name.parse::<IpAddr>().is_err() {
            let asked = async { DnsClient::new(&self.servers, &files.resolv_conf)?.addresses(name).await };
            match within(asked).await {
                Ok(found) => return Ok(found),
                Err(error) if !self.servers.is_empty() => return Err(error),
                Err(error) => failed = cfg!(feature = "dns").then_some(error),
            }
        }
        let asked = name.to_owned();
        let value = self.broker.run(move || system_addresses(&asked)).await?;
        Ok(DnsFound { value: value.map_err(|error| failed.unwrap_or(error))?, ttl: None })
    }

    /// The same without a borrow, for tasks.
    ///
    /// # Errors
    /// As above.
    pub(super) async fn addresses_of(self, name: String) -> io::Result<DnsFound<BTreeSet<IpAddr>>> {
        self.addresses(&name).await
    }

    /// The targets of SRV records by their addresses, at least one.
    ///
    /// # Errors
    /// Why there is none. Targets whose addresses could not be found out are left out, and asked for again soon.
    pub(super) async fn service(&self, name: &str) -> io::Result<DnsFound<Vec<ServiceTarget>>> {
        let files = self.files(name).await?;
        let asked = async { DnsClient::new(&self.servers, &files.resolv_conf)?.service(name).await };
        let DnsFound { value: mut records, mut ttl } = within(asked).await?;
        records.sort_by_key(|record| (record.share.priority, Reverse(record.share.weight)));
        records.truncate(MAX_TARGETS);
        let mut lookups = JoinSet::new();
        for record in records {
            let resolver = self.clone();
            lookups.spawn(async move { (resolver.addresses(&record.target).await, record) });
        }
        let (mut targets, mut failed) = (BTreeSet::new(), None);
        for (found, ServiceRecord { share, port, .. }) in lookups.join_all().await {
            let found = match found {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    (failed, ttl) = (Some(error), Some(Duration::ZERO));
                    continue;
                }
            };
            ttl = ttl.min(found.ttl.or(ttl));
            let address = |ip: IpAddr| SocketAddr::new(ip.to_canonical(), port);
            targets.extend(found.value.into_iter().map(|ip| ServiceTarget { share, address: address(ip) }));
        }
        let mut seen = BTreeSet::new();
        let value: Vec<_> =
            targets.into_iter().filter(|target| seen.insert(target.address)).take(MAX_TARGETS).collect();
        match value.is_empty() {
            true => {
                Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it has no target")))
            }
            false => Ok(DnsFound { value, ttl }),
        }
    }

    async fn files(&self, name: &str) -> io::Result<ResolverFiles> {
        let name = name.trim_end_matches('.').to_owned();
        self.broker.run(move || ResolverFiles::read(&name)).await
    }
}

/// What the system's files say about a name.
struct ResolverFiles {
    /// Whether `/etc/hosts` has the name.
    is_host: bool,
    resolv_conf: Vec<u8>,
}

impl ResolverFiles {
    fn read(name: &str) -> Self {
        let mut hosts = Vec::new();
        // Without the file, as far as it can be read.
        let _ = File::open("/etc/hosts").and_then(|file| file.take(MAX_HOSTS).read_to_end(&mut hosts));
        Self {
            // A comment may be in any charset.
            is_host: has_host(&String::from_utf8_lossy(&hosts), name),
            resolv_conf: fs::read("/etc/resolv.conf").unwrap_or_default(),
        }
    }
}

fn has_host(hosts: &str, name: &str) -> bool {
    let names = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().skip(1).any(|host| host.eq_ignore_ascii_case(name))
    };
    hosts.lines().any(names)
}

async fn within<T>(lookup: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(LOOKUP_TIMEOUT, lookup).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// Asks the system's resolver, which may take many seconds.
fn system_addresses(name: &str) -> io::Result<BTreeSet<IpAddr>> {
    let found: BTreeSet<IpAddr> =
        (name, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical()).collect();
    match found.is_empty() {
        true => Err(io::Error::other("it has no address")),
        false => Ok(found),
    }
}

/// Looks up all names of a configuration at once, and gives up those that take longer than this in all. A name that has no
/// answer is missing.
pub(super) async fn look_up_within(dns: &DnsNames, limit: Duration, broker: &Broker) -> NamedAddresses {
    let resolver = NameResolver::new(&dns.servers, broker);
    let mut networks = JoinSet::new();
    for name in dns.names.clone() {
        let resolver = resolver.clone();
        networks.spawn(timeout(limit, async move { (resolver.addresses(&name).await, name) }));
    }
    let mut services = JoinSet::new();
    for name in dns.services.clone() {
        let resolver = resolver.clone();
        services.spawn(timeout(limit, async move { (resolver.service(&name).await, name) }));
    }
    let networks = networks.join_all().await.into_iter().flatten();
    let services = services.join_all().await.into_iter().flatten();
    NamedAddresses {
        networks: networks.filter_map(|(found, name)| Some((name, first(found.ok()?.value)))).collect(),
        services: services.filter_map(|(found, name)| Some((name, found.ok()?.value))).collect(),
    }
}

/// The same on a thread that nothing confines, and without a runtime.
#[must_use]
pub fn look_up_all(dns: &DnsNames, limit: Duration) -> NamedAddresses {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return NamedAddresses::default();
    };
    let found = runtime.block_on(look_up_within(dns, limit, &Broker::not_needed()));
    // A thread may still wait for the system's resolver.
    runtime.shutdown_background();
    found
}

/// For all servers and suffixes.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of `/etc/hosts`.
const MAX_HOSTS: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_hosts_file_is_found_in_any_case_and_not_in_comments() {
        let hosts = "127.0.0.1 localhost\n192.0.2.1\tApp.test app # db.test\n#192.0.2.2 off.test\n";
        let has = |name| has_host(hosts, name);
        assert!(has("localhost") && has("app.test") && has("APP"));
        assert!(!has("db.test") && !has("off.test") && !has("192.0.2.1") && !has(""));
    }

    #[tokio::test]
    async fn names_of_this_machine_and_addresses_are_found_without_a_server() {
        let nowhere = [SocketAddr::from(([127, 0, 0, 1], 1))];
        let resolver = NameResolver::new(&nowhere, &Broker::not_needed());
        for (name, address) in [("localhost", [127, 0, 0, 1]), ("192.0.2.7", [192, 0, 2, 7])] {
            let found = resolver.addresses(name).await.unwrap();
            assert!(found.ttl.is_none() && found.value.contains(&IpAddr::from(address)), "{name}");
        }
        let error = resolver.addresses("app.test").await.unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::NotFound, "nobody said that there is no such name");
        assert!(resolver.service("_http._tcp.app.test").await.is_err());
    }
}
