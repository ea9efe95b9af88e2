//! Asks servers of DNS for addresses and SRV records. It keeps no answer: its callers do, for the answer's TTL.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData};

use super::{DnsFound, ServiceRecord};
use crate::proxy::upstream::TargetShare;

/// For one lookup.
pub(super) struct DnsClient(TokioResolver);

impl DnsClient {
    /// For these servers, or without any for those of a text like `/etc/resolv.conf`.
    pub(super) fn new(servers: &[SocketAddr], resolv_conf: &[u8]) -> io::Result<Self> {
        let mut options = ResolverOpts::default();
        options.use_hosts_file = ResolveHosts::Never;
        options.cache_size = 0;
        options.attempts = 1;
        options.timeout = SERVER_TIMEOUT;
        options.num_concurrent_reqs = 1;
        options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        let (mut servers, mut search) = (servers.to_vec(), Vec::new());
        if servers.is_empty() {
            let (system, _) = resolv_conf::Config::parse_with_errors(resolv_conf);
            options.ndots = usize::try_from(system.ndots).unwrap_or(1);
            let suffixes = system.get_last_search_or_domain().take(MAX_SEARCH);
            search.extend(suffixes.filter_map(|suffix| Name::from_ascii(suffix).ok()));
            servers
                .extend(system.nameservers.iter().take(MAX_SERVERS).map(|ip| SocketAddr::new(ip.into(), 53)));
        }
        if servers.is_empty() {
            return Err(io::Error::other("/etc/resolv.conf names no server"));
        }
        let config = ResolverConfig::from_parts(None, search, servers.into_iter().map(server).collect());
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        builder.with_options(options).build().map(Self).map_err(io::Error::other)
    }

    /// At least one address. The error is `NotFound` if the servers say that there is none.
    pub(super) async fn addresses(&self, name: &str) -> io::Result<DnsFound<BTreeSet<IpAddr>>> {
        let found = self.0.lookup_ip(dns_name(name)?).await.map_err(error)?;
        let value: BTreeSet<IpAddr> = found.iter().map(|ip| ip.to_canonical()).collect();
        match value.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, NONE)),
            false => Ok(DnsFound { value, ttl: ttl_of(found.as_lookup()) }),
        }
    }

    /// Those that have a target; `.` is none (RFC 2782).
    pub(super) async fn service(&self, name: &str) -> io::Result<DnsFound<Vec<ServiceRecord>>> {
        let found = self.0.srv_lookup(dns_name(name)?).await.map_err(error)?;
        let record = |data: &RData| match data {
            RData::SRV(record) if record.port != 0 && !record.target.is_root() => Some(ServiceRecord {
                share: TargetShare { priority: record.priority, weight: record.weight },
                target: record.target.to_ascii(),
                port: record.port,
            }),
            _ => None,
        };
        let value = found.answers().iter().filter_map(|answer| record(&answer.data)).collect();
        Ok(DnsFound { value, ttl: ttl_of(&found) })
    }
}

fn server(address: SocketAddr) -> NameServerConfig {
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = vec![with_port(ConnectionConfig::udp()), with_port(ConnectionConfig::tcp())];
    NameServerConfig::new(address.ip(), true, connections)
}

fn dns_name(name: &str) -> io::Result<Name> {
    Name::from_ascii(name).map_err(io::Error::other)
}

fn error(error: NetError) -> io::Error {
    match error.is_no_records_found() || error.is_nx_domain() {
        true => io::Error::new(io::ErrorKind::NotFound, NONE),
        false => io::Error::other(error.to_string()),
    }
}

fn ttl_of(lookup: &Lookup) -> Option<Duration> {
    lookup.answers().iter().map(|record| Duration::from_secs(record.ttl.into())).min()
}

const NONE: &str = "DNS has no such name";
/// For a server before the next one is asked.
const SERVER_TIMEOUT: Duration = Duration::from_millis(1500);
/// Servers of `/etc/resolv.conf` that count.
const MAX_SERVERS: usize = 3;
/// Suffixes for short names, of the same file.
const MAX_SEARCH: usize = 6;
