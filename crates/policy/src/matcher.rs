//! Patterns: `METHOD PATH?parameter=value`, `rls:DOMAIN`, `policy:PROTOCOL` and hosts, which decide what requests are attempts.
//!
//! Matching is a security boundary. A pattern is matched against every [reading](super::canonical) of a path; method
//! and parameters are read as leniently. The lenient match never decides where a request goes: see
//! [`Pattern::matches_strictly`].

use std::fmt;

use http::Method;
use memchr::{memchr3, memrchr};

use super::attempt::Attempt;
use super::canonical::{Case, fold_segment, split};
use super::descriptor::{Descriptor, DescriptorPattern};
use super::file_name::{could_be_index, format_stem, is_short_name, script_stem, takes_a_path};
pub use super::method::MethodReading;
use super::method::{MethodReadings, MethodRule};
use super::query::{self, ParameterPattern, QueryParameters};

/// One entry of a route's `match`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    method: MethodRule,
    segments: Vec<Segment>,
    /// The segments without scripts that may be left out: indexes and front controllers.
    bare: Option<Vec<Segment>>,
    /// The parameters, in alphabetical order.
    parameters: Vec<ParameterPattern>,
    /// What a descriptor has to say; `None` for a pattern of requests.
    descriptor: Option<DescriptorPattern>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Segment {
    Literal(Vec<u8>),
    One,
    Rest,
}

impl Segment {
    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }
}

