//! A file of cases: requests, and what a configuration should do with each.
//!
//! It reads the file and reports all its mistakes at once. Deciding the cases is left to `app`.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::header::{HOST, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use tollgate_grammar::diagnostic::{Dialect, suggest};
use tollgate_grammar::document::{Located, TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::duration::DAY;
use tollgate_grammar::kind::{Checked as _, Free, Given, Key, Lasting, Text, Whole, Word};
use tollgate_grammar::line_starts::LineStarts;
use tollgate_grammar::table::{FromEntry, KeyType, string};
use tollgate_grammar::{
    Diagnostic, Findings, Mistake, RawItem, RawKey, RawTable as _, SourceKind, SourceText, Spot, Syntax,
    tables, words,
};

use crate::observe::admin::{DEFAULT_PEER, ExplainRequest};
use crate::policy::{LimitKind, Policy};
use crate::time::Span;

/// A request, and what should become of it.
#[derive(Debug, Clone)]
pub struct TestCase {
    /// What people call it: its name, or its request.
    pub name: String,
    /// Its place, as in `cases.toml:12:1`.
    pub place: String,
    /// When it comes, after the start of the clock.
    pub at: Span,
    /// The request.
    pub request: ExplainRequest,
    /// The browser that sends it, by any name: it keeps the cookies of the gate.
    pub browser: Option<String>,
    /// What the application answers, if it sees the request; `None` if it never answers.
    pub answer: Option<CaseAnswer>,
    /// How often the request comes, at least once.
    pub times: u32,
    /// The decision on each.
    pub expected: ExpectedVerdict,
    /// How long the client has to wait, or is held.
    pub wait: Option<Span>,
    /// The name of a limit that refuses.
    pub by: Option<String>,
}

/// An answer of the application.
#[derive(Debug, Clone)]
pub struct CaseAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

/// What should become of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// It takes its tokens and reaches the application.
    Admit,
    /// It does not reach the application.
    Refuse,
    /// It reaches the application, and no limit counts it.
    Uncounted,
}

impl ExpectedVerdict {
    /// Its word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Refuse => "refuse",
            Self::Uncounted => "uncounted",
        }
    }
}

