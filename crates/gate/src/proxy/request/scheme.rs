//! Whether the client uses HTTPS: by a trusted proxy, otherwise by our own connection.
//!
//! The last value of a list counts: the trusted proxy wrote it, and the values before it came from outside.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::FORWARDED;

use super::forwarded;

/// Whether the client of a request uses TLS: by a `trusted` peer's `X-Forwarded-Proto`, or without one its `Forwarded`
/// (RFC 7239, 5.4). Otherwise `peer`: whether the peer uses TLS.
#[must_use]
pub fn is_secure(headers: &HeaderMap, trusted: bool, peer: bool) -> bool {
    let forwarded = || last_scheme(headers).map(Cow::Borrowed).or_else(|| last_proto(headers));
    if !trusted {
        return peer;
    }
    forwarded().map_or(peer, |scheme| scheme.eq_ignore_ascii_case(b"https"))
}

/// The last item of `X-Forwarded-Proto`, over all its lines.
fn last_scheme(headers: &HeaderMap) -> Option<&[u8]> {
    let line = headers.get_all("x-forwarded-proto").iter().next_back()?;
    line.as_bytes().rsplit(|&byte| byte == b',').next().map(<[u8]>::trim_ascii)
}

/// The `proto` of the last element of `Forwarded`; `None` for a malformed line.
fn last_proto(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let line = headers.get_all(FORWARDED).iter().next_back()?;
    let mut last = None;
    forwarded::for_each_element(line.as_bytes(), |element| last = Some(element)).ok()?;
    last?.proto.map(forwarded::ForwardedValue::unquoted)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn secure(lines: &[(&'static str, &'static str)], trusted: bool) -> bool {
        let lines = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| drop(headers.try_append(name, value)));
        is_secure(&headers, trusted, false)
    }

    #[test]
    fn a_trusted_proxy_says_how_its_client_speaks() {
        for lines in [
            &[("x-forwarded-proto", "https")][..],
            &[("x-forwarded-proto", " HTTPS ")],
            &[("x-forwarded-proto", "http, https")],
            &[("x-forwarded-proto", "http"), ("x-forwarded-proto", "https")],
            &[("forwarded", "for=192.0.2.1;proto=https")],
            &[("forwarded", "proto=http, For=\"[::1]\" ; Proto=\"HTTPS\"")],
            &[("forwarded", "for=\"a,proto=http\";proto=https")],
            &[("forwarded", "proto=http"), ("x-forwarded-proto", "https")],
        ] {
            assert!(secure(lines, true), "{lines:?}");
            assert!(!secure(lines, false), "untrusted: {lines:?}");
        }
    }

    #[test]
    fn where_no_header_names_it_the_peer_is_the_client() {
        let mut headers = HeaderMap::new();
        assert!(is_secure(&headers, false, true) && is_secure(&headers, true, true));
        headers.insert("x-forwarded-proto", HeaderValue::from_static("http"));
        assert!(is_secure(&headers, false, true), "an untrusted peer is not believed");
        assert!(!is_secure(&headers, true, true), "only the proxy uses TLS");
    }

    #[test]
    fn whatever_else_it_says_is_not_tls() {
        for lines in [
            &[][..],
            &[("x-forwarded-proto", "")],
            &[("x-forwarded-proto", "https, http")],
            &[("x-forwarded-proto", "https,")],
            &[("x-forwarded-proto", "httpsx")],
            &[("x-forwarded-proto", "http"), ("forwarded", "proto=https")],
            &[("forwarded", "proto=https, for=192.0.2.1")],
            &[("forwarded", "proto=https;proto=http")],
            &[("forwarded", "proto=https;proto=https")],
            &[("forwarded", "for=\"proto=https\"")],
            &[("forwarded", "proto")],
            &[("forwarded", "proto=\"https")],
            &[("forwarded", "host=\"a\\\", proto=https;x=\\\"b\"")],
            &[("forwarded", "proto=https, ;x")],
        ] {
            assert!(!secure(lines, true), "{lines:?}");
        }
    }
}
