//! The names of cookies, and the cookies of a request, as pairs that are not decoded yet (RFC 6265, 5.4).
//!
//! It interprets no value; its callers do.

use http::HeaderMap;
use http::header::COOKIE;

use super::pairs::{name_and_value, split};

/// The text between semicolons in all `Cookie` lines, with the blanks around it.
pub fn pieces(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(COOKIE).iter().flat_map(|line| split(line.as_bytes(), b';'))
}

/// Whether a text may be the name of a cookie: a token (RFC 9110, 5.6.2; RFC 6265, 4.1.1).
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*-.^_`|~".contains(&b))
}

/// Names and values, without the blanks around them. A name without a value has an empty one, as in PHP.
pub(super) fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = pieces(headers).map(name_and_value);
    let pairs = pairs.map(|(name, value)| (name.trim_ascii(), value.trim_ascii()));
    pairs.filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn every_line_has_its_pairs() {
        let lines = ["a=1; b = 2 ;;c", "=x; d=\"y=z\""].map(HeaderValue::from_static);
        let headers: HeaderMap = lines.into_iter().fold(HeaderMap::new(), |mut headers, line| {
            headers.append(COOKIE, line);
            headers
        });
        let found: Vec<_> = pairs(&headers).collect();
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b"2"), (b"c", b""), (b"d", b"\"y=z\"")];
        assert_eq!(found, expected);
    }
}
