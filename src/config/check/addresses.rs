//! `listen` and `upstream`: addresses to listen at and to forward to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, StringList, Syntax as _};

use super::super::values::{ListenUrl, UpstreamUrl};
use super::context::CheckContext;
use super::groups::{CheckedGroup, GroupTable, ServiceTable};
use super::health;
use crate::net::listener::ListenAddress;
use crate::proxy::upstream::UpstreamAddress;

/// `listen`, at least one where it is needed.
pub(super) fn listen(cx: &CheckContext<'_>, f: &mut Findings) -> Vec<ListenAddress> {
    let list = cx.raw.listen.as_deref();
    required(list, "listen", "http://[::]:8080", cx, f);
    let mut found: Vec<ListenAddress> = Vec::new();
    for item in distinct(list, f) {
        let Some(ListenUrl(address)) = ListenUrl::read(item, f) else { continue };
        if let Some(other) = found.iter().find(|other| takes_the_same(other, &address)) {
            let hint = match socket_address(&address) == socket_address(other) {
                true => "one address speaks either http:// or https://",
                false => "`[::]` takes IPv4 as well",
            };
            f.error(&item.spot, format!("`{address}` and `{other}` take the same connections"), hint);
        }
        found.push(address);
    }
    found
}

/// Whether the same connections would come to both.
fn takes_the_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (socket_address(one), socket_address(other)) {
        (Some(one), Some(other)) => {
            let are_all = one.ip().is_unspecified() && other.ip().is_unspecified();
            one.port() == other.port() && one.port() != 0 && (one.ip() == other.ip() || are_all)
        }
        _ => false,
    }
}

fn socket_address(address: &ListenAddress) -> Option<SocketAddr> {
    match address {
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => Some(*address),
        ListenAddress::Unix(_) | ListenAddress::Systemd { .. } => None,
    }
}

/// Refuses upstreams that are this gate itself: each request would come back until all connections are used up.
fn refuse_own(cx: &CheckContext<'_>, f: &mut Findings) {
    let of_routes = cx.raw.routes.iter().filter_map(|route| route.value.upstream.as_ref());
    for item in cx.raw.upstream.iter().chain(of_routes).flat_map(|list| &list.value) {
        let Ok(UpstreamUrl::At(upstream)) = item.value.parse() else { continue };
        if cx.listen.iter().chain(&cx.admin).any(|own| leads_to(&upstream, own)) {
            let hint = "name the application, as in upstream = \"http://127.0.0.1:8081\"";
            f.error(&item.spot, format!("`{}` is an address of this gate", item.value), hint);
        }
    }
}

fn leads_to(upstream: &UpstreamAddress, own: &ListenAddress) -> bool {
    match (upstream, own) {
        (UpstreamAddress::Unix(path), ListenAddress::Unix(own)) => *path == own.path,
        (UpstreamAddress::Tcp { host, port } | UpstreamAddress::Tls { host, port }, own) => {
            let Some(own) = socket_address(own) else { return false };
            let ip = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).to_canonical();
            let is_name = host.parse::<IpAddr>().is_err();
            let is_here = if is_name { host == "localhost" } else { ip.is_loopback() || ip.is_unspecified() };
            let takes_all = own.ip().is_unspecified() || (is_name && own.ip().is_loopback());
            *port == own.port() && (ip == own.ip().to_canonical() || (is_here && takes_all))
        }
        (UpstreamAddress::Unix(_), _) => false,
    }
}

/// `upstream` as the first group.
pub(super) fn upstreams(cx: &CheckContext<'_>, f: &mut Findings) -> GroupTable {
    refuse_own(cx, f);
    let list = cx.raw.upstream.as_deref();
    required(list, "upstream", "http://127.0.0.1:8081", cx, f);
    let mut services = cx.groups.services.clone();
    let is_own =
        |upstream: &UpstreamAddress| cx.listen.iter().chain(&cx.admin).any(|own| leads_to(upstream, own));
    for (name, address) in services.leave_out(is_own) {
        let hint = "its DNS server has to name the application; this target is left out";
        f.warning(&cx.whole, format!("SRV records of {name} name {address}, which leads to this gate"), hint);
    }
    let first = upstream_group(list, &mut services, f);
    let mut groups = GroupTable::new(first, services);
    health::of_all(cx.raw, &mut groups, f);
    groups
}

/// A group of upstreams among which the least busy wins, or those of an SRV record.
pub(super) fn upstream_group(
    list: Option<&StringList>,
    services: &mut ServiceTable,
    f: &mut Findings,
) -> CheckedGroup {
    let items = distinct(list, f);
    let is_alone = items.len() == 1;
    let mut group = CheckedGroup::default();
    for item in items {
        match UpstreamUrl::read(item, f) {
            Some(UpstreamUrl::At(address)) => group.targets.push(address.into()),
            Some(UpstreamUrl::Service(name)) if is_alone => return services.group(name),
            Some(UpstreamUrl::Service(_)) => {
                let hint = "leave the others out, or add them to the records";
                f.error(&item.spot, format!("`{}` names all upstreams already", item.value), hint);
            }
            None => {}
        }
    }
    group
}

fn required(list: Option<&StringList>, key: &str, example: &str, cx: &CheckContext<'_>, f: &mut Findings) {
    let hint = format!("{key} = \"{example}\"");
    match list {
        None if !cx.forwards() || cx.is_within_a_program => {}
        None => f.error(&cx.whole, format!("`{key}` is missing"), hint),
        Some(list) if list.is_empty => f.error(&list.spot, format!("`{key}` is empty"), hint),
        Some(_) => {}
    }
}
