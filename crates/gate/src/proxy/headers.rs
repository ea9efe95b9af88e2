//! Rewrites headers: drops hop-by-hop headers and the cookie of known owners, sets `X-Forwarded-*` and `X-Request-Id`.
//!
//! [`HeaderFilter`] lists the headers that an application could take for a proxy's. `X-Forwarded-*` is written *after*
//! the headers named by `Connection` are removed, so no client can have it removed.

pub mod carried;
pub mod filter;
pub mod hex;
pub mod passed;
pub mod received_head;
pub mod received_name;
pub mod recorded;
pub mod request_id;
pub mod trace_context;
pub mod trailers;

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use self::filter::HeaderFilter;
use self::passed::PassedHeaders;
use crate::net::ip_text::push_ip;
use crate::policy::OwnerCookie;

/// The peer and the rules for the headers of one forwarded request.
#[derive(Debug)]
pub struct ForwardedInfo<'a> {
    /// The peer's address; `None` for a Unix socket.
    pub peer: Option<&'a HeaderValue>,
    /// Whether the peer is a trusted proxy, whose headers are kept and appended to.
    pub trusted: bool,
    /// Whether the peer speaks TLS with us.
    pub secure: bool,
    /// The configured header with the client address, if it is neither `X-Forwarded-For` nor `Forwarded`.
    pub client_header: Option<&'a HeaderName>,
    /// The names of dropped headers.
    pub filter: &'a HeaderFilter,
    /// The generated request id; `None` if the client sent a usable one.
    pub request_id: Option<&'a HeaderValue>,
    /// The cookie that goes no further.
    pub owner_cookie: Option<&'a dyn OwnerCookie>,
}

/// Prepares a request's headers for the upstream.
pub fn prepare_request(headers: &mut PassedHeaders, info: &ForwardedInfo<'_>, upgrade: Option<HeaderValue>) {
    strip(headers, |name| info.filter.drops(name, info.trusted, info.client_header));
    if let Some(cookie) = info.owner_cookie {
        strip_cookie(headers, cookie);
    }
    if let Some(protocol) = upgrade {
        set_upgrade(headers, protocol);
    }
    set_forwarded(headers, info);
}

/// Prepares a response's headers for the client. An upgrade keeps `Connection` and `Upgrade`.
pub fn prepare_response(headers: &mut PassedHeaders, upgraded: bool) {
    let protocol = if upgraded { headers.get(&UPGRADE).cloned() } else { None };
    strip(headers, |_| false);
    if let Some(protocol) = protocol {
        set_upgrade(headers, protocol);
    }
}

fn set_upgrade(headers: &mut PassedHeaders, protocol: HeaderValue) {
    headers.set(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.set(UPGRADE, protocol);
}

fn strip_cookie(headers: &mut PassedHeaders, cookie: &dyn OwnerCookie) {
    let others = cookie.others(headers.received()).filter(|_| headers.contains(&COOKIE));
    let Some(others) = others else { return };
    headers.remove(&COOKIE);
    others.into_iter().for_each(|line| headers.append(COOKIE, line));
}

/// The protocol that a client asks to switch to. `h2c` is never passed: it would carry requests past the limiter.
#[must_use]
pub fn requested_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut protocols = headers.get_all(UPGRADE).iter();
    let (Some(protocol), None) = (protocols.next(), protocols.next()) else { return None };
    if !connection_options(headers).any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let names_h2c = protocol
        .as_bytes()
        .split(|&b| b == b',')
        .any(|name| name.trim_ascii().to_ascii_lowercase().starts_with(b"h2"));
    (!names_h2c).then(|| protocol.clone())
}

