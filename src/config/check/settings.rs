//! The tables that hold plain settings: `[client]`, `[refuse]`, `[proxy]`.

use std::net::SocketAddr;

use http::{HeaderName, StatusCode};
use tollgate_grammar::kind::{Checked as _, Given, Like, Words as _};
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located, StringList, Syntax as _};

use super::super::raw;
use super::super::values::{DnsServer, RateOrOff, RateValue, Size};
use super::super::words::ProxyProtocols;
use super::context::CheckContext;
use super::headers;
use super::health;
use super::monitors;
use super::pages;
use super::trust::{UNIX, trusted};
use crate::defences::prefixes::prefixes;
use crate::net::listener::ListenAddress;
use crate::policy::{Policy, Route};
use crate::proxy::body::BodyMemory;
use crate::proxy::request::client_addr::{ClientSettings, IdentityHeader};
use crate::proxy::respond::RefuseSettings;
use crate::proxy::settings::{ClientRate, Forwarding, ProxySettings};

/// `[client]`.
pub(super) fn client(cx: &mut CheckContext<'_>, f: &mut Findings) -> ClientSettings {
    let raw = &cx.raw.client;
    let mut settings = ClientSettings::default();
    let is_unix = |entry: &&Located<String>| entry.value == UNIX;
    settings.trust_unix = raw.trust.iter().flat_map(|list| &list.value).any(|entry| is_unix(&entry));
    settings.trust = trusted(raw.trust.as_deref(), "client.trust", &cx.networks, &cx.services, f);
    if let Some(header) = &raw.header {
        settings.header = identity_header(header, f).unwrap_or_default();
    }
    settings.prefixes = prefixes(&raw.ipv4, &raw.ipv6, settings.prefixes, f);
    settings.certificate = raw.certificate.checked(f).unwrap_or_default();
    settings.monitors = monitors::check(cx, f);
    settings
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
pub(super) fn refuse(cx: &mut CheckContext<'_>, f: &mut Findings) -> RefuseSettings {
    let (raw, default) = (&cx.raw.refuse, RefuseSettings::default());
    let pages = pages::check(raw, &mut cx.files, f);
    let status = raw.status.checked(f);
    RefuseSettings {
        status: status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(default.status),
        of_routes: pages::of_routes(cx.raw, &pages, &mut cx.files, f),
        pages,
        headers: raw.headers.checked(f).unwrap_or(default.headers),
        delay: raw.delay.checked(f).unwrap_or(default.delay),
        jitter_permille: raw.jitter.checked(f).unwrap_or_default(),
    }
}

/// `[proxy]`.
pub(super) fn proxy(cx: &CheckContext<'_>, f: &mut Findings) -> ProxySettings {
    headers::warn_of_dropped(cx.raw, f);
    let (raw, groups) = (&cx.raw.proxy, &cx.groups);
    let default = ProxySettings::default();
    let proxy_protocol = raw.proxy_protocol.checked(f).flatten();
    let timeouts = ProxySettings {
        header_timeout: raw.header_timeout.checked(f).unwrap_or(default.header_timeout),
        body_timeout: raw.body_timeout.checked(f).unwrap_or(default.body_timeout),
        idle_timeout: raw.idle_timeout.checked(f).unwrap_or(default.idle_timeout),
        connect_timeout: raw.connect_timeout.checked(f).unwrap_or(default.connect_timeout),
        upstream_idle: raw.upstream_idle.checked(f).unwrap_or(default.upstream_idle),
        ..default.clone()
    };
    ProxySettings {
        threads: raw.threads.checked(f).unwrap_or(default.threads),
        connections: raw.connections.checked(f).unwrap_or(default.connections),
        client_max: raw.client_max.checked(f).unwrap_or(default.client_max),
        client_rate: raw.client_rate.as_ref().map_or(default.client_rate, |rate| client_rate(rate, f)),
        upstream_max: raw.upstream_max.checked(f).unwrap_or(default.upstream_max),
        body_memory: raw.body_memory.checked(f).unwrap_or(default.body_memory),
        forwarding: groups.forwarding(forwarding(raw, f)),
        shares: match groups.services.has_names() {
            true => groups.shares.clone(),
            false => Vec::new(),
        },
        resolver: resolver(raw.resolver.as_deref(), f),
        drain: raw.drain.checked(f).unwrap_or(default.drain),
        headers: headers::check(raw, cx.client.certificate, f),
        header_case: raw.header_case.checked(f).unwrap_or_default(),
        proxy_protocol,
        health: health::terms(cx, f),
        ..timeouts
    }
}

/// `proxy.resolver`: at most three, as the system has.
fn resolver(list: Option<&StringList>, f: &mut Findings) -> Vec<SocketAddr> {
    let servers = distinct(list, f).into_iter().filter_map(|item| DnsServer::read(item, f));
    let servers: Vec<SocketAddr> = servers.map(|DnsServer(address)| address).collect();
    match list {
        Some(list) if list.is_empty => {
            f.error(&list.spot, "`resolver` is empty", "leave it out for the servers of /etc/resolv.conf");
        }
        Some(list) if servers.len() > MAX_SERVERS => {
            f.error(&list.spot, format!("`resolver` has {} servers", servers.len()), "at most three");
        }
        _ => {}
    }
    servers
}

/// How requests are forwarded where no route says otherwise.
fn forwarding(raw: &raw::RawProxy, f: &mut Findings) -> Forwarding {
    let default = Forwarding::default();
    let reply_timeout = raw.reply_timeout.checked(f).unwrap_or(default.reply_timeout);
    Forwarding {
        reply_timeout,
        event_timeout: default.event_timeout.max(reply_timeout),
        request_buffer: raw.request_buffer.checked(f).unwrap_or(default.request_buffer),
        response_buffer: raw.response_buffer.checked(f).unwrap_or(default.response_buffer),
    }
}

/// Reports a route whose body is longer than one client may hold: it could never be read.
pub(super) fn bodies(cx: &CheckContext<'_>, policy: &Policy, memory: usize, f: &mut Findings) {
    let raw = cx.raw;
    let longest = policy.routes.iter().max_by_key(|route| route.reading.body);
    let too_long = longest.filter(|route| route.reading.body > BodyMemory::of_one_client(memory));
    let Some(Route { name, reading, .. }) = too_long else { return };
    let own = raw.routes.iter().find(|route| *route.name.value == **name);
    let given = raw.proxy.body_memory.as_deref().or_else(|| own?.value.body.as_deref());
    let (length, enough) = (Size(reading.body as u64), Size(BodyMemory::SHARES as u64 * reading.body as u64));
    let message =
        format!("route `{name}` reads {length} of a body: one client may hold a quarter of body_memory");
    f.error(
        given.map_or(&cx.whole, |text| &text.spot),
        message,
        format!("body_memory = \"{enough}\" or more"),
    );
}

/// Reports listeners that no client can use: with `proxy_protocol` on, only proxies of `client.trust` may connect.
pub(super) fn proxy_protocol(cx: &CheckContext<'_>, f: &mut Findings) {
    let CheckContext { raw, listen, client, .. } = cx;
    let is_version =
        |given: &str| ProxyProtocols::WORDS.iter().any(|(word, on)| *word == given && on.is_some());
    let Some(wanted) = raw.proxy.proxy_protocol.as_ref().filter(|given| is_version(&given.value)) else {
        return;
    };
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

fn client_rate(text: &Given<Like<RateOrOff>>, f: &mut Findings) -> Option<ClientRate> {
    if text.value == "off" {
        return None;
    }
    let RateValue { count, period, burst } = RateValue::read(text, f)?;
    // The rate limiter counts whole nanoseconds for each connection.
    if period.as_nanos() < u64::from(count) {
        f.error(&text.spot, "more than 1,000,000,000 connections a second", "or \"off\"");
    }
    Some(ClientRate { count, period, burst })
}

/// Servers of DNS at most: as many as the system's resolver asks.
const MAX_SERVERS: usize = 3;
