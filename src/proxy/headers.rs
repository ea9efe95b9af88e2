//! Rewrites headers: drops hop-by-hop headers and the device cookie, sets `X-Forwarded-*` and `X-Request-Id`.
//!
//! What an application could take for the word of a proxy is [`HeaderFilter`]'s to name. Our identity headers are
//! written *after* `Connection` was obeyed, so no client can have them stripped.

pub mod filter;
pub mod request_id;

use std::net::IpAddr;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use self::filter::HeaderFilter;
use crate::policy::device::Devices;

/// Says who the client is and where it asked, for one request.
#[derive(Debug)]
pub struct ForwardedInfo<'a> {
    /// The peer's address; `None` for a Unix socket.
    pub peer: Option<&'a HeaderValue>,
    /// Whether the peer is a proxy of ours, whose own words are kept and added to.
    pub trusted: bool,
    /// Whether the peer speaks TLS with us.
    pub secure: bool,
    /// The header that a trusted proxy says the client in, if it is not one of the usual two.
    pub client_header: Option<&'a HeaderName>,
    /// What else is not passed on.
    pub filter: &'a HeaderFilter,
    /// The request's id, if it came without a usable one.
    pub request_id: Option<&'a HeaderValue>,
    /// Whose cookie is not the application's.
    pub devices: Option<&'a Devices>,
}

/// Prepares a request's headers for the upstream.
pub fn prepare_request(headers: &mut HeaderMap, identity: &ForwardedInfo<'_>, upgrade: Option<HeaderValue>) {
    strip(headers, |name| identity.filter.drops(name, identity.trusted, identity.client_header));
    if let Some(devices) = identity.devices {
        devices.strip(headers);
    }
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    set_forwarded(headers, identity);
}

