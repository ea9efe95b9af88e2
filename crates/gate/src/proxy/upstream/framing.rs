//! Response framing: how the head of a response gives the length of its body, if it does so in one way only.
//!
//! Clients differ in how they read `gzip, chunked`, chunks next to a length, or `2, 3`. So `http1::response_head` treats an
//! ambiguous response as broken; a correct upstream never sends one. The check covers responses without a body, too,
//! because some clients look for a body there.

use http::HeaderName;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

/// How headers frame a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeclaredFraming<'a> {
    /// By nothing.
    #[default]
    None,
    /// By a number of bytes: digits without a leading zero.
    Length(&'a [u8]),
    /// By chunks.
    Chunked,
    /// In two ways, or in one that can be misread.
    Ambiguous,
}

impl<'a> DeclaredFraming<'a> {
    /// The same with one header more.
    #[must_use]
    pub fn with(self, name: &HeaderName, value: &'a [u8]) -> Self {
        match self {
            _ if *name == CONTENT_LENGTH => match self {
                Self::None if is_plain(value) => Self::Length(value),
                // RFC 9112, 6.3: the same length twice is one.
                Self::Length(known) if known == value => self,
                _ => Self::Ambiguous,
            },
            Self::None if *name == TRANSFER_ENCODING && value.eq_ignore_ascii_case(b"chunked") => {
                Self::Chunked
            }
            _ if *name == TRANSFER_ENCODING => Self::Ambiguous,
            _ => self,
        }
    }
}

/// Digits without a leading zero.
fn is_plain(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !matches!(digits, [] | [b'0', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(lines: &[(&'static str, &'static str)]) -> bool {
        let framing = lines.iter().fold(DeclaredFraming::None, |framing, (name, value)| {
            framing.with(&HeaderName::from_static(name), value.as_bytes())
        });
        framing != DeclaredFraming::Ambiguous
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