/// Removes the headers that `Connection` names, hop-by-hop headers (RFC 9110, 7.6.1) and those that `drops` selects.
/// One pass over the names: most headers stay.
fn strip(headers: &mut PassedHeaders, drops: impl Fn(&HeaderName) -> bool) {
    let received = headers.received();
    let mut removed: SmallVec<[HeaderName; 4]> = SmallVec::new();
    for name in received.keys().filter(|name| is_hop_by_hop(name.as_str()) || drops(name)) {
        removed.push(name.clone());
    }
    if removed.contains(&CONNECTION) {
        // A client that names these would change the meaning of the message.
        let is_essential = |name: &HeaderName| *name == HOST || *name == CONTENT_LENGTH;
        // What nearly all clients name is hop-by-hop already.
        let others =
            connection_options(received).filter(|option| !option.eq_ignore_ascii_case(b"keep-alive"));
        let named = others.filter_map(|option| HeaderName::from_bytes(option).ok());
        removed.extend(named.filter(|name| !is_essential(name) && received.contains_key(name)));
    }
    removed.iter().for_each(|name| headers.remove(name));
}

/// Includes `Expect`, which the gate answers, and framing, which is made again for each connection.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "expect"
            | "http2-settings"
    )
}

fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(CONNECTION).iter();
    lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii)
}

fn set_forwarded(headers: &mut PassedHeaders, info: &ForwardedInfo<'_>) {
    // The filter has removed the headers of untrusted peers.
    let is_kept = |headers: &PassedHeaders, name: &HeaderName| info.trusted && headers.contains(name);
    if let Some(peer) = info.peer {
        if is_kept(headers, &FORWARDED_FOR) {
            append(headers, peer);
        } else {
            headers.set(FORWARDED_FOR, peer.clone());
        }
    }
    if !is_kept(headers, &FORWARDED_PROTO) {
        let scheme = if info.secure { "https" } else { "http" };
        headers.set(FORWARDED_PROTO, HeaderValue::from_static(scheme));
    }
    if !is_kept(headers, &FORWARDED_HOST)
        && let Some(host) = headers.get(&HOST).cloned()
    {
        headers.set(FORWARDED_HOST, host);
    }
    if let Some(id) = info.request_id {
        headers.set(REQUEST_ID, id.clone());
    }
}

/// Joins all lines of a trusted proxy to one, and appends the peer.
fn append(headers: &mut PassedHeaders, peer: &HeaderValue) {
    let mut list = Vec::new();
    for line in headers.received().get_all(FORWARDED_FOR) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(peer.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.set(FORWARDED_FOR, list);
    }
}

/// Adds all lines of these headers.
pub(in crate::proxy) fn append_all(headers: &mut HeaderMap, added: HeaderMap) {
    // A header without a name has that of the one before it.
    let mut latest: Option<HeaderName> = None;
    for (name, value) in added {
        latest = name.or(latest);
        if let Some(name) = &latest {
            // A map that is full takes no more, and has none of that name before.
            let _ = headers.try_append(name.clone(), value);
        }
    }
}

