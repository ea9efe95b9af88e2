//! A reference for the readings of a path: every reading is a copy, split, joined and compared with all others.
//!
//! It is slow and simple; a test compares the fast implementation with it.

use percent_encoding::percent_decode;
use smallvec::{SmallVec, smallvec};
use unicode_normalization::UnicodeNormalization;

use super::*;

/// All readings of a path, the plainest first, without duplicates; one for an ordinary path, without a copy.
///
/// The path must have passed [`check`].
pub(super) fn readings(path: &str) -> SmallVec<[Reading<'_>; 1]> {
    if let Some(plain) = plain(path) {
        return smallvec![Cow::Borrowed(plain)];
    }
    let mut all: SmallVec<[Reading<'_>; 1]> = SmallVec::new();
    for decoded in decodings(path) {
        for separators in ReferenceSeparators::all_for(&decoded) {
            for parameters in [ReferenceParameters::Unchanged, ReferenceParameters::Stripped] {
                for dots in
                    [ReferenceDots::ResolvedLast, ReferenceDots::ResolvedFirst, ReferenceDots::Unchanged]
                {
                    let reading = normalise(&decoded, separators, parameters, dots);
                    if !all.iter().any(|known| known[..] == reading[..]) {
                        all.push(Cow::Owned(reading));
                    }
                }
            }
        }
    }
    all
}

/// The path itself, if no server could read it in another way; trailing slashes do not count.
fn plain(path: &str) -> Option<&[u8]> {
    let bytes = path.as_bytes();
    let mut last = b'/';
    for &byte in &bytes[1..] {
        let ordinary = byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'.');
        let doubtful = matches!((last, byte), (b'/', b'/' | b'.') | (b'.', b'/'));
        if !ordinary || doubtful {
            return None;
        }
        last = byte;
    }
    match last {
        b'.' => None,
        b'/' if bytes.len() > 1 => Some(&bytes[..bytes.len() - 1]),
        _ => Some(bytes),
    }
}

/// The path as sent, decoded once and decoded twice, each also with overlong and compatibility characters folded, and
/// cut where an encoded `?` or `#` would end it.
fn decodings(path: &str) -> Vec<Vec<u8>> {
    let once = decode(path.as_bytes());
    let twice = decode(&once);
    let mut all = Vec::new();
    for decoded in [once, twice, path.as_bytes().to_vec()] {
        let folded = fold_unicode(&decoded);
        for form in [Some(decoded), folded].into_iter().flatten() {
            if let Some(end) = form.iter().position(|b| matches!(b, b'?' | b'#')) {
                push_new(&mut all, form[..end].to_vec());
            }
            push_new(&mut all, form);
        }
    }
    all
}

fn push_new(all: &mut Vec<Vec<u8>>, form: Vec<u8>) {
    if !all.contains(&form) {
        all.push(form);
    }
}

/// Percent-decoding that keeps an encoded slash or backslash distinct from a literal one.
fn decode(bytes: &[u8]) -> Vec<u8> {
    let mut marked = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, length) = match encoded_byte(bytes, at) {
            Some(b'/') => (ENCODED_SLASH, 3),
            Some(b'\\') => (ENCODED_BACKSLASH, 3),
            Some(byte) => (byte, 3),
            None => (bytes[at], 1),
        };
        marked.push(byte);
        at += length;
    }
    marked
}

fn encoded_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let three = bytes.get(at..at + 3)?;
    let is_encoded = three[0] == b'%' && three[1].is_ascii_hexdigit() && three[2].is_ascii_hexdigit();
    if is_encoded { percent_decode(three).next() } else { None }
}

/// Folds overlong UTF-8 (`C0 AF` for a slash) and compatibility characters (full width) to ASCII, as lenient servers
/// do; `None` if there is nothing to fold.
fn fold_unicode(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.is_ascii() {
        return None;
    }
    let mut shortened = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, length) = match bytes[at..] {
            [lead @ (0xC0 | 0xC1), tail @ 0x80..=0xBF, ..] => ((lead & 1) << 6 | (tail & 0x3F), 2),
            [0xE0, middle @ (0x80 | 0x81), tail @ 0x80..=0xBF, ..] => ((middle & 1) << 6 | (tail & 0x3F), 3),
            [byte, ..] => (byte, 1),
            [] => break,
        };
        shortened.push(byte);
        at += length;
    }
    match String::from_utf8(shortened) {
        Ok(text) => Some(text.nfkc().collect::<String>().into_bytes()),
        Err(bytes) => Some(bytes.into_bytes()),
    }
}

/// The bytes other than `/` that separate segments.
#[derive(Clone, Copy, Default)]
struct ReferenceSeparators {
    backslash: bool,
    encoded: bool,
}

