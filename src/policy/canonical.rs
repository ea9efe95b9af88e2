//! The readings of a path: every way in which an upstream could take it.
//!
//! One sign-in form has about twenty spellings (`//login.php`, `/x/../login.php`, `/%6cogin.php`, `/login.php;a`).
//! A limit is charged if **any** reading matches; over-matching costs a token, under-matching is a bypass. Nothing
//! here rewrites what is forwarded. The surprising thing: readings contradict each other on purpose, because
//! `%2f` is a separator to some servers and a letter to others, and an attacker picks the server's.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use unicode_normalization::UnicodeNormalization;

/// A path as some upstream may read it: it starts with `/`, and no segment is empty.
pub type Reading<'a> = Cow<'a, [u8]>;

/// Why a path is refused instead of read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Neither `/...` nor `*`.
    #[error("the target is not a path")]
    NotAPath,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("bad percent-encoding in the path")]
    PercentEncoding,
    /// A control byte, raw or percent-encoded.
    #[error("control byte in the path")]
    ControlByte,
}

/// Refuses what no two servers read alike: control bytes and broken percent-encoding.
///
/// # Errors
/// See [`Malformed`].
pub fn check(path: &str) -> Result<(), Malformed> {
    let bytes = path.as_bytes();
    if bytes.first() != Some(&b'/') {
        return Err(Malformed::NotAPath);
    }
    for (at, &byte) in bytes.iter().enumerate() {
        let byte =
            if byte == b'%' { encoded_byte(bytes, at).ok_or(Malformed::PercentEncoding)? } else { byte };
        if byte < 0x20 || byte == 0x7F {
            return Err(Malformed::ControlByte);
        }
    }
    Ok(())
}

