//! The values by which a request may name its session: cookies, path parameters and parameters of the query, each in one
//! canonical form.
//!
//! Applications decode cookies in different ways: PHP, Rack and Express `%xx`, Flask and Java quotes and `\ooo`, and
//! old versions of Rack end them at a comma. A client that respells a session must not become a stranger to it. This
//! module keeps and hashes nothing.

use smallvec::SmallVec;

use super::attempt::Attempt;
use super::cookies;
use super::key::TooManyValues;

/// What a request names as sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SessionValues {
    /// Each once, in canonical form.
    pub(super) found: SmallVec<[Vec<u8>; 4]>,
    /// Whether an application could read a session that is not among them, or another one than it reads first.
    pub(super) is_ambiguous: bool,
}

/// A name and a value as they were sent.
type Pair<'a> = (&'a [u8], &'a [u8]);

impl SessionValues {
    /// Those of a request; those of the session's cookie alone, if the request has it.
    ///
    /// # Errors
    /// [`TooManyValues`] beyond [`MAX_SESSIONS`].
    pub(super) fn of(attempt: &Attempt<'_>, cookie: Option<&str>) -> Result<Self, TooManyValues> {
        if let Some(cookie) = cookie {
            let named = Self::called(attempt, |name| is_name(name, cookie), |name| is_name(name, cookie))?;
            if named != Self::default() {
                let times = cookies::pairs(attempt.headers).filter(|(name, _)| is_name(name, cookie)).count();
                return Ok(Self { is_ambiguous: named.is_ambiguous || times > 1, ..named });
            }
        }
        Self::called(attempt, |_| true, has_name_of_session)
    }

    /// Those of cookies with such a name, and of parameters with such a name.
    fn called(
        attempt: &Attempt<'_>,
        is_cookie: impl Fn(&[u8]) -> bool,
        is_parameter: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, TooManyValues> {
        let mut values = Self::default();
        let in_target = path_parameters(attempt.path).chain(parameters(attempt.query.unwrap_or_default()));
        let in_target = in_target.filter(|(name, _)| is_parameter(name));
        let in_cookies = cookies::pairs(attempt.headers).filter(|(name, _)| is_cookie(name));
        in_cookies.chain(in_target).try_for_each(|(_, value)| values.add(value))?;
        Ok(values)
    }

    fn add(&mut self, value: &[u8]) -> Result<(), TooManyValues> {
        if value.len() < MIN_BYTES {
            return Ok(());
        }
        let Some(canonical) = canonical(value) else {
            self.is_ambiguous = true;
            return Ok(());
        };
        if let Some(comma) = canonical.iter().position(|&byte| byte == b',') {
            self.push(canonical[..comma].to_vec());
        }
        self.push(canonical);
        if self.found.len() > MAX_SESSIONS { Err(TooManyValues) } else { Ok(()) }
    }

    fn push(&mut self, value: Vec<u8>) {
        if value.len() >= MIN_BYTES && !self.found.contains(&value) {
            self.found.push(value);
        }
    }
}

/// The canonical form of a value that an answer sets; `None` if it can be no session's.
pub(super) fn canonical_of_new(value: &[u8]) -> Option<Vec<u8>> {
    canonical(value).filter(|value| value.len() >= MIN_BYTES)
}

/// Decodes a value until nothing changes, and folds its case: sessions may be kept in a database that folds it. `None` if
/// that takes too long, or for bytes that no session has.
fn canonical(value: &[u8]) -> Option<Vec<u8>> {
    let value = value.get(..MAX_BYTES).unwrap_or(value);
    // Most values have nothing to decode.
    if value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:=/".contains(byte)) {
        return Some(value.to_ascii_lowercase());
    }
    let mut value = value.to_vec();
    for _ in 0..MAX_ROUNDS {
        let decoded = decode(&value);
        if decoded == value {
            let is_plain = value.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_control());
            return is_plain.then(|| value.to_ascii_lowercase());
        }
        value = decoded;
    }
    None
}

/// One round: without blanks and quotes around, `\ooo` and `\c` (RFC 2109, as Python reads it), and `%xx` as bytes.
fn decode(value: &[u8]) -> Vec<u8> {
    let is_outside = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
    let start = value.iter().position(|byte| !is_outside(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_outside(byte)).map_or(start, |last| last + 1);
    let mut rest = &value[start..end];
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, length) = match (byte, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                ((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'), 4)
            }
            (b'\\', [next, ..]) => (*next, 2),
            (b'%', [high, low, ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high * 16 + low, 3),
                _ => (b'%', 1),
            },
            // Where `+` is a blank, and where it is none.
            (b'+', _) => (b' ', 1),
            (byte, _) => (byte, 1),
        };
        decoded.push(byte);
        rest = &rest[length..];
    }
    decoded
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether a name that was sent could be this one: PHP reads some characters as underscores.
fn is_name(sent: &[u8], name: &str) -> bool {
    let folded = |name: &[u8]| {
        canonical(name).map(|mut name| {
            name.iter_mut().filter(|byte| matches!(byte, b'.' | b' ' | b'[')).for_each(|byte| *byte = b'_');
            name
        })
    };
    folded(sent).is_some_and(|sent| Some(sent) == folded(name.as_bytes()))
}

/// Whether a parameter may name a session: `PHPSESSID`, `jsessionid`, `sid`, `session_key`.
fn has_name_of_session(name: &[u8]) -> bool {
    let name = canonical(name).unwrap_or_default();
    [&b"sess"[..], b"sid"].iter().any(|part| memchr::memmem::find(&name, part).is_some())
}

/// `;name=value` in every segment of a path (RFC 3986, section 3.3).
fn path_parameters(path: &str) -> impl Iterator<Item = Pair<'_>> {
    let segments = path.split('/').filter(|segment| segment.contains(';'));
    segments.flat_map(|segment| segment.split(';').skip(1)).filter_map(pair)
}