/// An address as a header value.
#[must_use]
pub fn address_value(ip: IpAddr) -> HeaderValue {
    let mut text = Vec::with_capacity(LONGEST_ADDRESS);
    push_ip(ip.to_canonical(), &mut text);
    // An address is always visible ASCII, so the fallback is never used.
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Bytes of an IPv6 address that ends as IPv4 does.
const LONGEST_ADDRESS: usize = 45;

/// The header that carries a request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The header in which the application is told what marking limits would have refused.
pub const REFUSED: HeaderName = HeaderName::from_static("x-tollgate-refused");

/// The header in which the application is told of failures before a stranger's attempt.
pub const FAILURES: HeaderName = HeaderName::from_static("x-tollgate-failures");

/// The header in which the application gets what names an attempt whose outcome it reports.
pub(in crate::proxy) const RECEIPT: HeaderName = HeaderName::from_static("x-tollgate-receipt");

pub(in crate::proxy) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(in crate::proxy) const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

#[cfg(test)]
mod tests {
    use self::received_head::ReceivedHead;
    use super::*;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        map
    }

    fn forwarded(lines: &[(&str, &str)], trusted: bool) -> HeaderMap {
        let mut headers = PassedHeaders::new(map(lines), ReceivedHead::default());
        let peer = HeaderValue::from_static("192.0.2.1");
        let info = ForwardedInfo {
            peer: Some(&peer),
            trusted,
            secure: false,
            client_header: None,
            filter: &HeaderFilter::default(),
            request_id: None,
            owner_cookie: None,
        };
        prepare_request(&mut headers, &info, None);
        headers.into_map()
    }

    #[test]
    fn an_untrusted_peers_words_are_replaced_and_a_trusted_ones_added_to() {
        let lines =
            [("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6"), ("x-forwarded-proto", "https")];
        let headers = forwarded(&lines, false);
        assert_eq!(headers["x-forwarded-for"], "192.0.2.1");
        assert_eq!(headers["x-forwarded-proto"], "http");
        assert!(!headers.contains_key("forwarded"));
        let headers = forwarded(&lines, true);
        assert_eq!(headers["x-forwarded-for"], "6.6.6.6, 192.0.2.1");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["forwarded"], "for=6.6.6.6");
    }

    #[test]
    fn every_alias_of_an_identity_header_is_removed() {
        for name in [
            "X_Forwarded_For",
            "X.Forwarded.For",
            "X-Real-IP",
            "True-Client-IP",
            "CF-Connecting-IP",
            "Client_IP",
            "X_Real-IP",
            "Transfer_Encoding",
            "Content_Length",
            "X-Original-URL",
            "Proxy",
            "Proxy-Authorization",
        ] {
            let headers = forwarded(&[(name, "6.6.6.6")], false);
            assert!(!headers.contains_key(name), "{name}");
            assert_eq!(headers["x-forwarded-for"], "192.0.2.1");
        }
    }

    #[test]
    fn the_configured_header_is_believed_from_trusted_peers_alone() {
        let (peer, kept) =
            (HeaderValue::from_static("192.0.2.1"), HeaderName::from_static("x-client-of-ours"));
        for trusted in [true, false] {
            let lines = map(&[("x-client-of-ours", "6.6.6.6"), ("x_client_of_ours", "6.6.6.6")]);
            let mut headers = PassedHeaders::new(lines, ReceivedHead::default());
            let info = ForwardedInfo {
                peer: Some(&peer),
                trusted,
                secure: false,
                client_header: Some(&kept),
                filter: &HeaderFilter::default(),
                request_id: None,
                owner_cookie: None,
            };
            prepare_request(&mut headers, &info, None);
            let headers = headers.into_map();
            assert_eq!(headers.contains_key("x-client-of-ours"), trusted);
            assert!(!headers.contains_key("x_client_of_ours"));
        }
    }

    #[test]
    fn connection_names_are_stripped_but_not_what_gives_the_message_its_meaning() {
        let lines = [
            ("connection", "close, X-Secret, X-Forwarded-For, Host, Content-Length"),
            ("x-secret", "1"),
            ("host", "a"),
            ("content-length", "3"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
        ];
        let headers = forwarded(&lines, false);
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["content-length", "host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]
        );
    }

    #[test]
    fn every_line_of_connection_names_headers_that_are_stripped() {
        let lines = [("connection", "close"), ("connection", "X-Secret"), ("x-secret", "1"), ("x-open", "1")];
        let headers = forwarded(&lines, false);
        assert!(!headers.contains_key("x-secret") && headers.contains_key("x-open"), "{headers:?}");
        let lines = map(&[("connection", "keep-alive"), ("connection", "upgrade"), ("upgrade", "websocket")]);
        assert_eq!(requested_upgrade(&lines), Some(HeaderValue::from_static("websocket")));
    }

    #[test]
    fn a_websocket_passes_and_h2c_does_not() {
        let upgrade =
            |lines: &[(&str, &str)]| requested_upgrade(&map(lines)).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(
            upgrade(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]),
            Some("websocket".into())
        );
        assert_eq!(upgrade(&[("upgrade", "websocket")]), None);
        assert_eq!(upgrade(&[("connection", "upgrade"), ("upgrade", "h2c")]), None);
        assert_eq!(upgrade(&[("connection", "upgrade"), ("upgrade", "websocket, H2C")]), None);
        assert_eq!(upgrade(&[("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "b")]), None);
    }
}
