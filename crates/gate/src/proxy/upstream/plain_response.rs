//! Asks the upstream for a plain response: complete, unconditional and without encoding.
//!
//! It is for attempts with rules that read response bodies: an encoded, partial or cached response would hide the text
//! "wrong password". `transaction::inspect` reads the body.

use http::header::{ACCEPT_CHARSET, ACCEPT_ENCODING, RANGE};
use http::{HeaderName, HeaderValue};

use crate::proxy::headers::passed::PassedHeaders;

/// Removes the headers that ask for a part, a delta, a conditional response or an encoding.
pub(in crate::proxy) fn request_plain_response(headers: &mut PassedHeaders) {
    let names = headers.received().keys();
    let unwanted: Vec<HeaderName> = names.filter(|name| changes_response(name)).cloned().collect();
    unwanted.iter().for_each(|name| headers.remove(name));
    headers.set(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

fn changes_response(name: &HeaderName) -> bool {
    let bytes = name.as_str().as_bytes();
    // All of `If-Match` (RFC 9110), `If` (RFC 4918), `If-Schedule-Tag-Match` (RFC 6638) and others; CGI reads `_` as
    // `-`.
    let is_condition = matches!(bytes, b"if" | [b'i', b'f', b'-' | b'_', ..]);
    is_condition || *name == RANGE || *name == ACCEPT_CHARSET || OTHER_NAMES.contains(&name.as_str())
}

/// An older name of `Range`, which Apache still accepts; deltas (RFC 3229); a choice of variants (RFC 2295).
const OTHER_NAMES: [&str; 3] = ["request-range", "a-im", "negotiate"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::HeaderMap;

    use super::*;
    use crate::proxy::headers::received_head::ReceivedHead;

    #[test]
    fn nothing_that_changes_the_form_of_an_answer_is_left() {
        let removed = [
            "Range",
            "If-Range",
            "If-Match",
            "If-None-Match",
            "If-Modified-Since",
            "If-Unmodified-Since",
            "If",
            "If-Schedule-Tag-Match",
            "If_None_Match",
            "Request-Range",
            "A-IM",
            "Accept-Charset",
            "Negotiate",
        ];
        let kept = ["Accept", "Accept-Language", "Cookie", "Content-Range", "Iffy"];
        let mut headers = HeaderMap::new();
        for name in removed.iter().chain(&kept).chain(&["Accept-Encoding"]) {
            headers
                .append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("gzip"));
        }
        let mut headers = PassedHeaders::new(headers, ReceivedHead::default());
        request_plain_response(&mut headers);
        let mut headers = headers.into_map();
        assert_eq!(headers.remove("accept-encoding").unwrap(), "identity");
        let left: BTreeSet<_> = headers.keys().map(|name| name.to_string()).collect();
        assert_eq!(left, kept.map(str::to_ascii_lowercase).into());
    }
}
