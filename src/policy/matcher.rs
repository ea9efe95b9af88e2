//! Which requests are attempts: `METHOD PATH?parameter=value` and host patterns.
//!
//! Matching is a security boundary. A pattern is held against every [reading](super::canonical) of a path; method
//! and parameters are read as widely. It never decides where a request goes: see [`Pattern::matches_strictly`].

use super::attempt::Attempt;
use super::canonical::fold_segment;
use super::query::{self, Parameters};
use http::Method;

/// One entry of a route's `match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    method: MethodRule,
    segments: Vec<Segment>,
    parameters: Vec<(String, Option<String>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MethodRule {
    Any,
    /// `POST`: every method that can carry a form. Applications take PUT or invented methods for it.
    Write,
    Exact(Method),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(Vec<u8>),
    One,
    Rest,
}

/// Why a text is not a pattern; the words are the message that the writer of the file sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not two words.
    #[error("a match is a method and a path, as in \"POST /login\"")]
    TwoWords,
    /// The method is not a token (RFC 9110, 5.6.2).
    #[error("`{0}` is not a method")]
    Method(String),
    /// The path does not start with a slash.
    #[error("the path `{0}` does not start with `/`")]
    Path(String),
    /// An asterisk beside other letters.
    #[error("`{0}` mixes `*` with letters: `*` stands for one whole segment, `**` for any rest")]
    Glob(String),
    /// A path that no request could have after it was read.
    #[error("the path `{0}` can never match: write it decoded, without empty or dot segments")]
    NeverMatches(String),
    /// Requests with this method are never counted.
    #[error("OPTIONS is never counted")]
    Options,
}

impl Pattern {
    /// Whether a reading of the attempt's path, cut into its segments, fits.
    #[must_use]
    pub fn matches(&self, attempt: &Attempt<'_>, reading: &[&[u8]], as_write: bool, case: Case) -> bool {
        self.fits_but_for_path(attempt, &Parameters::of(attempt.query), as_write, case)
            && self.fits_path(reading, case)
    }

    /// Whether all that is the same for every reading fits: to be asked first, and once.
    pub(super) fn fits_but_for_path(
        &self,
        attempt: &Attempt<'_>,
        parameters: &Parameters<'_>,
        as_write: bool,
        case: Case,
    ) -> bool {
        self.method.fits(attempt.method, as_write) && self.parameters_fit(parameters, case)
    }

    /// Whether a reading of a path, cut into its segments, fits.
    pub(super) fn fits_path(&self, reading: &[&[u8]], case: Case) -> bool {
        path_fits(&self.segments, reading, &Widely(case))
    }

    /// Whether the segments of the one strict reading fit, letter for letter: this may choose an upstream.
    #[must_use]
    pub fn matches_strictly(&self, attempt: &Attempt<'_>, strict: &[&[u8]]) -> bool {
        self.method.fits(attempt.method, false)
            && path_fits(&self.segments, strict, &Strictly)
            && self.parameters_fit(&Parameters::of(attempt.query), Case::Sensitive)
    }

    fn parameters_fit(&self, parameters: &Parameters<'_>, case: Case) -> bool {
        self.parameters.iter().all(|(name, value)| {
            parameters.pairs().iter().any(|(given, found)| {
                given == name && value.as_ref().is_none_or(|value| value_fits(value, found, case))
            })
        })
    }
}

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
    fn eq(self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Self::Sensitive => a == b,
            Self::Insensitive if a.is_ascii() && b.is_ascii() => a.eq_ignore_ascii_case(b),
            Self::Insensitive => {
                let lower = |bytes| String::from_utf8_lossy(bytes).to_lowercase();
                lower(a) == lower(b)
            }
        }
    }
}

impl MethodRule {
    fn fits(&self, method: &Method, as_write: bool) -> bool {
        if method == Method::OPTIONS {
            return false;
        }
        let reads = method == Method::GET || method == Method::HEAD;
        match self {
            Self::Any => true,
            Self::Write => !reads || as_write,
            // Taken as a write it is no page: a route for pages must not come before the one for the form.
            Self::Exact(exact) if exact == Method::GET => reads && !as_write,
            Self::Exact(exact) => exact.as_str().eq_ignore_ascii_case(method.as_str()) || as_write,
        }
    }
}

