//! The tables that hold plain settings: `[client]`, `[refuse]`, `[proxy]`.

use std::ops::RangeInclusive;

use http::{HeaderName, StatusCode};

use super::super::diagnostic::{Findings, Spot};
use super::super::document::Located;
use super::super::raw;
use super::super::section::StringList;
use super::super::values::{Prefix, RateValue, Size};
use super::fields::{DAY, TIMEOUT, distinct, duration_within, one_of, parsed, share_of, within};
use super::files::Files;
use super::groups::GroupTable;
use super::headers;
use super::networks::Networks;
use super::pages;
use crate::net::listener::ListenAddress;
use crate::net::proxy_protocol::ProxyProtocolVersion;
use crate::policy::Route;
use crate::policy::key::PrefixLengths;
use crate::policy::network::NetworkSet;
use crate::proxy::body::BodyMemory;
use crate::proxy::headers::passed::HeaderCase;
use crate::proxy::request::client_addr::{ClientSettings, IdentityHeader};
use crate::proxy::respond::{RefuseSettings, ShowLimits};
use crate::proxy::settings::{ClientRate, Forwarding, ProxySettings};
use crate::time::Span;

/// `[client]`.
pub(super) fn client(raw: &raw::RawClient, networks: &Networks<'_>, f: &mut Findings) -> ClientSettings {
    let mut settings = ClientSettings::default();
    let is_unix = |entry: &&Located<String>| entry.value == UNIX;
    settings.trust_unix = raw.trust.iter().flat_map(|list| &list.value).any(|entry| is_unix(&entry));
    settings.trust = trusted(raw.trust.as_ref(), "client.trust", networks, f);
    if let Some(header) = &raw.header {
        settings.header = identity_header(header, f).unwrap_or_default();
    }
    settings.prefixes = prefixes(raw.ipv4.as_ref(), raw.ipv6.as_ref(), settings.prefixes, f);
    settings
}

/// The networks of a `trust`, without [`UNIX`].
pub(super) fn trusted(
    list: Option<&StringList>,
    key: &str,
    networks: &Networks<'_>,
    f: &mut Findings,
) -> NetworkSet {
    let mut trust = NetworkSet::default();
    for entry in distinct(list, f).into_iter().filter(|entry| entry.value != UNIX) {
        for net in networks.resolve(entry, f) {
            if (Prefix { net, host_bits: false }).is_everybody() {
                let hint = "any peer can then pose as any client: name only the proxies in front of this one";
                f.warning(&entry.spot, format!("`{key}` holds {net}"), hint);
            }
            trust.insert(net, ());
        }
    }
    trust
}

/// Prefix lengths, by default those of `default`.
pub(super) fn prefixes(
    ipv4: Option<&Located<i64>>,
    ipv6: Option<&Located<i64>>,
    default: PrefixLengths,
    f: &mut Findings,
) -> PrefixLengths {
    for zero in [ipv4, ipv6].into_iter().flatten().filter(|length| length.value == 0) {
        f.warning(&zero.spot, "all clients share one bucket".to_owned(), "at least 8");
    }
    PrefixLengths {
        ipv4: within(ipv4, 0..=32, f).unwrap_or(default.ipv4),
        ipv6: longest_network(ipv6, f).unwrap_or(default.ipv6),
    }
}

/// The IPv6 prefix length. A household has a whole /64: with a longer prefix it can choose among many buckets.
fn longest_network(ipv6: Option<&Located<i64>>, f: &mut Findings) -> Option<u8> {
    let length = within(ipv6, 0..=128, f)?;
    if let Some(given) = ipv6.filter(|_| length > 64) {
        f.warning(&given.spot, format!("one household has 2^{} such networks", length - 64), "64 or less");
    }
    Some(length)
}

fn identity_header(text: &Located<String>, f: &mut Findings) -> Option<IdentityHeader> {
    match text.value.to_ascii_lowercase().as_str() {
        "x-forwarded-for" => Some(IdentityHeader::XForwardedFor),
        "forwarded" => Some(IdentityHeader::Forwarded),
        name => match name.parse::<HeaderName>() {
            Ok(name) => Some(IdentityHeader::Single(name)),
            Err(_) => {
                let hint = "as in \"X-Forwarded-For\", \"Forwarded\" or \"X-Real-IP\"";
                f.error(&text.spot, format!("`{}` is not a header name", text.value), hint);
                None
            }
        },
    }
}