/// Why a text is not a pattern; the display text is the message to the author of the file.
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
    /// An asterisk among other characters.
    #[error("`{0}` mixes `*` with letters: `*` stands for one whole segment, `**` for any rest")]
    Glob(String),
    /// A path that no decoded request path can equal.
    #[error("the path `{0}` can never match: write it decoded, without empty or dot segments")]
    NeverMatches(String),
    /// `OPTIONS`, which counts wherever `POST` does.
    #[error("OPTIONS is counted wherever POST is, and nowhere else")]
    Options,
    /// `rls:` without a domain, or with an empty entry.
    #[error("a match of descriptors is `rls:DOMAIN`, `rls:DOMAIN/VALUE` or `rls:DOMAIN/KEY=VALUE`")]
    Descriptor,
    /// `policy:` without a protocol.
    #[error("a match of Dovecot's questions is `policy:PROTOCOL` or `policy:*`")]
    Protocol,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// All errors of the text, at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<PatternError>> {
        if let Some(domain) = text.strip_prefix("rls:") {
            let pattern = DescriptorPattern::of_domain(domain).map(Self::of_descriptors);
            return pattern.ok_or_else(|| vec![PatternError::Descriptor]);
        }
        if let Some(protocol) = text.strip_prefix("policy:") {
            let pattern = DescriptorPattern::of_protocol(protocol).map(Self::of_descriptors);
            return pattern.ok_or_else(|| vec![PatternError::Protocol]);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let [method, target] = words[..] else { return Err(vec![PatternError::TwoWords]) };
        let mut errors = Vec::new();
        let method = parse_method(method).map_err(|error| errors.push(error));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments = parse_path(path, &mut errors);
        errors.dedup();
        match method {
            Ok(method) if errors.is_empty() => {
                let bare = without_scripts(&segments);
                let parameters = parse_parameters(query);
                Ok(Self { method, segments, bare, parameters, descriptor: None })
            }
            _ => Err(errors),
        }
    }

    /// A pattern that fits these descriptors, whatever request they are about.
    fn of_descriptors(descriptor: DescriptorPattern) -> Self {
        let (method, segments) = (MethodRule::Any, vec![Segment::Rest]);
        Self { method, segments, bare: None, parameters: Vec::new(), descriptor: Some(descriptor) }
    }

    /// Whether it matches everything that the other pattern matches, as far as their texts show.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let path = || -> Vec<u8> {
            let segments = other.segments.iter().flat_map(|segment| match segment {
                Segment::Literal(literal) => [b"/", &literal[..]].concat(),
                // A literal never contains an asterisk.
                Segment::One | Segment::Rest => b"/*".to_vec(),
            });
            segments.collect()
        };
        let is_within = self.segments == [Segment::Rest]
            || (!other.segments.contains(&Segment::Rest)
                && path_fits(&self.segments, &split(&path()), &StrictMatcher));
        self.descriptor == other.descriptor
            && self.method.covers(&other.method)
            && (self.segments == other.segments || is_within)
            && self.parameters.iter().all(|parameter| other.parameters.contains(parameter))
    }

    /// Whether a reading of the attempt's path, split into segments, fits.
    #[must_use]
    pub fn matches(
        &self,
        attempt: &Attempt<'_>,
        reading: &[&[u8]],
        method_reading: MethodReading,
        case: Case,
    ) -> bool {
        let parameters = QueryParameters::in_query(attempt.query, &self.parameters);
        self.fits_but_for_path(attempt, &parameters, method_reading, case)
            && self.fits_path(attempt.path, reading, case)
    }

    /// Whether everything but the path fits: checked first, and once for all readings of the path.
    pub(super) fn fits_but_for_path(
        &self,
        attempt: &Attempt<'_>,
        parameters: &QueryParameters<'_, '_>,
        method_reading: MethodReading,
        case: Case,
    ) -> bool {
        self.fits_descriptor(attempt)
            && self.method.fits(attempt.method, method_reading)
            && self.parameters_fit(parameters, case)
    }

    /// Whether it is a pattern for what the attempt is: a request, or a descriptor with or without one.
    fn fits_descriptor(&self, attempt: &Attempt<'_>) -> bool {
        match (&self.descriptor, attempt.descriptor) {
            (Some(pattern), descriptor) => descriptor.is_some_and(|descriptor| pattern.fits(descriptor)),
            (None, descriptor) => descriptor.is_none_or(Descriptor::names_a_path),
        }
    }

    /// Whether it is a pattern of descriptors.
    #[must_use]
    pub fn is_of_descriptors(&self) -> bool {
        self.descriptor.is_some()
    }

    /// Whether it is a pattern of descriptors that Dovecot sends.
    #[must_use]
    pub fn is_of_protocols(&self) -> bool {
        self.descriptor.as_ref().is_some_and(DescriptorPattern::is_of_protocols)
    }

    /// Whether a reading of the path `sent`, split into segments, fits.
    pub(super) fn fits_path(&self, sent: &str, reading: &[&[u8]], case: Case) -> bool {
        path_fits(&self.segments, reading, &LenientMatcher(case)) || self.fits_bare(sent, reading, case)
    }

    /// Whether the method alone could fit: saves reading the paths of requests that no pattern matches.
    pub(super) fn could_match(&self, method: &Method, readings: MethodReadings) -> bool {
        MethodReading::ALL
            .into_iter()
            .any(|reading| readings.has(reading) && self.method.fits(method, reading))
    }

    /// Whether it names this method, so that no application has to take it for another one.
    pub(super) fn names_method(&self, method: &Method) -> bool {
        self.method.fits(method, MethodReading::AsSent)
    }

    /// Whether the segments of the strict reading fit exactly: this may choose an upstream.
    #[must_use]
    pub fn matches_strictly(&self, attempt: &Attempt<'_>, strict: &[&[u8]]) -> bool {
        let parameters = QueryParameters::in_query(attempt.query, &self.parameters);
        self.fits_strictly(attempt.method, &parameters, strict)
    }

    pub(super) fn fits_strictly(
        &self,
        method: &Method,
        parameters: &QueryParameters<'_, '_>,
        strict: &[&[u8]],
    ) -> bool {
        self.descriptor.is_none()
            && self.method.fits(method, MethodReading::AsSent)
            && path_fits(&self.segments, strict, &StrictMatcher)
            && self.parameters_fit(parameters, Case::Sensitive)
    }

    /// Whether the pattern fits without its scripts: `/admin/` is `/admin/index.php`, and `/login` may be
    /// `/index.php/login`. If the pattern then ends in a wildcard, only a path that was sent as a directory fits: not
    /// every path is an index.
    fn fits_bare(&self, sent: &str, reading: &[&[u8]], case: Case) -> bool {
        let Some(bare) = &self.bare else { return false };
        let is_any = bare.last().is_some_and(|last| !last.is_literal());
        (!is_any || could_be_directory(sent)) && path_fits(bare, reading, &LenientMatcher(case))
    }

    fn parameters_fit(&self, parameters: &QueryParameters<'_, '_>, case: Case) -> bool {
        self.parameters.iter().all(|parameter| parameters.fit(parameter, case))
    }

    pub(super) fn parameters(&self) -> &[ParameterPattern] {
        &self.parameters
    }
}

