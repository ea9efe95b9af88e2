//! Counts how many attempts one body makes: batched guesses cost as much as single ones.
//!
//! It only counts: it builds no tree, keeps nothing, and decodes only what could hide a name. A body that could be read
//! in two ways is [`UnreadableBody`], because its author wants the application to find more attempts in it than the
//! gate does.

mod items;
mod xmlrpc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

/// The unit that is counted in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Count {
    /// Calls of an XML-RPC body: elements of this name, or members of this name in the calls of a batch.
    Element(String),
    /// Items of a JSON array.
    Items,
}

/// The number of attempts in a body is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be read")]
pub struct UnreadableBody;

impl Count {
    /// The number of attempts in this body; 0 for a body of this format without any. A body in another format is one
    /// attempt.
    ///
    /// # Errors
    /// [`UnreadableBody`].
    pub fn of(&self, body: &[u8]) -> Result<u32, UnreadableBody> {
        // UTF-16 and UTF-32 without a byte order mark; and some readers skip a zero byte, others stop at it.
        if body.contains(&0) {
            return Err(UnreadableBody);
        }
        // Byte order marks, blanks of any kind and other bytes that a reader may skip.
        let Some(start) = body.iter().position(u8::is_ascii_graphic) else { return Ok(1) };
        match self {
            Self::Element(name) => xmlrpc::count(&body[start..], name),
            Self::Items => items::count(&body[start..]),
        }
    }
}

/// Checks that a body with these headers can be read as it is: neither compressed nor in an encoding that is no
/// superset of ASCII.
///
/// # Errors
/// [`UnreadableBody`] if it is not.
pub fn check_headers(headers: &HeaderMap) -> Result<(), UnreadableBody> {
    let plain = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    let legible = |value: &HeaderValue| is_legible(value.as_bytes());
    let readable = headers.get_all(CONTENT_ENCODING).iter().all(plain)
        && headers.get_all(CONTENT_TYPE).iter().all(legible);
    if readable { Ok(()) } else { Err(UnreadableBody) }
}

/// Whether a content type names only charsets that are supersets of ASCII.
pub(super) fn is_legible(kind: &[u8]) -> bool {
    charsets(kind).iter().all(|label| contains_ascii(label))
}

/// The charsets that a content type names, in lower case.
pub(super) fn charsets(kind: &[u8]) -> Vec<String> {
    if memchr::memchr(b';', kind).is_none() {
        return Vec::new();
    }
    // Malformed parameters are no error: the bytes of the body show an unusual encoding as well.
    let text = String::from_utf8_lossy(kind).to_ascii_lowercase();
    let parameters = text.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let labels = parameters.filter(|(name, _)| name.trim() == "charset");
    labels.map(|(_, label)| label.trim().trim_matches(['"', '\'']).to_owned()).collect()
}

/// Whether an encoding is a superset of ASCII, and no other character contains ASCII bytes.
pub(super) fn contains_ascii(label: &str) -> bool {
    let label = label.to_ascii_lowercase();
    let exact = ["utf-8", "utf8", "us-ascii", "ascii", "latin1"];
    let families = ["iso-8859-", "windows-125", "cp125"];
    exact.contains(&&*label) || families.iter().any(|family| label.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_body_in_an_encoding_without_ascii_is_not_readable() {
        for charset in
            ["utf-16", "UTF-7", "\"utf-16le\"", "ibm037", "'utf-7'", "iso-2022-jp", "hz-gb-2312", ""]
        {
            let value = format!("text/xml; a=b; Charset={charset}").parse().unwrap();
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, value)]);
            assert_eq!(check_headers(&headers), Err(UnreadableBody), "{charset}");
        }
        for value in
            ["text/xml", "text/xml; charset=UTF-8", "application/json;charset=\"iso-8859-1\"", ";", "a;b"]
        {
            assert_eq!(check_headers(&headers(CONTENT_TYPE, value)), Ok(()), "{value}");
        }
    }

    #[test]
    fn a_compressed_body_is_not_readable() {
        for value in ["gzip", "br, identity", "identity, gzip", "x", ""] {
            assert_eq!(check_headers(&headers(CONTENT_ENCODING, value)), Err(UnreadableBody), "{value}");
        }
        assert_eq!(check_headers(&headers(CONTENT_ENCODING, "Identity")), Ok(()));
        assert_eq!(check_headers(&HeaderMap::new()), Ok(()));
    }

    #[test]
    fn two_lines_of_a_header_are_both_looked_at() {
        let mut both = headers(CONTENT_ENCODING, "identity");
        both.append(CONTENT_ENCODING, HeaderValue::from_static("deflate"));
        assert_eq!(check_headers(&both), Err(UnreadableBody));
    }
}
