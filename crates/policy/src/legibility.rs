//! Whether a body can be read as it is: in no encoding that hides ASCII.
//!
//! It goes by headers alone. What is done with a body that cannot be read is left to its readers, and its compression to
//! `body_coding`.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252, X_USER_DEFINED};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

/// What a body holds is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be read")]
pub struct UnreadableBody;

/// A body is in a charset that the gate does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the charset of the body is not read here")]
pub struct UnknownCharset;

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

/// The charsets that a content type names, in lower case; [`EXTENDED`] for one that it names in the way of RFC 2231.
pub(super) fn charsets(kind: &[u8]) -> Vec<String> {
    if memchr::memchr(b';', kind).is_none() {
        return Vec::new();
    }
    // Malformed parameters are not an error: the bytes of the body show an unusual encoding as well.
    let text = String::from_utf8_lossy(kind).to_ascii_lowercase();
    let parameters = text.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let label = |(name, label): (&str, &str)| match name.trim().strip_prefix("charset")? {
        "" => Some(label.trim().trim_matches(['"', '\'']).to_owned()),
        // `charset*=utf-8''utf-7`, or in pieces: `charset*0=utf; charset*1=-7`.
        rest => rest.trim_start().starts_with('*').then(|| EXTENDED.to_owned()),
    };
    parameters.filter_map(label).collect()
}

/// Whether an encoding is a superset of ASCII, and no other character contains ASCII bytes. Labels are those of browsers
/// (Encoding Standard, 4.2).
pub(super) fn contains_ascii(label: &str) -> bool {
    Encoding::for_label(label.as_bytes()).is_some_and(|encoding| {
        encoding == UTF_8 || (encoding.is_single_byte() && encoding != X_USER_DEFINED)
    })
}

/// Checks that the charsets of a body are read here: supersets of ASCII, and those of
/// [`encoding`](super::field), which hide ASCII. An application may read any other.
///
/// # Errors
/// [`UnknownCharset`] if one is not.
pub(super) fn check_charsets(headers: &HeaderMap) -> Result<(), UnknownCharset> {
    let are_known = |value: &HeaderValue| charsets(value.as_bytes()).iter().all(|label| is_known(label));
    if headers.get_all(CONTENT_TYPE).iter().all(are_known) { Ok(()) } else { Err(UnknownCharset) }
}

/// Whether a charset is read here.
pub(super) fn is_known(label: &str) -> bool {
    contains_ascii(label) || hides_ascii(label)
}

/// Whether a label is that of a wide encoding, of UTF-7 or of EBCDIC.
pub(super) fn hides_ascii(label: &str) -> bool {
    let label: String = label.chars().filter(|letter| !matches!(letter, '-' | '_' | ' ')).collect();
    let page = label.strip_prefix("ibm").or_else(|| label.strip_prefix("cp"));
    WIDE.contains(&&*label)
        || page.is_some_and(|page| EBCDIC.contains(&page.trim_start_matches('0')))
        || label.starts_with("ebcdic")
}

/// What a name means in the charset of a body, if it is one byte a character and not that of Western Europe.
pub(super) fn decode_name(headers: &HeaderMap, name: &[u8]) -> Option<String> {
    if name.is_ascii() {
        return None;
    }
    let labels = headers.get_all(CONTENT_TYPE).iter().flat_map(|line| charsets(line.as_bytes()));
    let encoding = labels
        .filter_map(|label| Encoding::for_label(label.as_bytes()))
        .find(|encoding| encoding.is_single_byte() && ![WINDOWS_1252, X_USER_DEFINED].contains(encoding))?;
    Some(encoding.decode_without_bom_handling(name).0.into_owned())
}

/// Stands for the label in a `charset*` (RFC 2231), which no browser sends: it is that of no charset.
const EXTENDED: &str = "charset*";
/// Without hyphens and underscores.
const WIDE: [&str; 14] = [
    "utf16",
    "utf16le",
    "utf16be",
    "utf32",
    "utf32le",
    "utf32be",
    "ucs2",
    "ucs2le",
    "ucs4",
    "iso10646ucs2",
    "iso10646ucs4",
    "utf7",
    "csutf7",
    "unicode11utf7",
];
/// Code pages that differ in no letter and no digit.
const EBCDIC: [&str; 23] = [
    "37", "273", "277", "278", "280", "284", "285", "297", "500", "871", "924", "1047", "1140", "1141",
    "1142", "1143", "1144", "1145", "1146", "1147", "1148", "1149", "1153",
];

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
    fn only_charsets_that_are_read_are_known() {
        let of = |label: &str| {
            let value = format!("application/x-www-form-urlencoded; charset={label}").parse().unwrap();
            check_charsets(&HeaderMap::from_iter([(CONTENT_TYPE, value)])).is_ok()
        };
        for known in [
            "utf-8",
            "UTF8",
            "us-ascii",
            "latin1",
            "iso-8859-15",
            "windows-1251",
            "koi8-r",
            "utf-16",
            "UTF-16LE",
            "ucs2",
            "utf-7",
            "cp037",
            "ibm-1047",
            "\"utf-8\"",
        ] {
            assert!(of(known), "{known}");
        }
        for unknown in [
            "utf-7-imap",
            "utf7imap",
            "shift_jis",
            "euc-jp",
            "gbk",
            "big5",
            "iso-2022-jp",
            "hz-gb-2312",
            "cesu-8",
            "utf-9",
            "x-user-defined",
            "base64",
            "hex",
            "nonsense",
            "",
            "cp932",
        ] {
            assert!(!of(unknown), "{unknown}");
        }
    }

    /// Django, aiohttp and Python's `email` read these labels, and a body in UTF-7 is a document without the field.
    #[test]
    fn a_charset_in_the_way_of_rfc_2231_is_not_known() {
        for parameter in [
            "charset*=utf-8''utf-7",
            "charset*=''utf-7",
            "charset*0=utf-7",
            "charset*0=ut; charset*1=f-7",
            "charset*0*=''ut; charset*1=f-7",
            "charset*1=f-7;charset*0=ut",
            "Charset *=utf-8''utf%2d7",
            "charset*=utf-8''utf-8",
        ] {
            let kind = format!("application/json; {parameter}").parse().unwrap();
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
            assert_eq!(check_headers(&headers), Err(UnreadableBody), "{parameter}");
            assert_eq!(check_charsets(&headers), Err(UnknownCharset), "{parameter}");
        }
    }

    #[test]
    fn a_name_is_read_in_its_charset() {
        let of = |label: &str, name: &[u8]| {
            let value = format!("text/plain; charset={label}").parse().unwrap();
            decode_name(&HeaderMap::from_iter([(CONTENT_TYPE, value)]), name)
        };
        assert_eq!(of("iso-8859-3", b"\xf5ina").as_deref(), Some("\u{121}ina"));
        assert_eq!(of("koi8-r", b"\xc1").as_deref(), Some("\u{430}"));
        assert_eq!(
            [of("utf-8", b"\xf5"), of("iso-8859-1", b"\xf5"), of("iso-8859-3", b"gina")],
            [None, None, None]
        );
    }

    #[test]
    fn two_lines_of_a_header_are_both_looked_at() {
        let mut both = headers(CONTENT_TYPE, "text/plain");
        both.append(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-7"));
        assert_eq!(check_headers(&both), Err(UnreadableBody));
        assert_eq!(check_headers(&HeaderMap::new()), Ok(()));
    }
}