/// The cases of a file, if they have no mistake, and what is wrong with them.
pub struct LoadedCases {
    /// In the order of the file; at least one.
    pub cases: Option<Vec<TestCase>>,
    /// The mistakes, by line.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the text of a file of cases for this policy.
#[must_use]
pub fn load_cases(name: &str, text: &str, policy: &Policy) -> LoadedCases {
    let (name, text) = (name.to_owned(), text.to_owned());
    let source = Arc::new(SourceText { kind: SourceKind::File, name, text, dialect: &Dialect::PLAIN });
    let mut f = Findings::default();
    let cases = TomlTable::parse(&source, &mut f).map(|table| {
        let raw = RawCases::read(&table, &mut f);
        if raw.cases.is_empty() && !f.has_errors() {
            f.error(&Spot::whole(&source), "there is no case", "begin one with [[case]]");
        }
        let (lines, mut before) = (LineStarts::of(&source.text), Span::ZERO);
        let cases = raw.cases.iter().filter_map(|item| {
            let place = item.spot.place_in(&lines);
            let case = item.value.checked((&item.spot, place), before, policy, &mut f)?;
            before = case.at;
            Some(case)
        });
        cases.collect()
    });
    LoadedCases { cases: cases.filter(|_| !f.has_errors()), diagnostics: f.sorted() }
}

words! {
    /// What should become of a request.
    ExpectedVerdicts: ExpectedVerdict {
        "admit" => ExpectedVerdict::Admit,
        "refuse" => ExpectedVerdict::Refuse,
        "uncounted" => ExpectedVerdict::Uncounted,
    }
}

tables! {
    /// A file of cases.
    RawCases {
        /// The cases, on one clock and with one set of buckets.
        cases("case"): Vec<RawItem<RawCase>>,
    }

    /// One case.
    RawCase {
        name: Key<Free>,
        at: Key<Lasting<0, { 3650 * DAY }>>,
        from: Key<Free>,
        peer: Key<Free>,
        browser: Key<Free>,
        request: RawKey<Given<Text<RequestLine>>>,
        host: Key<Free>,
        headers: Option<HeaderLines>,
        body: Key<Free>,
        answer: Key<Whole<u16, 200, 599>>,
        location: Key<Free>,
        answer_headers: Option<HeaderLines>,
        answer_body: Key<Free>,
        times: Key<Whole<u32, 1, 100_000>>,
        expect: RawKey<Given<Word<ExpectedVerdicts>>>,
        wait: Key<Lasting<0, { 3650 * DAY }>>,
        by: Key<Free>,
    }
}

impl RawCase {
    /// The case; `before` is the time of the one before it.
    fn checked(
        &self,
        (spot, place): (&Spot, String),
        before: Span,
        policy: &Policy,
        f: &mut Findings,
    ) -> Option<TestCase> {
        let at = self.at.checked(f).unwrap_or(before);
        if let Some(given) = self.at.as_ref().filter(|_| at < before) {
            let message = format!("`{}` is before the case above", given.value);
            f.error(&given.spot, message, "cases are in the order of their times");
        }
        let request = required(&self.request, spot, "request", "as in request = \"POST /login\"", f);
        let expected = required(&self.expect, spot, "expect", "\"admit\", \"refuse\" or \"uncounted\"", f);
        let request_line = self.request.value.as_ref().map(|line| line.value.clone());
        let name = self.name.checked(f).or(request_line).unwrap_or_default();
        // A difference is one line, and writes nothing else on a terminal.
        let name = name.replace(char::is_control, " ");
        let (sent, answer) = (self.sent(f), self.answered(f));
        let times = self.times.checked(f).unwrap_or(1);
        let (wait, by) = (self.wait.checked(f), self.limit(policy, f));
        let RequestLine { method, url } = request?;
        let expected = expected?;
        if let Some(wait) = self.wait.as_ref().filter(|_| expected == ExpectedVerdict::Uncounted) {
            f.error(&wait.spot, "what no limit counts never waits", "leave it out");
        }
        if let Some(by) = self.by.as_ref().filter(|_| expected != ExpectedVerdict::Refuse) {
            f.error(
                &by.spot,
                "`by` names the limit that refuses",
                "write expect = \"refuse\", or leave it out",
            );
        }
        let request = ExplainRequest { method, url, ..sent? };
        let browser = self.browser.checked(f);
        Some(TestCase { name, place, at, request, browser, answer: answer?, times, expected, wait, by })
    }

    /// All of the request but its line.
    fn sent(&self, f: &mut Findings) -> Option<ExplainRequest> {
        let from = address(self.from.as_ref(), f);
        let peer = address(self.peer.as_ref(), f);
        let mut headers = self.headers.as_ref().map_or_else(Vec::new, |lines| lines.0.clone());
        match self.host.as_ref().map(|host| (host, HeaderValue::from_str(&host.value))) {
            Some((_, Ok(host))) => headers.push((HOST, host)),
            Some((host, Err(_))) => f.error(&host.spot, NO_VALUE, ""),
            None => {}
        }
        Some(ExplainRequest {
            method: Method::POST,
            url: Uri::default(),
            from: from?,
            peer: peer?.unwrap_or(DEFAULT_PEER),
            headers,
            // A request that names no body has none.
            data: Some(self.body.checked(f).unwrap_or_default()),
        })
    }

    /// What the application answers; the outer `None` after a mistake.
    fn answered(&self, f: &mut Findings) -> Option<Option<CaseAnswer>> {
        let mut headers: HeaderMap = self.answer_headers.iter().flat_map(|lines| lines.0.clone()).collect();
        match self.location.as_ref().map(|location| (location, HeaderValue::from_str(&location.value))) {
            Some((_, Ok(location))) => drop(headers.insert(LOCATION, location)),
            Some((location, Err(_))) => f.error(&location.spot, NO_VALUE, ""),
            None => {}
        }
        let body = self.answer_body.checked(f);
        let is_detailed = !headers.is_empty() || body.is_some();
        let Some(given) = &self.answer else {
            let spots =
                [self.location.as_ref().map(|key| &key.spot), self.answer_body.as_ref().map(|key| &key.spot)];
            if let Some(spot) = spots.into_iter().flatten().next().filter(|_| is_detailed) {
                f.error(spot, "`answer` is missing", "as in answer = 302");
            }
            return Some(None);
        };
        let status = StatusCode::from_u16(given.checked(f)?).ok()?;
        Some(Some(CaseAnswer { status, headers, body: body.unwrap_or_default() }))
    }