/// `[refuse]`, and what routes have in its place.
pub(super) fn refuse(file: &raw::RawFile, files: &mut Files<'_>, f: &mut Findings) -> RefuseSettings {
    let (raw, default) = (&file.refuse, RefuseSettings::default());
    let pages = pages::check(raw, files, f);
    let status = within::<u16>(raw.status.as_ref(), 400..=599, f);
    let headers =
        [("refused", ShowLimits::Refused), ("always", ShowLimits::Always), ("never", ShowLimits::Never)];
    RefuseSettings {
        status: status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(default.status),
        of_routes: pages::of_routes(file, &pages, files, f),
        pages,
        headers: one_of(raw.headers.as_ref(), &headers, f).unwrap_or(default.headers),
        delay: duration_within(raw.delay.as_ref(), Span::ZERO..=Span::from_secs(60), f)
            .unwrap_or(default.delay),
        jitter_permille: share_of(1_000, raw.jitter.as_ref(), f).unwrap_or_default(),
    }
}

const CASES: [(&str, HeaderCase); 2] = [("preserve", HeaderCase::Preserve), ("lower", HeaderCase::Lower)];

/// `[proxy]`.
pub(super) fn proxy(raw: &raw::RawProxy, groups: &GroupTable, f: &mut Findings) -> ProxySettings {
    let default = ProxySettings::default();
    let proxy_protocol = one_of(raw.proxy_protocol.as_ref(), &VERSIONS, f).flatten();
    let mut limit =
        |text: &Option<_>, default: Span| duration_within(text.as_ref(), TIMEOUT, f).unwrap_or(default);
    let timeouts = ProxySettings {
        header_timeout: limit(&raw.header_timeout, default.header_timeout),
        body_timeout: limit(&raw.body_timeout, default.body_timeout),
        idle_timeout: limit(&raw.idle_timeout, default.idle_timeout),
        connect_timeout: limit(&raw.connect_timeout, default.connect_timeout),
        ..default.clone()
    };
    let upstream_idle = duration_within(raw.upstream_idle.as_ref(), Span::ZERO..=DAY, f);
    ProxySettings {
        threads: within(raw.threads.as_ref(), 0..=1024, f).unwrap_or(default.threads),
        connections: within(raw.connections.as_ref(), CONNECTIONS, f).unwrap_or(default.connections),
        client_max: within(raw.client_max.as_ref(), CONNECTIONS, f).unwrap_or(default.client_max),
        client_rate: raw.client_rate.as_ref().map_or(default.client_rate, |rate| client_rate(rate, f)),
        upstream_max: within(raw.upstream_max.as_ref(), CONNECTIONS, f).unwrap_or(default.upstream_max),
        body_memory: raw
            .body_memory
            .as_ref()
            .and_then(|size| size_within(size, MEMORY, f))
            .unwrap_or(default.body_memory),
        forwarding: groups.forwarding(forwarding(raw, f)),
        upstream_idle: upstream_idle.unwrap_or(default.upstream_idle),
        drain: duration_within(raw.drain.as_ref(), Span::ZERO..=DAY, f).unwrap_or(default.drain),
        headers: headers::check(raw, f),
        header_case: one_of(raw.header_case.as_ref(), &CASES, f).unwrap_or_default(),
        proxy_protocol,
        ..timeouts
    }
}

/// How requests are forwarded where no route says otherwise.
fn forwarding(raw: &raw::RawProxy, f: &mut Findings) -> Forwarding {
    let default = Forwarding::default();
    let reply_timeout =
        duration_within(raw.reply_timeout.as_ref(), TIMEOUT, f).unwrap_or(default.reply_timeout);
    Forwarding {
        reply_timeout,
        event_timeout: default.event_timeout.max(reply_timeout),
        request_buffer: buffer(raw.request_buffer.as_ref(), f).unwrap_or(default.request_buffer),
        response_buffer: buffer(raw.response_buffer.as_ref(), f).unwrap_or(default.response_buffer),
    }
}

/// A buffer's size; 0 for `off`.
fn buffer(text: Option<&Located<String>>, f: &mut Findings) -> Option<usize> {
    match text? {
        text if text.value == "off" => Some(0),
        text => size_within(text, BUFFER, f),
    }
}

fn size_within(text: &Located<String>, range: RangeInclusive<u64>, f: &mut Findings) -> Option<usize> {
    let Size(bytes) = parsed(text, f)?;
    if !range.contains(&bytes) {
        let hint = format!("{} to {}", Size(*range.start()), Size(*range.end()));
        f.error(&text.spot, format!("`{}` is out of range", text.value), hint);
    }
    usize::try_from(bytes).ok().filter(|_| range.contains(&bytes))
}