/// How closely a path is looked at.
trait Eyes {
    /// Whether a segment is what the pattern names.
    fn same(&self, literal: &[u8], segment: &[u8]) -> bool;
    /// Whether anything may follow once the whole pattern has matched these segments.
    fn overlook_rest(&self, pattern: &[Segment], matched: &[&[u8]]) -> bool;
}

/// As the most lenient server would, to count.
struct Widely(Case);

/// Letter for letter, to choose an upstream.
struct Strictly;

impl Eyes for Widely {
    fn same(&self, literal: &[u8], segment: &[u8]) -> bool {
        may_fit(literal, segment) && literal_fits(literal, segment, self.0)
    }

    fn overlook_rest(&self, pattern: &[Segment], matched: &[&[u8]]) -> bool {
        ends_in_script(pattern, matched)
    }
}

impl Eyes for Strictly {
    fn same(&self, literal: &[u8], segment: &[u8]) -> bool {
        literal == segment
    }

    fn overlook_rest(&self, _: &[Segment], _: &[&[u8]]) -> bool {
        false
    }
}

/// Wildcard matching with one point to come back to, so that no path takes more than length times length steps.
///
/// Applications hand `/login.php/anything` to `/login.php`: where a script stands in the pattern or in the path,
/// any rest may follow it.
fn path_fits(pattern: &[Segment], segments: &[&[u8]], eyes: &impl Eyes) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        if p == pattern.len() && (s == segments.len() || eyes.overlook_rest(pattern, &segments[..s])) {
            return true;
        }
        let fits = match (pattern.get(p), segments.get(s)) {
            (Some(Segment::Rest), _) if p + 1 == pattern.len() => return true,
            (Some(Segment::Rest), _) => {
                back = Some((p, s));
                p += 1;
                continue;
            }
            (Some(Segment::One), Some(_)) => true,
            (Some(Segment::Literal(literal)), Some(segment)) => eyes.same(literal, segment),
            _ => false,
        };
        if fits {
            (p, s) = (p + 1, s + 1);
        } else if let Some((rest, from)) = back.filter(|&(_, from)| from < segments.len()) {
            back = Some((rest, from + 1));
            (p, s) = (rest + 1, from + 1);
        } else {
            return false;
        }
    }
}

/// Whether a closer look is worth it: names that differ before any dot or tilde are two for every server.
fn may_fit(literal: &[u8], segment: &[u8]) -> bool {
    for (at, &wanted) in literal.iter().enumerate() {
        match segment.get(at) {
            None => return !wanted.is_ascii_alphanumeric(),
            Some(b'.' | b'~' | 0x80..) => return true,
            Some(_) if matches!(wanted, b'.' | b' ' | 0x80..) => return true,
            Some(found) if !found.eq_ignore_ascii_case(&wanted) => return false,
            Some(_) => {}
        }
    }
    segment.get(literal.len()).is_none_or(|next| matches!(next, b'.' | b'~' | 0x80..))
}

fn ends_in_script(pattern: &[Segment], matched: &[&[u8]]) -> bool {
    let named = matches!(pattern.last(), Some(Segment::Literal(literal)) if script_stem(literal).is_some());
    named || matched.last().is_some_and(|segment| script_stem(segment).is_some())
}

/// `login` and `login.php` are one place where a server negotiates (Apache's MultiViews, `php -S`).
fn literal_fits(literal: &[u8], segment: &[u8], case: Case) -> bool {
    if case.eq(literal, segment) {
        return true;
    }
    match (script_stem(literal), script_stem(segment)) {
        (Some(stem), None) => case.eq(stem, segment) || short_name_fits(literal, segment),
        (None, Some(stem)) => case.eq(literal, stem) || short_name_fits(literal, segment),
        _ => short_name_fits(literal, segment),
    }
}

/// Windows' short names: `SIGN-I~1.ASP` is the first of the files that start so.
fn short_name_fits(literal: &[u8], segment: &[u8]) -> bool {
    let Some(tilde) = memchr::memchr(b'~', segment) else { return false };
    let (start, rest) = segment.split_at(tilde);
    let long: Vec<u8> = literal.iter().copied().filter(|&b| b != b' ').collect();
    rest.get(1).is_some_and(u8::is_ascii_digit)
        && !start.is_empty()
        && long.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// A script's name without its extension.
fn script_stem(segment: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memrchr(b'.', segment).filter(|&at| at > 0)?;
    let extension = &segment[dot + 1..];
    let is_script = SCRIPTS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(extension));
    is_script.then(|| &segment[..dot])
}