/// Prepares an answer's headers for the client. An upgrade keeps the two headers that make it one.
pub fn prepare_response(headers: &mut HeaderMap, upgraded: bool) {
    let protocol = if upgraded { headers.get(UPGRADE).cloned() } else { None };
    strip(headers, |_| false);
    if let Some(protocol) = protocol {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

/// The protocol that a client asks to switch to. `h2c` would carry requests past the limiter and is never passed.
#[must_use]
pub fn requested_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = connection_options(headers).any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    let mut protocols = headers.get_all(UPGRADE).iter();
    let (Some(protocol), None) = (protocols.next().filter(|_| asks), protocols.next()) else { return None };
    let names_h2c = protocol
        .as_bytes()
        .split(|&b| b == b',')
        .any(|name| name.trim_ascii().to_ascii_lowercase().starts_with(b"h2"));
    (!names_h2c).then(|| protocol.clone())
}

/// A client's own request id, if it can go anywhere: up to 128 visible ASCII characters.
#[must_use]
pub fn usable_request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut ids = headers.get_all(REQUEST_ID).iter();
    let id = ids
        .next()
        .filter(|id| (1..=128).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    if ids.next().is_some() { None } else { id }
}

/// RFC 9110, 7.6.1: what `Connection` names, and what is known to belong to one connection; and whatever else `also`
/// says. One look at each name: most headers simply pass.
fn strip(headers: &mut HeaderMap, also: impl Fn(&HeaderName) -> bool) {
    let mut doomed: SmallVec<[HeaderName; 4]> = SmallVec::new();
    for name in headers.keys().filter(|name| is_hop_by_hop(name.as_str()) || also(name)) {
        doomed.push(name.clone());
    }
    if doomed.contains(&CONNECTION) {
        // These carry the meaning of the message; a client that names them wants to change it.
        let means_something = |name: &HeaderName| *name == HOST || *name == CONTENT_LENGTH;
        let named = connection_options(headers).filter_map(|option| HeaderName::from_bytes(option).ok());
        doomed.extend(named.filter(|name| !means_something(name) && headers.contains_key(name)));
    }
    for name in doomed {
        headers.remove(name);
    }
}

/// `Expect` was answered by us, and framing is made anew for each connection.
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

fn set_forwarded(headers: &mut HeaderMap, identity: &ForwardedInfo<'_>) {
    // What anybody else said was stripped, so only a trusted peer's words can stand there.
    let said = |headers: &HeaderMap, name: &HeaderName| identity.trusted && headers.contains_key(name);
    if let Some(peer) = identity.peer {
        if said(headers, &FORWARDED_FOR) {
            append(headers, peer);
        } else {
            headers.insert(FORWARDED_FOR, peer.clone());
        }
    }
    if !said(headers, &FORWARDED_PROTO) {
        let scheme = if identity.secure { "https" } else { "http" };
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
    }
    if !said(headers, &FORWARDED_HOST)
        && let Some(host) = headers.get(HOST).cloned()
    {
        headers.insert(FORWARDED_HOST, host);
    }
    if let Some(id) = identity.request_id {
        headers.insert(REQUEST_ID, id.clone());
    }
}

/// All lines of a trusted proxy as one, and the peer behind them.
fn append(headers: &mut HeaderMap, peer: &HeaderValue) {
    let mut list = Vec::new();
    for line in headers.get_all(FORWARDED_FOR) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(peer.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(FORWARDED_FOR, list);
    }
}

/// An address as a header value.
#[must_use]
pub fn address_value(ip: IpAddr) -> HeaderValue {
    // An address is always visible ASCII, so the alternative never happens.
    HeaderValue::from_str(&ip.to_canonical().to_string()).unwrap_or(HeaderValue::from_static("unknown"))
}

/// The header that carries a request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        map
    }

    fn forwarded(lines: &[(&str, &str)], trusted: bool) -> HeaderMap {
        let mut headers = map(lines);
        let peer = HeaderValue::from_static("192.0.2.1");
        let identity = ForwardedInfo {
            peer: Some(&peer),
            trusted,
            secure: false,
            client_header: None,
            filter: &HeaderFilter::default(),
            request_id: None,
            devices: None,
        };
        prepare_request(&mut headers, &identity, None);
        headers
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
            let mut headers = map(&[("x-client-of-ours", "6.6.6.6"), ("x_client_of_ours", "6.6.6.6")]);
            let identity = ForwardedInfo {
                peer: Some(&peer),
                trusted,
                secure: false,
                client_header: Some(&kept),
                filter: &HeaderFilter::default(),
                request_id: None,
                devices: None,
            };
            prepare_request(&mut headers, &identity, None);
            assert_eq!(headers.contains_key("x-client-of-ours"), trusted);
            assert!(!headers.contains_key("x_client_of_ours"));
        }
    }

    #[test]
    fn the_cookie_of_known_devices_goes_no_further() {
        let devices = Devices::new(vec![b"key".to_vec()], crate::time::Span::from_secs(3600), "dev");
        let mut headers = map(&[("cookie", "a=1; dev=x; b=2"), ("cookie", "__Host-dev=y")]);
        let identity = ForwardedInfo {
            peer: None,
            trusted: false,
            secure: true,
            client_header: None,
            filter: &HeaderFilter::default(),
            request_id: None,
            devices: Some(&devices),
        };
        prepare_request(&mut headers, &identity, None);
        let cookies: Vec<_> = headers.get_all("cookie").iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
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
    fn a_websocket_passes_and_h2c_does_not() {
        let wanted =
            |lines: &[(&str, &str)]| requested_upgrade(&map(lines)).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(
            wanted(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]),
            Some("websocket".into())
        );
        assert_eq!(wanted(&[("upgrade", "websocket")]), None);
        assert_eq!(wanted(&[("connection", "upgrade"), ("upgrade", "h2c")]), None);
        assert_eq!(wanted(&[("connection", "upgrade"), ("upgrade", "websocket, H2C")]), None);
        assert_eq!(wanted(&[("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "b")]), None);
    }

    #[test]
    fn a_request_id_is_kept_if_it_can_go_anywhere() {
        let usable = |value: &str| usable_request_id(&map(&[("x-request-id", value)])).is_some();
        assert!(usable("0b1-c"));
        assert!(!usable("") && !usable("a b") && !usable(&"x".repeat(129)));
        assert!(usable_request_id(&map(&[("x-request-id", "a"), ("x-request-id", "b")])).is_none());
    }
}