/// All readings of a path, the plainest first, without duplicates; one for an ordinary path, without a copy.
///
/// The path must have passed [`check`].
#[must_use]
pub fn readings(path: &str) -> Vec<Reading<'_>> {
    if let Some(plain) = plain(path) {
        return vec![Cow::Borrowed(plain)];
    }
    let mut all: Vec<Reading<'_>> = Vec::new();
    for decoded in decodings(path) {
        for separators in Separators::all_for(&decoded) {
            for parameters in [Parameters::Kept, Parameters::Stripped] {
                for dots in [Dots::ResolvedLast, Dots::ResolvedFirst, Dots::Kept] {
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

/// The one reading that chooses an upstream: decoded once, slashes merged, dot segments resolved, nothing else.
#[must_use]
pub fn strict_reading(path: &str) -> Reading<'_> {
    if let Some(plain) = plain(path) {
        return Cow::Borrowed(plain);
    }
    let decoded = decode(path.as_bytes());
    Cow::Owned(normalise(&decoded, Separators::default(), Parameters::Kept, Dots::ResolvedLast))
}

/// A reading for people: encoded separators that it keeps as letters are shown encoded.
#[must_use]
pub fn display(reading: &[u8]) -> String {
    let text = reading.escape_ascii().to_string();
    text.replace("\\x01", "%2f").replace("\\x02", "%5c").replace("\\\\", "\\")
}

/// A segment without what some file systems and servers overlook in it.
#[must_use]
pub fn fold_segment(segment: &[u8]) -> &[u8] {
    // NTFS streams: `login.asp::$DATA` is `login.asp`.
    let stream = segment.windows(2).position(|pair| pair == b"::").filter(|&at| at > 0);
    let segment = stream.map_or(segment, |at| &segment[..at]);
    let end = segment.iter().rposition(|&b| b != b'.' && b != b' ').map_or(segment.len(), |at| at + 1);
    &segment[..end]
}

/// An ordinary path as it stands, if no server could read it in two ways; trailing slashes do not count.
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

/// The path as sent, decoded once and decoded twice, each also with overlong and compatibility letters folded,
/// and cut where an encoded `?` or `#` would end it.
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

/// Percent-decoding that keeps an encoded slash or backslash apart from a literal one.
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

/// Overlong UTF-8 (`C0 AF` for a slash) and compatibility letters (full width) as the ASCII that lenient servers
/// make of them; `None` if there is nothing to fold.
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

/// Which bytes separate segments besides `/`.
#[derive(Clone, Copy, Default)]
struct Separators {
    backslash: bool,
    encoded: bool,
}

impl Separators {
    /// The choices that make a difference for these bytes.
    fn all_for(bytes: &[u8]) -> Vec<Self> {
        let has = |wanted: &[u8]| bytes.iter().any(|byte| wanted.contains(byte));
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
enum Parameters {
    Kept,
    Stripped,
}

/// When `.` and `..` are resolved: after doubled slashes were merged, before, or never.
#[derive(Clone, Copy, PartialEq)]
enum Dots {
    ResolvedLast,
    ResolvedFirst,
    Kept,
}

fn normalise(bytes: &[u8], separators: Separators, parameters: Parameters, dots: Dots) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in bytes[1..].split(|&byte| separators.split(byte)) {
        let segment = match parameters {
            Parameters::Kept => segment,
            Parameters::Stripped => segment.split(|&byte| byte == b';').next().unwrap_or_default(),
        };
        match segment {
            b"" if dots != Dots::ResolvedFirst => {}
            b"." if dots != Dots::Kept => {}
            b".." if dots != Dots::Kept => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    joined(&kept)
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

// Control bytes never get this far as themselves, so they are free to mark what was encoded.
const ENCODED_SLASH: u8 = 1;
const ENCODED_BACKSLASH: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reads_as(path: &str, wanted: &str) -> bool {
        check(path).is_ok() && readings(path).iter().any(|reading| &reading[..] == wanted.as_bytes())
    }

    #[test]
    fn an_ordinary_path_has_one_reading_and_is_not_copied() {
        for (path, reading) in
            [("/", "/"), ("/login", "/login"), ("/a/b.php/", "/a/b.php"), ("/A-b_c.9", "/A-b_c.9")]
        {
            assert_eq!(readings(path), [Cow::Borrowed(reading.as_bytes())]);
            assert!(matches!(readings(path)[0], Cow::Borrowed(_)));
        }
    }

    #[test]
    fn every_known_spelling_of_a_form_is_among_its_readings() {
        let spellings = [
            "//login.php",
            "///login.php",
            "/./login.php",
            "/x/../login.php",
            "/%2e/login.php",
            "/x/%2e%2e/login.php",
            "/%6cogin.php",
            "/%6c%6f%67%69%6e%2e%70%68%70",
            "/login%2ephp",
            "/%2flogin.php",
            "/x%2f..%2flogin.php",
            "/login.php;jsessionid=1",
            "/;a=b/login.php",
            "/x;/..;/login.php",
            "/x/..;/login.php",
            "/../../login.php",
            "/%256cogin.php",
            "/%252e%252e/login.php",
            "/login.php.",
            "/login.php%20",
            "/login.php::$DATA",
            "/\\login.php",
            "/x\\..\\login.php",
            "/x%5c..%5clogin.php",
            "/%C0%AFlogin.php",
            "/%E0%80%AFlogin.php",
            "/%EF%BD%8Cogin.php",
            "/(S(abc))/login.php",
            "/login.php%3fx=1",
            "/login.php%23x",
            "/a//../login.php",
            "/x%2fy/../login.php",
            "/x\\y/../login.php",
        ];
        for spelling in spellings {
            assert!(reads_as(spelling, "/login.php"), "{spelling}: {:?}", readings(spelling));
        }
    }

    #[test]
    fn another_path_does_not_read_as_the_form() {
        for path in ["/login.phpx", "/xlogin.php", "/x/login.php", "/login.php/x", "/%2e%2elogin.php"] {
            assert!(!reads_as(path, "/login.php"), "{path}: {:?}", readings(path));
        }
    }

    #[test]
    fn control_bytes_and_broken_encoding_are_refused() {
        for path in ["/a%00", "/a%0a", "/%0D", "/%7f", "/\u{1}"] {
            assert_eq!(check(path), Err(Malformed::ControlByte), "{path:?}");
        }
        for path in ["/%", "/%4", "/%zz", "/%u006c", "/%+1", "/a%-1"] {
            assert_eq!(check(path), Err(Malformed::PercentEncoding), "{path:?}");
        }
        assert_eq!(check("login"), Err(Malformed::NotAPath));
    }

    #[test]
    fn the_strict_reading_resolves_dots_and_nothing_exotic() {
        assert_eq!(&strict_reading("/a/../b//c")[..], b"/b/c");
        assert_eq!(&strict_reading("/%61;x")[..], b"/a;x");
        assert_ne!(&strict_reading("/x%2f..%2flogin")[..], b"/login");
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_a_panic_and_within_bounds(tail in "[/.;%\\\\a-c0-9?#\u{e9}\u{ff0f}]{0,40}") {
            let path = format!("/{tail}");
            if check(&path).is_ok() {
                let all = readings(&path);
                prop_assert!(!all.is_empty() && all.len() <= 240);
                prop_assert!(all.iter().all(|reading| reading[0] == b'/'));
                prop_assert!(strict_reading(&path)[0] == b'/');
            }
        }
    }
}
