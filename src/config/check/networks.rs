//! `[networks]`: names for prefixes, and the meaning of an entry of `exempt`, `rates` or `trust`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ipnet::IpNet;
use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, List, Located, RawNamed, Spot, name, refuse};

use super::super::names::{DnsNames, MAX_NAMES, NamedAddresses};
use super::super::raw::RawClient;
use super::super::values::{Domain, Prefix};
use super::files::Files;
use super::groups::ServiceTable;
use super::list_file;
use crate::time::Span;

/// The named networks.
pub(super) struct Networks<'r>(Vec<NamedNetwork<'r>>);

struct NamedNetwork<'r> {
    name: &'r str,
    prefixes: Vec<IpNet>,
    /// Names of DNS, whose addresses are among the prefixes.
    dns: Vec<String>,
}

impl<'r> Networks<'r> {
    /// Reads every list, and the files that the lists name. Names of DNS have these addresses.
    pub(super) fn check(
        raw: &'r [RawNamed<List>],
        addresses: &NamedAddresses,
        files: &mut Files<'_>,
        f: &mut Findings,
    ) -> Self {
        let networks = raw.iter().map(|network| {
            check_network_name(&network.name, f);
            let (mut prefixes, mut dns) = (Vec::new(), Vec::new());
            for entry in &network.value.value {
                if let Some(path) = entry.value.strip_prefix('@') {
                    list_file::read(path, &entry.spot, files, f, |line, f| {
                        let prefix = prefix(&line.value, &line.spot, f);
                        prefixes.extend(prefix);
                        prefix.is_some()
                    });
                } else if let Some(name) = entry.value.strip_prefix(DNS) {
                    dns.extend(dns_name(name, entry, f));
                } else {
                    prefixes.extend(prefix(&entry.value, &entry.spot, f));
                }
            }
            prefixes.extend(dns.iter().flat_map(|name| addresses.networks(name)));
            NamedNetwork { name: network.name.value.as_str(), prefixes, dns }
        });
        Self(networks.collect())
    }

    /// All names of DNS, with those of upstreams, and `client.dns_keep`.
    pub(super) fn dns(
        &self,
        raw: &RawClient,
        services: &ServiceTable,
        servers: &[SocketAddr],
        whole: &Spot,
        f: &mut Findings,
    ) -> DnsNames {
        let names: BTreeSet<String> = self.0.iter().flat_map(|network| network.dns.iter().cloned()).collect();
        if names.len() > MAX_NAMES {
            let message = format!("[networks] has {} names of DNS: at most {MAX_NAMES}", names.len());
            f.error(whole, message, "write prefixes, or a file of them");
        }
        let keep = raw.dns_keep.checked(f).unwrap_or(DNS_KEEP);
        DnsNames { names, services: services.checked(whole, f), servers: servers.to_vec(), keep }
    }

    /// The prefixes that a name or a prefix stands for.
    pub(super) fn resolve(&self, entry: &Located<String>, f: &mut Findings) -> Vec<IpNet> {
        let text = entry.value.as_str();
        if let Some(network) = self.named(text) {
            return network.prefixes.clone();
        }
        if let Some(host) = text.strip_prefix(DNS) {
            let hint = format!("write [networks] with home = \"{DNS}{host}\", and `home` here");
            f.error(&entry.spot, format!("`{text}` has no name in [networks]"), hint);
            return Vec::new();
        }
        let is_address = text.contains([':', '/']) && !text.starts_with('@');
        if is_address || text.starts_with(|c: char| c.is_ascii_digit()) {
            return prefix(text, &entry.spot, f).into_iter().collect();
        }
        let hint = match self.0.is_empty() {
            true => format!("there is no network yet: write [networks] with {}", first_network(text)),
            false => suggest(text, self.0.iter().map(|network| network.name)),
        };
        f.error(&entry.spot, format!("unknown network `{text}`"), hint);
        Vec::new()
    }

    /// Like [`resolve`](Self::resolve), where those who are inside gain something (`gain`): the server of a name of
    /// DNS decides on it.
    pub(super) fn resolve_for(&self, entry: &Located<String>, gain: &str, f: &mut Findings) -> Vec<IpNet> {
        if let Some(dns) = self.named(&entry.value).and_then(|network| network.dns.first()) {
            let message = format!("`{}` is as strong as the DNS of {dns}", entry.value);
            f.warning(&entry.spot, message, format!("its DNS server decides who is {gain}"));
        }
        self.resolve(entry, f)
    }

    fn named(&self, name: &str) -> Option<&NamedNetwork<'r>> {
        self.0.iter().find(|network| network.name == name)
    }
}

/// What makes an entry right where no network has a name: a name has to be a bare key there, and a file has one.
fn first_network(text: &str) -> String {
    let is_bare =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if is_bare(text) {
        return format!("{text} = \"203.0.113.0/24\"");
    }
    let path = text.strip_prefix('@').unwrap_or(text);
    let file = path.rsplit('/').next().unwrap_or(path);
    match file.split_once('.') {
        Some((name, _)) if is_bare(name) => {
            let file = format!("@{path}");
            format!("{name} = [{file:?}], and `{name}` here")
        }
        _ => "office = \"203.0.113.0/24\", and `office` here".to_owned(),
    }
}

/// A name of DNS in lower case.
fn dns_name(name: &str, entry: &Located<String>, f: &mut Findings) -> Option<String> {
    match name.parse() {
        Ok(Domain(name)) => Some(name),
        Err(_) => {
            let message = format!("`{name}` is not a name of a host");
            f.error(&entry.spot, message, "as in \"dns:home.example.org\"");
            None
        }
    }
}

fn check_network_name(called: &Located<String>, f: &mut Findings) {
    if called.value == "off" || called.value.parse::<Prefix>().is_ok() {
        let message = format!("a network cannot be called `{}`", called.value);
        f.error(&called.spot, message, "write a name here and the prefixes behind the `=`");
    } else {
        name::check(called, f);
    }
}

/// Whether a text is an address or a prefix.
pub(super) fn is_prefix(text: &str) -> bool {
    text.contains(['.', ':']) && text.parse::<Prefix>().is_ok()
}

fn prefix(text: &str, spot: &Spot, f: &mut Findings) -> Option<IpNet> {
    match text.parse::<Prefix>() {
        Ok(prefix) => {
            if prefix.host_bits {
                f.warning(
                    spot,
                    format!("`{text}` has bits set beyond its length"),
                    format!("it means {}", prefix.net),
                );
            }
            Some(prefix.net)
        }
        Err(mistake) => {
            refuse(spot, text, mistake, f);
            None
        }
    }
}

/// How long the last answer of DNS counts while there is no other.
const DNS_KEEP: Span = Span::from_secs(86_400);
/// Begins a name of DNS.
const DNS: &str = "dns:";