fn value_fits(wanted: &str, found: &str, case: Case) -> bool {
    case.eq(wanted.as_bytes(), found.as_bytes())
        || case.eq(wanted.as_bytes(), query::decode(found).as_bytes())
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [method, target] = words[..] else { return Err(PatternError::TwoWords) };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return Err(PatternError::Path(path.into()));
        }
        let segments = path.split('/').skip(1).filter(|segment| !segment.is_empty());
        let segments = segments.map(|segment| parse_segment(segment, path)).collect::<Result<_, _>>()?;
        Ok(Self { method: parse_method(method)?, segments, parameters: parse_parameters(query) })
    }
}

fn parse_method(word: &str) -> Result<MethodRule, PatternError> {
    match word {
        "ANY" => Ok(MethodRule::Any),
        "POST" => Ok(MethodRule::Write),
        "OPTIONS" => Err(PatternError::Options),
        "HEAD" => Ok(MethodRule::Exact(Method::GET)),
        _ if word.bytes().any(|byte| byte.is_ascii_lowercase()) => Err(PatternError::Method(word.into())),
        _ => Method::from_bytes(word.as_bytes())
            .map(MethodRule::Exact)
            .map_err(|_| PatternError::Method(word.into())),
    }
}

fn parse_segment(segment: &str, path: &str) -> Result<Segment, PatternError> {
    match segment {
        "*" => Ok(Segment::One),
        "**" => Ok(Segment::Rest),
        _ if segment.contains('*') => Err(PatternError::Glob(segment.into())),
        "." | ".." => Err(PatternError::NeverMatches(path.into())),
        _ if segment.contains(['%', '\\', '#', ';']) => Err(PatternError::NeverMatches(path.into())),
        _ => Ok(Segment::Literal(fold_segment(segment.as_bytes()).to_vec())),
    }
}

fn parse_parameters(query: &str) -> Vec<(String, Option<String>)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let parts = parts.map(|part| match part.split_once('=') {
        Some((name, "*")) => (query::fold_name(name), None),
        Some((name, value)) => (query::fold_name(name), Some(value.to_owned())),
        None => (query::fold_name(part), None),
    });
    parts.collect()
}

/// An entry of a route's `host`: a name, or `*.` and a name for everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    name: String,
    below: bool,
}

impl HostPattern {
    /// A pattern from its text; `None` if it is not a host name.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':' | b'[' | b']'));
        is_name.then_some(Self { name, below })
    }

    /// Whether a host, in lower case and without port, is meant.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        match host.strip_suffix(self.name.as_str()) {
            Some("") => !self.below,
            Some(front) => self.below && front.len() > 1 && front.ends_with('.'),
            None => false,
        }
    }
}