    fn limit(&self, policy: &Policy, f: &mut Findings) -> Option<String> {
        let given = self.by.as_ref()?;
        let limits = policy.limits.iter().filter(|limit| limit.kind == LimitKind::Rate);
        let names: Vec<&str> = limits.map(|limit| &*limit.name).collect();
        if !names.contains(&given.value.as_str()) {
            f.error(&given.spot, format!("unknown limit `{}`", given.value), suggest(&given.value, names));
        }
        Some(given.value.clone())
    }
}

/// The value of a key that has to be there.
fn required<K>(
    key: &RawKey<Given<K>>,
    table: &Spot,
    name: &str,
    hint: &str,
    f: &mut Findings,
) -> Option<K::Value>
where
    K: tollgate_grammar::kind::Kind,
{
    if key.key.is_none() {
        f.error(table, format!("`{name}` is missing"), hint);
    }
    key.value.as_ref()?.checked(f)
}

/// The address, if there is one; the outer `None` after a mistake.
fn address(key: Option<&Given<Free>>, f: &mut Findings) -> Option<Option<IpAddr>> {
    let Some(given) = key else { return Some(None) };
    if let Ok(address) = given.value.parse() {
        return Some(Some(address));
    }
    f.error(&given.spot, format!("`{}` is not an address", given.value), "as in \"203.0.113.7\"");
    None
}

/// The method and the target of a request, as in `POST /login`.
#[derive(Debug)]
struct RequestLine {
    method: Method,
    url: Uri,
}

impl FromStr for RequestLine {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not a request"), "as in \"POST /login\"");
        let (method, target) = text.split_once(' ').ok_or_else(wrong)?;
        let is_target = target.starts_with('/') || target.contains("://");
        let url = target.parse().ok().filter(|_| is_target).ok_or_else(wrong)?;
        Ok(Self { method: method.parse().map_err(|_| wrong())?, url })
    }
}

impl Syntax for RequestLine {
    fn pattern() -> Option<String> {
        Some("^[A-Z]+ .*/".to_owned())
    }
}

/// Header lines: a table of them, or a list of `Name: value`.
#[derive(Debug)]
struct HeaderLines(Vec<(HeaderName, HeaderValue)>);

impl FromEntry for HeaderLines {
    fn entry_type() -> KeyType {
        KeyType::Value(Box::default())
    }

    fn from_entry(TomlEntry { node, .. }: &TomlEntry, f: &mut Findings) -> Option<Self> {
        let lines: Vec<_> = match &node.value {
            TomlValue::Table(table) => {
                let line = |entry: &TomlEntry| {
                    let value = string(&entry.node, f)?;
                    header(&entry.key.value, &entry.key.spot, &value.value, &value.spot, f)
                };
                table.0.iter().map(line).collect::<Option<_>>()?
            }
            TomlValue::List(lines) => lines.iter().map(|node| header_line(node, f)).collect::<Option<_>>()?,
            _ => vec![header_line(node, f)?],
        };
        Some(Self(lines))
    }
}

fn header_line(node: &Located<TomlValue>, f: &mut Findings) -> Option<(HeaderName, HeaderValue)> {
    let line = string(node, f)?;
    let Some((name, value)) = line.value.split_once(':') else {
        f.error(&line.spot, format!("`{}` is not a header line", line.value), "as in \"Name: value\"");
        return None;
    };
    header(name, &line.spot, value, &line.spot, f)
}

fn header(
    name: &str,
    name_spot: &Spot,
    value: &str,
    value_spot: &Spot,
    f: &mut Findings,
) -> Option<(HeaderName, HeaderValue)> {
    let parsed_name = name.trim().parse().ok();
    if parsed_name.is_none() {
        f.error(name_spot, format!("`{name}` is not a name of a header"), "");
    }
    let parsed_value = value.trim().parse().ok();
    if parsed_value.is_none() {
        f.error(value_spot, NO_VALUE, "");
    }
    Some((parsed_name?, parsed_value?))
}

const NO_VALUE: &str = "this cannot be the value of a header";