/// How strictly segments are compared.
trait SegmentMatcher {
    /// Whether a segment fits a literal of the pattern.
    fn matches_segment(&self, literal: &[u8], segment: &[u8]) -> bool;
    /// Whether any rest may follow after the whole pattern has matched these segments.
    fn allows_rest(&self, pattern: &[Segment], matched: &[&[u8]]) -> bool;
}

/// Compares as the most lenient server does, for counting.
struct LenientMatcher(Case);

/// Compares exactly, for choosing an upstream.
struct StrictMatcher;

impl SegmentMatcher for LenientMatcher {
    fn matches_segment(&self, literal: &[u8], segment: &[u8]) -> bool {
        literal == segment || (may_fit(literal, segment) && literal_fits(literal, segment, self.0))
    }

    fn allows_rest(&self, pattern: &[Segment], matched: &[&[u8]]) -> bool {
        ends_in_script(pattern, matched)
    }
}

impl SegmentMatcher for StrictMatcher {
    fn matches_segment(&self, literal: &[u8], segment: &[u8]) -> bool {
        literal == segment
    }

    fn allows_rest(&self, _: &[Segment], _: &[&[u8]]) -> bool {
        false
    }
}

/// Wildcard matching with a single point to backtrack to: at most the product of both lengths in steps.
///
/// Servers pass `/login.php/anything` to `/login.php`: after a script in the pattern or in the path, any rest may
/// follow.
fn path_fits(pattern: &[Segment], segments: &[&[u8]], matcher: &impl SegmentMatcher) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        if p == pattern.len() && (s == segments.len() || matcher.allows_rest(pattern, &segments[..s])) {
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
            (Some(Segment::Literal(literal)), Some(segment)) => matcher.matches_segment(literal, segment),
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

/// A quick check before [`literal_fits`]: names that differ before any dot or tilde differ for every server.
fn may_fit(literal: &[u8], segment: &[u8]) -> bool {
    for (at, &expected) in literal.iter().enumerate() {
        match segment.get(at) {
            None => return !expected.is_ascii_alphanumeric(),
            Some(b'.' | b'~' | 0x80..) => return true,
            Some(_) if matches!(expected, b'.' | b' ' | 0x80..) => return true,
            Some(found) if !found.eq_ignore_ascii_case(&expected) => return false,
            Some(_) => {}
        }
    }
    segment.get(literal.len()).is_none_or(|next| matches!(next, b'.' | b'~' | 0x80..))
}

fn ends_in_script(pattern: &[Segment], matched: &[&[u8]]) -> bool {
    let named = matches!(pattern.last(), Some(Segment::Literal(literal)) if script_stem(literal).is_some());
    named || matched.last().is_some_and(|segment| script_stem(segment).is_some())
}

/// Whether a segment fits a literal. `login` and `login.php` are the same for a server that negotiates (Apache's
/// MultiViews, `php -S`), and `login.json` is `login` for a router that accepts a format after its paths (Rails,
/// Spring).
fn literal_fits(literal: &[u8], segment: &[u8], case: Case) -> bool {
    case.begins(segment, literal)
        || script_stem(literal).is_some_and(|stem| case.eq(stem, segment))
        || format_stem(literal).is_some_and(|stem| case.begins(segment, stem))
        || is_short_name(segment, literal)
}

/// Whether a server could read the path as sent as a directory: it ends in a slash, or in what may be one.
fn could_be_directory(sent: &str) -> bool {
    let last = memrchr(b'/', sent.as_bytes()).map_or(sent, |at| &sent[at + 1..]).as_bytes();
    !last.last().is_some_and(u8::is_ascii_alphanumeric) || memchr3(b'%', b';', b'\\', last).is_some()
}

/// The segments of a pattern without front controllers and without an index at the end; `None` if it has none of these.
fn without_scripts(segments: &[Segment]) -> Option<Vec<Segment>> {
    let mut bare = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let rest = &segments[at + 1..];
        match segment {
            Segment::Literal(name) if could_be_index(name) && rest.iter().all(|s| *s == Segment::Rest) => {
                break;
            }
            Segment::Literal(name) if takes_a_path(name) && rest.iter().any(Segment::is_literal) => {}
            _ => bare.push(segment.clone()),
        }
    }
    (bare.len() < segments.len()).then_some(bare)
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text).map_err(|errors| errors.into_iter().next().unwrap_or(PatternError::TwoWords))
    }
}