const SCRIPTS: [&str; 24] = [
    "php", "php3", "php4", "php5", "php7", "php8", "phtml", "phar", "cgi", "fcgi", "pl", "py", "rb", "asp",
    "aspx", "ashx", "asmx", "jsp", "jspx", "do", "action", "cfm", "html", "htm",
];

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use http::HeaderMap;
    use proptest::prelude::*;

    use super::super::attempt::Body;
    use super::super::attempt::Client;
    use super::super::canonical::{readings, split};
    use super::*;

    fn fits(pattern: &str, method: &str, path: &str, query: Option<&str>, case: Case) -> bool {
        let (method, headers) = (Method::from_bytes(method.as_bytes()).unwrap(), HeaderMap::new());
        let client = Client::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let attempt =
            Attempt { method: &method, path, query, host: "", client, headers: &headers, body: Body::Unread };
        let pattern: Pattern = pattern.parse().unwrap();
        readings(path)
            .iter()
            .any(|reading| pattern.matches(&attempt, &split(reading), attempt.could_be_a_write(), case))
    }

    fn takes(pattern: &str, request: &str) -> bool {
        let (method, target) = request.split_once(' ').unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        fits(pattern, method, path, query, Case::Insensitive)
    }

    #[test]
    fn asterisks_stand_for_one_segment_or_any_rest() {
        for (pattern, request, wanted) in [
            ("ANY /api/*/session", "GET /api/v1/session", true),
            ("ANY /api/*/session", "GET /api/v1/x/session", false),
            ("ANY /api/*/session", "GET /api/session", false),
            ("ANY /app/**", "GET /app", true),
            ("ANY /app/**", "GET /app/a/b/c", true),
            ("ANY /app/**", "GET /apple", false),
            ("POST /**/j_security_check", "POST /j_security_check", true),
            ("POST /**/j_security_check", "POST /a/j_security_check/b/j_security_check", true),
            ("POST /**/j_security_check", "POST /a/j_security_checks", false),
            ("ANY /a/**/b/**/c", "GET /a/x/b/b/y/c", true),
            ("ANY /a/**/b/**/c", "GET /a/x/c", false),
            ("ANY /", "GET /", true),
            ("ANY /", "GET /x", false),
        ] {
            assert_eq!(takes(pattern, request), wanted, "{pattern} for {request}");
        }
    }

    #[test]
    fn post_is_every_method_that_can_carry_a_form_and_options_is_none() {
        for (method, wanted) in [
            ("POST", true),
            ("PUT", true),
            ("post", true),
            ("BREW", true),
            ("GET", false),
            ("HEAD", false),
            ("OPTIONS", false),
        ] {
            assert_eq!(takes("POST /login", &format!("{method} /login")), wanted, "{method}");
        }
        assert!(takes("GET /login", "HEAD /login") && !takes("ANY /login", "OPTIONS /login"));
        assert!(takes("POST /login", "GET /login?password=x"), "credentials in the query");
    }

    #[test]
    fn parameters_that_a_pattern_names_have_to_be_there() {
        for (request, wanted) in [
            ("POST /index.php?page=login", true),
            ("POST /index.php?x=1&p%61ge=LOGIN", true),
            ("POST /index.php?page=lo%67in&page=other", true),
            ("POST /index.php?page=other", false),
            ("POST /index.php", false),
        ] {
            assert_eq!(takes("POST /index.php?page=login", request), wanted, "{request}");
        }
        assert!(takes("POST /?do", "POST /?do=anything") && !takes("POST /?do", "POST /?dot=1"));
    }

    #[test]
    fn letter_case_counts_only_where_it_is_said_to() {
        assert!(fits("POST /login", "POST", "/LogIn", None, Case::Insensitive));
        assert!(!fits("POST /login", "POST", "/LogIn", None, Case::Sensitive));
        assert!(fits("POST /b\u{fc}ro", "POST", "/B%C3%9CRO", None, Case::Insensitive));
    }

    #[test]
    fn a_text_that_can_never_match_is_refused_with_its_reason() {
        let error = |text: &str| text.parse::<Pattern>().unwrap_err();
        assert_eq!(error("/login"), PatternError::TwoWords);
        assert_eq!(error("post /login"), PatternError::Method("post".into()));
        assert_eq!(error("POST login"), PatternError::Path("login".into()));
        assert_eq!(error("POST /*.php"), PatternError::Glob("*.php".into()));
        assert_eq!(error("POST /a/../b"), PatternError::NeverMatches("/a/../b".into()));
        assert_eq!(error("POST /%61"), PatternError::NeverMatches("/%61".into()));
        assert_eq!(error("OPTIONS /"), PatternError::Options);
    }

    proptest! {
        #[test]
        fn what_fits_after_a_closer_look_is_worth_one(
            literal in "[abA. \u{212a}k]{1,5}([.](php|ASP))?", segment in "[abA.~1 \u{212a}k]{1,5}([.](php|asp|json))?",
        ) {
            for segment in [segment.clone(), format!("{literal}{segment}"), literal.to_uppercase(), format!("{literal}.php")] {
                for case in [Case::Sensitive, Case::Insensitive] {
                    let (literal, segment) = (literal.as_bytes(), segment.as_bytes());
                    prop_assert!(literal_fits(literal, segment, case) <= may_fit(literal, segment), "{segment:?}");
                }
            }
        }
    }

    #[test]
    fn a_host_is_a_name_or_everything_below_one() {
        let matches = |pattern: &str, host: &str| HostPattern::new(pattern).unwrap().matches(host);
        assert!(matches("Example.org.", "example.org") && !matches("example.org", "www.example.org"));
        assert!(matches("*.example.org", "a.b.example.org") && !matches("*.example.org", "example.org"));
        assert!(!matches("*.example.org", "badexample.org") && !matches("*.example.org", ".example.org"));
        assert!(
            HostPattern::new("a b").is_none()
                && HostPattern::new("").is_none()
                && HostPattern::new("*").is_none()
        );
    }
}
