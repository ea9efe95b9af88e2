//! Which trailers pass (RFC 9110, 6.5.1): those that say nothing about framing, routing, senders or credentials, so that no
//! server that reads them as headers is told anything new.

use http::{HeaderMap, HeaderName};

use super::filter::lists::OF_DEFENCES;
use super::is_hop_by_hop;

/// The trailers that pass, without those that `drops` selects; `None` if there are none.
pub fn passed_trailers(mut trailers: HeaderMap, drops: impl Fn(&HeaderName) -> bool) -> Option<HeaderMap> {
    let refused: Vec<HeaderName> =
        trailers.keys().filter(|name| is_refused(name.as_str()) || drops(name)).cloned().collect();
    for name in refused {
        trailers.remove(name);
    }
    Some(trailers).filter(|trailers| !trailers.is_empty())
}

fn is_refused(name: &str) -> bool {
    is_hop_by_hop(name)
        || REFUSED.contains(&name)
        || OF_DEFENCES.contains(&name)
        || ["content-", "if-", "proxy-", "x-forwarded-", "x-tollgate-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

const REFUSED: [&str; 21] = [
    "accept",
    "age",
    "authorization",
    "cache-control",
    "cookie",
    "date",
    "expires",
    "forwarded",
    "host",
    "location",
    "max-forwards",
    "pragma",
    "range",
    "retry-after",
    "set-cookie",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-real-ip",
    "x-request-id",
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_trailers_that_say_nothing_of_the_message_pass() {
        let mut trailers = HeaderMap::new();
        for name in [
            "content-length",
            "transfer-encoding",
            "host",
            "authorization",
            "x-forwarded-for",
            "x-tollgate-refused",
            "cookie",
            "trailer",
            "remote-user",
            "server-timing",
            "x-checksum",
        ] {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        let passed = passed_trailers(trailers.clone(), |name| name == "remote-user").unwrap();
        let names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(passed.contains_key("server-timing") && passed.contains_key("x-checksum"));
        assert!(passed_trailers(trailers, |_| true).is_none());
    }
}