fn parse_path(path: &str, errors: &mut Vec<PatternError>) -> Vec<Segment> {
    if !path.starts_with('/') {
        errors.push(PatternError::Path(path.into()));
        return Vec::new();
    }
    let segments = path.split('/').skip(1).filter(|segment| !segment.is_empty());
    let segments = segments.map(|segment| parse_segment(segment, path));
    segments.filter_map(|segment| segment.map_err(|error| errors.push(error)).ok()).collect()
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

fn parse_parameters(query: &str) -> Vec<ParameterPattern> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let parts = parts.map(|part| match part.split_once('=') {
        Some((name, "*")) => (query::fold_name(name), None),
        Some((name, value)) => (query::fold_name(name), Some(value.to_owned())),
        None => (query::fold_name(part), None),
    });
    let mut parameters: Vec<ParameterPattern> = parts.collect();
    parameters.sort_unstable();
    parameters
}

/// An entry of a route's `host`: a name, or `*.` and a name for everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    name: String,
    below: bool,
}

impl HostPattern {
    /// Parses a host pattern; `None` if it is not a host name.
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

    /// The name that it matches, or that the hosts are below.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name that the hosts are below; `None` if it matches one host.
    pub(super) fn parent(&self) -> Option<&str> {
        self.below.then_some(&self.name)
    }

    /// Whether it matches a host, in lower case and without port.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        match host.strip_suffix(self.name.as_str()) {
            Some("") => !self.below,
            Some(front) => self.below && front.len() > 1 && front.ends_with('.'),
            None => false,
        }
    }
}