impl ReferenceSeparators {
    /// The separators that make a difference for these bytes.
    fn all_for(bytes: &[u8]) -> Vec<Self> {
        let has = |separators: &[u8]| bytes.iter().any(|byte| separators.contains(byte));
        let choices = |present| if present { &[false, true][..] } else { &[false][..] };
        let mut all = Vec::new();
        for &backslash in choices(has(&[b'\\', ENCODED_BACKSLASH])) {
            for &encoded in choices(has(&[ENCODED_SLASH, ENCODED_BACKSLASH])) {
                all.push(Self { backslash, encoded });
            }
        }
        all
    }

    fn split(self, byte: u8) -> bool {
        match byte {
            b'/' => true,
            b'\\' => self.backslash,
            ENCODED_SLASH => self.encoded,
            ENCODED_BACKSLASH => self.encoded && self.backslash,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ReferenceParameters {
    Unchanged,
    Stripped,
}

/// When `.` and `..` are resolved: after repeated slashes were merged, before, or never.
#[derive(Clone, Copy, PartialEq)]
enum ReferenceDots {
    ResolvedLast,
    ResolvedFirst,
    Unchanged,
}

fn normalise(
    bytes: &[u8],
    separators: ReferenceSeparators,
    parameters: ReferenceParameters,
    dots: ReferenceDots,
) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in bytes[1..].split(|&byte| separators.split(byte)) {
        let segment = match parameters {
            ReferenceParameters::Unchanged => segment,
            ReferenceParameters::Stripped => segment.split(|&byte| byte == b';').next().unwrap_or_default(),
        };
        match segment {
            b"" if dots != ReferenceDots::ResolvedFirst => {}
            b"." if dots != ReferenceDots::Unchanged => {}
            b".." if dots != ReferenceDots::Unchanged => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    joined(&segments)
}

fn joined(segments: &[&[u8]]) -> Vec<u8> {
    let mut path = Vec::new();
    for segment in segments.iter().filter(|segment| !segment.is_empty() && !is_session(segment)) {
        path.push(b'/');
        path.extend_from_slice(fold_segment(segment));
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

/// ASP.NET's cookieless sessions: `/(S(lit3py55t21z5v55vlm25s55))/login.aspx`.
fn is_session(segment: &[u8]) -> bool {
    matches!(segment, [b'(', letter, b'(', .., b')', b')'] if letter.is_ascii_alphabetic())
}

// `check` refuses control bytes, so they are free to mark encoded separators.
const ENCODED_SLASH: u8 = 1;
const ENCODED_BACKSLASH: u8 = 2;

/// Fragments that servers read differently, and others between them.
const FRAGMENTS: [&str; 48] = [
    "/",
    "/",
    "/",
    ".",
    "..",
    "/.",
    "/..",
    "/../",
    "/./",
    "//",
    "a",
    "b.php",
    "login",
    "login.php",
    "%2f",
    "%2F",
    "%5c",
    "\\",
    ";",
    ";a=b",
    "%3b",
    "%252f",
    "%255c",
    "%252e",
    "%2e",
    "%2e%2e",
    "%25",
    "%61",
    "%2561",
    "%3f",
    "%23",
    "%253f",
    "%20",
    ".%20",
    "::$DATA",
    ":",
    "%C0%AF",
    "%E0%80%AF",
    "%C0%AE",
    "%EF%BC%8F",
    "%EF%BC%8E",
    "%EF%BD%8C",
    "%EF%BC%9B",
    "%EF%BC%9F",
    "%25EF%25BC%258F",
    "(S(abc))",
    "%FF",
    "a%CC%81",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_read_fast_is_read_as_before(picked in proptest::collection::vec(0..FRAGMENTS.len(), 0..9)) {
        let path = picked.iter().fold("/".to_owned(), |path, &at| path + FRAGMENTS[at]);
        let mut seen = Vec::new();
        let complete = for_each_reading(&path, |segments| seen.push(super::joined(segments)));
        let before = readings(&path);
        for reading in &before {
            let is_seen = seen.iter().any(|seen| seen[..] == reading[..]);
            proptest::prop_assert!(is_seen || complete.is_err(), "{path:?} is not read as {:?}", display(reading));
        }
        for reading in &seen {
            let is_known = before.iter().any(|known| known[..] == reading[..]);
            proptest::prop_assert!(is_known, "{path:?} is read as {:?}", display(reading));
        }
        if complete.is_ok() {
            let texts = |all: &[Reading<'_>]| all.iter().map(|reading| display(reading)).collect::<Vec<_>>();
            proptest::prop_assert_eq!(texts(&super::readings(&path)), texts(&before), "another order");
            proptest::prop_assert!(before.contains(&strict_reading(&path)));
        }
    }
}
