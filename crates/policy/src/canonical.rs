//! The readings of a path: every way in which an upstream could read it.
//!
//! One sign-in form has about twenty spellings (`//login.php`, `/x/../login.php`, `/%6cogin.php`, `/login.php;a`). A
//! limit is charged if **any** reading matches; over-matching costs a token, under-matching is a bypass. Nothing here
//! rewrites what is forwarded. Readings contradict each other on purpose: `%2f` is a separator for some servers and a
//! character for others, and an attacker knows the server.
//!
//! The total cost of a path's readings is bounded: [`check`] refuses a path beyond the bound, because reading only some
//! of them would be a bypass.

mod forms;

/// Whether letter case distinguishes paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// `/LOGIN` is `/login`: over-matching costs a token, under-matching is a bypass.
    #[default]
    Insensitive,
    /// `/LOGIN` is another path.
    Sensitive,
}

impl Case {
    pub(super) fn eq(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Self::Sensitive => a == b,
            Self::Insensitive if a.is_ascii() && b.is_ascii() => a.eq_ignore_ascii_case(b),
            Self::Insensitive => {
                let lower = |bytes| String::from_utf8_lossy(bytes).to_lowercase();
                lower(a) == lower(b)
            }
        }
    }

    /// Whether a segment is this name, or the name and an extension.
    pub(super) fn begins(self, segment: &[u8], name: &[u8]) -> bool {
        if segment.len() > name.len() && segment[name.len()] == b'.' {
            return self.eq(&segment[..name.len()], name);
        }
        self.eq(segment, name)
    }
}

#[cfg(test)]
mod oracle;
mod pieces;

use std::borrow::Cow;

use memchr::memchr_iter;
use smallvec::SmallVec;

use self::forms::{decode, encoded_byte, forms};
use self::pieces::{PathPieces, Segments};

/// A path as an upstream may read it: it starts with `/`, and no segment is empty.
pub type Reading<'a> = Cow<'a, [u8]>;

/// Why a path is refused instead of read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Neither `/...` nor `*`.
    #[error("the target is not a path")]
    NotAPath,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("bad percent-encoding in the path")]
    PercentEncoding,
    /// A control byte, raw or percent-encoded.
    #[error("control byte in the path")]
    ControlByte,
    /// See [`TooManyReadings`].
    #[error(transparent)]
    TooManyReadings(#[from] TooManyReadings),
}

/// The readings of a path exceed the bound on their total size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the path can be read in too many ways")]
pub struct TooManyReadings;

/// Refuses paths that servers read differently, with control bytes or broken percent-encoding, and paths with too many
/// readings.
///
/// # Errors
/// See [`PathError`].
pub fn check(path: &str) -> Result<(), PathError> {
    let bytes = path.as_bytes();
    if bytes.first() != Some(&b'/') {
        return Err(PathError::NotAPath);
    }
    if let Some(plain) = plain(path) {
        return Ok(ReadingBudget(MAX_SEGMENTS).take_plain(plain)?);
    }
    // Without an early exit, so that the compiler makes vector instructions of it.
    if bytes.iter().fold(false, |found, &byte| found | is_control(byte)) {
        return Err(PathError::ControlByte);
    }
    for at in memchr_iter(b'%', bytes) {
        if is_control(encoded_byte(bytes, at).ok_or(PathError::PercentEncoding)?) {
            return Err(PathError::ControlByte);
        }
    }
    Ok(for_each_reading(path, |_| ())?)
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7F
}

/// Calls `callback` with the segments of each reading of a path, the plainest first; some may come more than once.
///
/// # Errors
/// [`TooManyReadings`] if some readings were left out. A path that has passed [`check`] has no such error.
pub fn for_each_reading(path: &str, mut callback: impl FnMut(&[&[u8]])) -> Result<(), TooManyReadings> {
    let mut budget = ReadingBudget(MAX_SEGMENTS);
    if let Some(plain) = plain(path) {
        budget.take_plain(plain)?;
        callback(&split(plain));
        return Ok(());
    }
    // A path beyond the bound is not decoded: the path as sent is one of its readings, and a decoded one has at least a
    // third of its length.
    budget.clone().take((path.len() + path.len() / 3) / pieces::BYTES_A_SEGMENT)?;
    for form in forms(path)? {
        PathPieces::of(&form).show_readings(&mut budget, &mut callback)?;
    }
    Ok(())
}

/// The number of segments that may still be read.
#[derive(Clone)]
struct ReadingBudget(usize);

impl ReadingBudget {
    fn take(&mut self, segments: usize) -> Result<(), TooManyReadings> {
        self.0 = self.0.checked_sub(segments).ok_or(TooManyReadings)?;
        Ok(())
    }

    /// For the one reading of a plain path.
    fn take_plain(&mut self, path: &[u8]) -> Result<(), TooManyReadings> {
        self.take(memchr_iter(b'/', path).count())
    }
}

