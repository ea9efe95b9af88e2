//! Whether a body can be read as it is: in no encoding that hides ASCII.
//!
//! It goes by headers alone. What is done with a body that cannot be read is left to its readers, and its compression to
//! `body_coding`.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

/// What a body holds is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be read")]
pub struct UnreadableBody;

/// Checks that a body with these headers can be read as it is: in no encoding but supersets of ASCII.
///
/// # Errors
/// [`UnreadableBody`] if it cannot.
pub(super) fn check_headers(headers: &HeaderMap) -> Result<(), UnreadableBody> {
    let legible = |value: &HeaderValue| is_legible(value.as_bytes());
    if headers.get_all(CONTENT_TYPE).iter().all(legible) { Ok(()) } else { Err(UnreadableBody) }
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
    fn two_lines_of_a_header_are_both_looked_at() {
        let mut both = headers(CONTENT_TYPE, "text/plain");
        both.append(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-7"));
        assert_eq!(check_headers(&both), Err(UnreadableBody));
        assert_eq!(check_headers(&HeaderMap::new()), Ok(()));
    }
}