/// As it is written in a file.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use http::HeaderMap;
    use proptest::prelude::*;

    use super::super::attempt::AttemptBody;
    use super::super::attempt::Client;
    use super::super::canonical::{readings, split};
    use super::*;

    fn fits(pattern: &str, method: &str, path: &str, query: Option<&str>, case: Case) -> bool {
        let (method, headers) = (Method::from_bytes(method.as_bytes()).unwrap(), HeaderMap::new());
        let client = Client::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let attempt = Attempt {
            method: &method,
            path,
            query,
            host: "",
            client,
            headers: &headers,
            body: AttemptBody::Unread,
            descriptor: None,
            tls: None,
        };
        let pattern: Pattern = pattern.parse().unwrap();
        readings(path)
            .iter()
            .any(|reading| pattern.matches(&attempt, &split(reading), MethodReading::AsSent, case))
    }

    fn takes(pattern: &str, request: &str) -> bool {
        let (method, target) = request.split_once(' ').unwrap();
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        fits(pattern, method, path, query, Case::Insensitive)
    }

    #[test]
    fn asterisks_stand_for_one_segment_or_any_rest() {
        for (pattern, request, expected) in [
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
            assert_eq!(takes(pattern, request), expected, "{pattern} for {request}");
        }
    }

    #[test]
    fn post_is_every_method_that_can_carry_a_form() {
        for (method, expected) in [
            ("POST", true),
            ("PUT", true),
            ("post", true),
            ("BREW", true),
            ("OPTIONS", true),
            ("GET", false),
            ("HEAD", false),
        ] {
            assert_eq!(takes("POST /login", &format!("{method} /login")), expected, "{method}");
        }
        assert!(takes("GET /login", "HEAD /login") && takes("ANY /login", "OPTIONS /login"));
        assert!(!takes("GET /login", "OPTIONS /login"));
    }

    #[test]
    fn parameters_that_a_pattern_names_have_to_be_there() {
        for (request, expected) in [
            ("POST /index.php?page=login", true),
            ("POST /index.php?x=1&p%61ge=LOGIN", true),
            ("POST /index.php?page=lo%67in&page=other", true),
            ("POST /index.php?page=other", false),
            ("POST /index.php", false),
        ] {
            assert_eq!(takes("POST /index.php?page=login", request), expected, "{request}");
        }
        assert!(takes("POST /?do", "POST /?do=anything") && !takes("POST /?do", "POST /?dot=1"));
    }

    #[test]
    fn a_pattern_with_an_index_or_a_front_controller_fits_without_them() {
        for (pattern, request, expected) in [
            ("POST /a/index.php", "POST /a/", true),
            ("POST /a/home.html", "POST /a", true),
            ("POST /a/index.php", "POST /a/b", false),
            ("POST /a/login.php", "POST /a/", false),
            ("POST /index.php?p=login", "POST /?p=login", true),
            ("POST /index.php?p=login", "POST /?p=other", false),
            ("POST /a/index.php/**", "POST /a/", true),
            ("POST /a/index.php/**", "POST /a/b", false),
            ("POST /app.php/login", "POST /login", true),
            ("POST /app.php/a/index.php", "POST /a", true),
            ("POST /app.php/*", "POST /login", false),
            ("POST /*/index.php", "POST /a/", true),
            ("POST /*/index.php", "POST /a/;x", true),
            ("POST /*/index.php", "POST /a", false),
            ("POST /**/index.php", "POST /a/b", false),
            ("POST /**/login/index.php", "POST /x/login", true),
        ] {
            assert_eq!(takes(pattern, request), expected, "{pattern} for {request}");
        }
    }

    #[test]
    fn an_extension_may_follow_a_name_and_a_format_may_be_left_out() {
        for (pattern, request, expected) in [
            ("POST /login", "POST /login.json", true),
            ("POST /login", "POST /login.a.b", true),
            ("POST /login", "POST /logins.json", false),
            ("POST /login.json", "POST /login", true),
            ("POST /login.json", "POST /login.xml", true),
            ("POST /login.php", "POST /login", true),
            ("POST /login.php", "POST /login.css", false),
            ("POST /b\u{fc}ro", "POST /B%C3%9CRO.json", true),
        ] {
            assert_eq!(takes(pattern, request), expected, "{pattern} for {request}");
        }
    }

    #[test]
    fn a_value_that_is_a_path_is_compared_as_one() {
        for value in ["user/login", "/user/login/", "user//login", "user%2Flogin", "User/Login"] {
            assert!(takes("POST /?q=user/login", &format!("POST /?q={value}")), "{value}");
        }
        assert!(!takes("POST /?q=user/login", "POST /?q=user/logins") && !takes("POST /?q=a", "POST /?q=/a"));
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
        let all = Pattern::parse("post /../%61/*x").unwrap_err();
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(error("/login"), PatternError::TwoWords);
        assert_eq!(error("post /login"), PatternError::Method("post".into()));
        assert_eq!(error("POST login"), PatternError::Path("login".into()));
        assert_eq!(error("POST /*.php"), PatternError::Glob("*.php".into()));
        assert_eq!(error("POST /a/../b"), PatternError::NeverMatches("/a/../b".into()));
        assert_eq!(error("POST /%61"), PatternError::NeverMatches("/%61".into()));
        assert_eq!(error("OPTIONS /"), PatternError::Options);
    }

    #[test]
    fn a_pattern_covers_what_is_within_it() {
        let covers = |one: &str, other: &str| {
            one.parse::<Pattern>().unwrap().covers(&other.parse::<Pattern>().unwrap())
        };
        for (one, other) in [
            ("POST /login", "POST /login"),
            ("ANY /login", "POST /login"),
            ("POST /login", "PUT /login"),
            ("POST /**", "POST /**/login"),
            ("POST /**/login", "POST /a/b/login"),
            ("POST /*/login", "POST /*/login"),
            ("POST /*/login", "POST /a/login"),
            ("POST /", "POST /?do=login"),
        ] {
            assert!(covers(one, other), "{one} covers {other}");
        }
        for (one, other) in [
            ("POST /login", "ANY /login"),
            ("PUT /login", "POST /login"),
            ("POST /login", "GET /login"),
            ("POST /a/login", "POST /*/login"),
            ("POST /*/login", "POST /**/login"),
            ("POST /?do=login", "POST /"),
            ("POST /login", "POST /signin"),
        ] {
            assert!(!covers(one, other), "{one} does not cover {other}");
        }
    }

    proptest! {
        #[test]
        fn what_fits_after_a_closer_look_is_worth_one(
            literal in "[abA. \u{212a}k]{1,5}([.](php|ASP|json))?",
            segment in "[abA.~1 \u{212a}k]{1,5}([.](php|asp|json))?",
        ) {
            let longer = format!("{literal}{segment}");
            for segment in [segment.clone(), longer, literal.to_uppercase(), format!("{literal}.php")] {
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