/// All readings of a path, the plainest first, without duplicates; one for an ordinary path, without a copy.
///
/// The path must have passed [`check`].
#[must_use]
pub fn readings(path: &str) -> SmallVec<[Reading<'_>; 1]> {
    let mut all: SmallVec<[Reading<'_>; 1]> = SmallVec::new();
    if let Some(plain) = plain(path) {
        all.push(Cow::Borrowed(plain));
        return all;
    }
    // For an unchecked path the readings up to the bound.
    let _ = for_each_reading(path, |segments| {
        let reading = joined(segments);
        if !all.iter().any(|known| known[..] == reading[..]) {
            all.push(Cow::Owned(reading));
        }
    });
    all
}

/// The strict reading, which chooses an upstream: decoded once, slashes merged, dot segments resolved, nothing else.
#[must_use]
pub fn strict_reading(path: &str) -> Reading<'_> {
    if let Some(plain) = plain(path) {
        return Cow::Borrowed(plain);
    }
    Cow::Owned(joined(&PathPieces::of(&decode(path.as_bytes())).strictly()))
}

/// The segments of a reading.
#[must_use]
pub fn split(reading: &[u8]) -> SmallVec<[&[u8]; 16]> {
    let mut segments = Segments::new();
    // Segments are short: a search for each slash would take longer.
    for segment in reading.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()) {
        segments.push(segment);
    }
    segments
}

/// A reading as text: encoded separators that do not separate are shown encoded.
#[must_use]
pub fn display(reading: &[u8]) -> String {
    let text = reading.escape_ascii().to_string();
    text.replace("\\x01", "%2f").replace("\\x02", "%5c").replace("\\\\", "\\")
}

/// A segment without parts that some file systems and servers ignore.
#[must_use]
pub fn fold_segment(segment: &[u8]) -> &[u8] {
    // NTFS streams: `login.asp::$DATA` is `login.asp`.
    let mut colons = memchr_iter(b':', segment);
    let stream = colons.find(|&at| segment.get(at + 1) == Some(&b':')).filter(|&at| at > 0);
    trim_segment(stream.map_or(segment, |at| &segment[..at]))
}

fn trim_segment(segment: &[u8]) -> &[u8] {
    let end = segment.iter().rposition(|&b| b != b'.' && b != b' ').map_or(segment.len(), |at| at + 1);
    &segment[..end]
}

/// The path itself, if no server could read it in another way; trailing slashes do not count.
fn plain(path: &str) -> Option<&[u8]> {
    let bytes = path.as_bytes();
    // Without an early exit, as in `check`.
    if !bytes.iter().fold(true, |ordinary, &byte| ordinary & is_ordinary(byte)) {
        return None;
    }
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    let is_doubtful = pairs.fold(false, |found, (&byte, &next)| {
        found | ((byte == b'/') & ((next == b'/') | (next == b'.'))) | ((byte == b'.') & (next == b'/'))
    });
    match bytes.last() {
        _ if is_doubtful => None,
        Some(b'.') => None,
        Some(b'/') if bytes.len() > 1 => Some(&bytes[..bytes.len() - 1]),
        _ => Some(bytes),
    }
}

fn is_ordinary(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        | (byte == b'/')
        | (byte == b'_')
        | (byte == b'-')
        | (byte == b'.')
        | (byte == b'~')
        | (byte == b'=')
        | (byte == b'+')
        | (byte == b',')
        | (byte == b'@')
}

/// The path made of these segments.
#[must_use]
pub fn joined(segments: &[&[u8]]) -> Vec<u8> {
    if segments.is_empty() {
        return b"/".to_vec();
    }
    let mut path = Vec::new();
    for segment in segments {
        path.push(b'/');
        path.extend_from_slice(segment);
    }
    path
}

/// Segments of all readings of a path together, at most. Paths of honest clients have one to six readings of a dozen
/// segments.
const MAX_SEGMENTS: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reads_as(path: &str, expected: &str) -> bool {
        check(path).is_ok() && readings(path).iter().any(|reading| &reading[..] == expected.as_bytes())
    }

    #[test]
    fn an_ordinary_path_has_one_reading_and_is_not_copied() {
        for (path, reading) in
            [("/", "/"), ("/login", "/login"), ("/a/b.php/", "/a/b.php"), ("/A-b_c.9", "/A-b_c.9")]
        {
            assert_eq!(&readings(path)[..], [Cow::Borrowed(reading.as_bytes())]);
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
            assert_eq!(check(path), Err(PathError::ControlByte), "{path:?}");
        }
        for path in ["/%", "/%4", "/%zz", "/%u006c", "/%+1", "/a%-1"] {
            assert_eq!(check(path), Err(PathError::PercentEncoding), "{path:?}");
        }
        assert_eq!(check("login"), Err(PathError::NotAPath));
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
                prop_assert!(!all.is_empty() && all.len() <= MAX_SEGMENTS);
                prop_assert!(all.iter().all(|reading| reading[0] == b'/'));
                prop_assert!(strict_reading(&path)[0] == b'/');
            }
        }
    }
}
