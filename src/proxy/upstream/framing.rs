//! Response framing: how the head of a response gives the length of its body, if it does so in one way only.
//!
//! Clients differ in how they read `gzip, chunked`, chunks next to a length, or `2, 3`. So `http1::response_head` treats an
//! ambiguous response as broken; a correct upstream never sends one. The check covers responses without a body, too,
//! because some clients look for a body there.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};

/// How headers frame a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclaredFraming<'a> {
    /// By nothing.
    None,
    /// By a number of bytes: digits without a leading zero.
    Length(&'a HeaderValue),
    /// By chunks.
    Chunked,
}

/// How these response headers frame the body; `None` if they do it in two ways, or in one that can be misread.
#[must_use]
pub fn declared(headers: &HeaderMap) -> Option<DeclaredFraming<'_>> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let framing = match (lengths.next(), codings.next()) {
        (None, None) => DeclaredFraming::None,
        // RFC 9112, 6.3: the same length twice is one.
        (Some(length), None) if is_plain(length.as_bytes()) && lengths.all(|other| other == length) => {
            DeclaredFraming::Length(length)
        }
        (None, Some(coding)) if is_chunked(coding) => DeclaredFraming::Chunked,
        _ => return None,
    };
    codings.next().is_none().then_some(framing)
}

/// Digits without a leading zero.
fn is_plain(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !matches!(digits, [] | [b'0', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(lines: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        declared(&headers).is_some()
    }

    #[test]
    fn at_most_one_framing_is_clear() {
        for lines in [
            &[][..],
            &[("content-length", "0")],
            &[("content-length", "120")],
            &[("transfer-encoding", "chunked")],
            &[("transfer-encoding", "Chunked")],
            &[("content-length", "2"), ("content-length", "2")],
        ] {
            assert!(clear(lines), "{lines:?}");
        }
    }

    #[test]
    fn whatever_two_clients_could_read_differently_is_not() {
        for lines in [
            &[("content-length", "2"), ("transfer-encoding", "chunked")][..],
            &[("content-length", "2"), ("content-length", "3")],
            &[("content-length", "2, 2")],
            &[("content-length", "02")],
            &[("content-length", "")],
            &[("content-length", "+2")],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "identity")],
            &[("transfer-encoding", "")],
        ] {
            assert!(!clear(lines), "{lines:?}");
        }
    }
}