fn parameters(query: &str) -> impl Iterator<Item = Pair<'_>> {
    query.split(['&', ';']).filter_map(pair)
}

fn pair(text: &str) -> Option<Pair<'_>> {
    text.split_once('=').map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

/// 64 random bits (OWASP, Session Management Cheat Sheet) in hexadecimal digits. Shorter values are languages and
/// switches, alike for all browsers.
const MIN_BYTES: usize = 16;
/// Bytes of a value that are read.
const MAX_BYTES: usize = 4096;
/// How often a value is decoded.
const MAX_ROUNDS: usize = 8;
/// Values of one message that count at most.
pub(super) const MAX_SESSIONS: usize = 32;

#[cfg(test)]
mod tests {
    use http::header::COOKIE;
    use http::{HeaderMap, HeaderValue, Method};
    use proptest::prelude::*;

    use super::super::attempt::{AttemptBody, Client};
    use super::*;

    fn values(path: &str, query: Option<&str>, cookies: &[&str], name: Option<&str>) -> SessionValues {
        let lines = cookies.iter().map(|line| (COOKIE, HeaderValue::from_bytes(line.as_bytes()).unwrap()));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, line)| _ = headers.append(name, line));
        let attempt = Attempt {
            method: &Method::POST,
            path,
            query,
            host: "",
            client: Client::from_ip([127, 0, 0, 1].into()),
            headers: &headers,
            body: AttemptBody::Unread,
            descriptor: None,
            tls: None,
        };
        SessionValues::of(&attempt, name).unwrap()
    }

    const SESSION: &str = "0123456789abcdef:x";

    #[test]
    fn spellings_of_a_session_are_one() {
        for spelling in [
            SESSION,
            "0123456789ABCDEF:X",
            "%30123456789abcdef%3ax",
            "%2530123456789abcdef:x",
            "\"0123456789abcdef:x\"",
            "\"\\060123456789abcdef\\072x\"",
            " 0123456789abcdef:x%20",
            "%22\\060123456789abcdef:x%22",
            "0123456789abcdef:x,other",
        ] {
            let found = values("/", None, &[&format!("a=1; sid={spelling}")], None).found;
            assert!(found.iter().any(|value| value == SESSION.as_bytes()), "{spelling}: {found:?}");
        }
    }

    #[test]
    fn a_session_in_the_path_or_the_query_is_one() {
        let expected = SessionValues { found: smallvec::smallvec![SESSION.into()], is_ambiguous: false };
        assert_eq!(values("/a;JSESSIONID=0123456789abcdef:x/code", None, &[], None), expected);
        assert_eq!(values("/code", Some("a=b&PHPSESSID=0123456789abcdef%3Ax"), &[], None), expected);
        assert_eq!(values("/code", Some("token=0123456789abcdef"), &[], None), SessionValues::default());
    }

    #[test]
    fn only_the_named_cookie_counts_where_the_file_names_it() {
        let cookies = ["route=balancer-0123456789; PHP%53ESSID=0123456789abcdef:x"];
        let found = values("/", None, &cookies, Some("PHPSESSID"));
        assert_eq!(found, SessionValues { found: smallvec::smallvec![SESSION.into()], is_ambiguous: false });
        assert_eq!(values("/", None, &["my.id=0123456789abcdef:x"], Some("my_id")), found);
        let twice = ["sid=0123456789abcdef:x; sid=fedcba98765432100"];
        assert!(values("/", None, &twice, Some("sid")).is_ambiguous);
    }

    #[test]
    fn what_no_session_is_made_of_is_ambiguous() {
        for value in ["0123456789abcdef\u{901}", "0123456789abcdef%00", "%2525252525252525252541 23456789"] {
            let found = values("/", None, &[&format!("sid={value}")], None);
            assert!(found.is_ambiguous && found.found.is_empty(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_encoding_of_any_letters_is_the_same_session(
            session in "[A-Za-z0-9:._-]{16,40}",
            how in prop::collection::vec(0_u8..4, 40),
        ) {
            let spelled: String = session.bytes().zip(how).map(|(byte, how)| match how {
                0 => format!("%{byte:02x}"),
                1 => format!("\\{byte:03o}"),
                2 => format!("%25{byte:02X}"),
                _ => char::from(byte).to_string(),
            }).collect();
            prop_assert_eq!(canonical(spelled.as_bytes()), canonical(session.as_bytes()));
            prop_assert!(canonical(session.as_bytes()).is_some());
        }
    }
}
