//! The charset of a response body, as far as it matters for finding a text in it.
//!
//! It decodes nothing: it tells whether a text that was not found byte by byte is absent. Names are those of the
//! Encoding Standard and of IANA.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::super::legibility::charsets;

/// The charset of a body, best known first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Charset {
    /// UTF-8, declared or not.
    Utf8,
    /// Another charset, in which ASCII bytes stand for themselves.
    ContainsAscii,
    /// Any other charset.
    Other,
}

impl Charset {
    /// The charset of a body with this beginning.
    pub(super) fn of(headers: &HeaderMap, beginning: &[u8]) -> Self {
        if BYTE_ORDER_MARKS.iter().any(|mark| beginning.starts_with(mark)) {
            return Self::Other;
        }
        let labels = headers.get_all(CONTENT_TYPE).iter().flat_map(|line| charsets(line.as_bytes()));
        labels.map(|label| Self::named(&label)).max().unwrap_or(Self::Utf8)
    }

    fn named(label: &str) -> Self {
        match label {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => Self::Utf8,
            _ if CONTAIN_ASCII.iter().any(|name| label.starts_with(name)) => Self::ContainsAscii,
            _ => Self::Other,
        }
    }

    /// Whether a search by bytes finds this text if the body contains it. A body of ASCII bytes contains no other
    /// characters.
    pub(super) fn shows(self, text: &str, body: &[u8]) -> bool {
        match self {
            Self::Utf8 => true,
            Self::ContainsAscii => text.is_ascii() || body.is_ascii(),
            Self::Other => body.is_empty(),
        }
    }
}

/// The byte order marks of UTF-16 and UTF-32.
const BYTE_ORDER_MARKS: [&[u8]; 3] = [b"\xFE\xFF", b"\xFF\xFE", b"\0\0\xFE\xFF"];

/// The beginnings of the names of charsets that contain ASCII.
const CONTAIN_ASCII: [&str; 17] = [
    "iso-8859-",
    "iso8859-",
    "latin",
    "windows-125",
    "windows-874",
    "cp125",
    "tis-620",
    "koi8-",
    "macintosh",
    "gb2312",
    "gbk",
    "gb18030",
    "big5",
    "euc-",
    "shift_jis",
    "shift-jis",
    "windows-31j",
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(kind: &'static str, body: &[u8]) -> Charset {
        Charset::of(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]), body)
    }

    #[test]
    fn a_text_is_known_to_be_missing_only_where_its_letters_are() {
        for kind in ["text/html", "text/html; charset=UTF-8", "text/html;charset=\"utf-8\"", ""] {
            assert_eq!(of(kind, b"x"), Charset::Utf8, "{kind}");
        }
        for kind in
            ["text/html; charset=ISO-8859-1", "text/html; charset=windows-1252", "text/html; charset=euc-jp"]
        {
            let charset = of(kind, b"x");
            assert_eq!(charset, Charset::ContainsAscii, "{kind}");
            assert!(charset.shows("failed", b"\xFC") && !charset.shows("\u{fc}", b"\xFC"));
        }
        for kind in
            ["text/html; charset=utf-16", "text/html; charset=utf-7", "a/b; charset=ibm037", "a/b; charset="]
        {
            assert_eq!(of(kind, b"x"), Charset::Other, "{kind}");
        }
        assert_eq!(
            of("text/html; charset=utf-8; charset=utf-16", b"x"),
            Charset::Other,
            "the least known of both"
        );
        assert_eq!(of("text/html", b"\xFF\xFEx\0"), Charset::Other);
        assert_eq!(of("text/html", b"\xEF\xBB\xBFx"), Charset::Utf8);
    }
}