/// Reports a route whose body is longer than one client may hold: it could never be read. `whole` is the file.
pub(super) fn bodies(raw: &raw::RawFile, memory: usize, routes: &[Route], whole: &Spot, f: &mut Findings) {
    let longest = routes.iter().max_by_key(|route| route.body);
    let Some(Route { name, body, .. }) =
        longest.filter(|route| route.body > BodyMemory::of_one_client(memory))
    else {
        return;
    };
    let own = raw.routes.iter().find(|route| *route.name.value == **name);
    let given = raw.proxy.body_memory.as_ref().or_else(|| own?.value.body.as_ref());
    let (length, enough) = (Size(*body as u64), Size(BodyMemory::SHARES as u64 * *body as u64));
    let message =
        format!("route `{name}` reads {length} of a body: one client may hold a quarter of body_memory");
    f.error(given.map_or(whole, |text| &text.spot), message, format!("body_memory = \"{enough}\" or more"));
}

/// Reports listeners that no client can use: with `proxy_protocol` on, only proxies of `client.trust` may connect.
pub(super) fn proxy_protocol(
    raw: &raw::RawProxy,
    listen: &[ListenAddress],
    client: &ClientSettings,
    f: &mut Findings,
) {
    let is_wanted = |given: &&Located<String>| VERSIONS[1..].iter().any(|(word, _)| *word == given.value);
    let Some(wanted) = raw.proxy_protocol.as_ref().filter(is_wanted) else { return };
    let is_open = |address: &ListenAddress| match address {
        ListenAddress::Unix(_) => client.trust_unix,
        ListenAddress::Tcp(_) | ListenAddress::Tls(_) => !client.trust.is_empty(),
        // Its kind shows only when systemd passes it.
        ListenAddress::Systemd { .. } => client.trust_unix || !client.trust.is_empty(),
    };
    let shut: Vec<_> = listen.iter().filter(|address| !is_open(address)).collect();
    let Some(first) = shut.first() else { return };
    let example = if matches!(first, ListenAddress::Unix(_)) { "unix:" } else { "10.0.0.5" };
    let hint = format!("client.trust = [\"{example}\"] names the proxies that send the header");
    let shown: Vec<String> = shut.iter().map(|address| format!("`{address}`")).collect();
    let message = format!("no client can connect to {}", shown.join(", "));
    match shut.len() == listen.len() {
        true => f.error(&wanted.spot, message, hint),
        false => f.warning(&wanted.spot, message, hint),
    }
}

fn client_rate(text: &Located<String>, f: &mut Findings) -> Option<ClientRate> {
    if text.value == "off" {
        return None;
    }
    let RateValue { count, period, burst } = parsed(text, f)?;
    // The rate limiter counts whole nanoseconds for each connection.
    if period.as_nanos() < u64::from(count) {
        f.error(&text.spot, "more than 1,000,000,000 connections a second", "or \"off\"");
    }
    Some(ClientRate { count, period, burst })
}

/// `sandbox`.
pub(super) fn sandbox(raw: Option<&Located<String>>, f: &mut Findings) -> bool {
    one_of(raw, &[("on", true), ("off", false)], f).unwrap_or(true)
}

/// `mode`: whether every limit only observes.
pub(super) fn observes(raw: Option<&Located<String>>, f: &mut Findings) -> bool {
    one_of(raw, &[("enforce", false), ("observe", true)], f).unwrap_or(false)
}

/// `reload`: whether a change of the file is a reason to read it again.
pub(super) fn is_watched(raw: Option<&Located<String>>, f: &mut Findings) -> bool {
    one_of(raw, &[("signal", false), ("watch", true)], f).unwrap_or(false)
}

/// Words of `proxy.proxy_protocol`.
const VERSIONS: [(&str, Option<ProxyProtocolVersion>); 4] = [
    ("off", None),
    ("v1", Some(ProxyProtocolVersion::V1)),
    ("v2", Some(ProxyProtocolVersion::V2)),
    ("any", Some(ProxyProtocolVersion::Any)),
];
/// Stands for every peer on a Unix socket.
const UNIX: &str = "unix:";
/// A time-out of zero would end every request at once.
/// Enough for whole bodies of several clients, and less than any machine has.
const BUFFER: RangeInclusive<u64> = 1024..=64 * 1024 * 1024;
const MEMORY: RangeInclusive<u64> = 256 * 1024..=64 * 1024 * 1024 * 1024;
const CONNECTIONS: RangeInclusive<i64> = 1..=10_000_000;
