//! A response and rules about it: lines of the head, an empty line, a body of any bytes.
//!
//! No body changes an outcome of the head, a coding changes no outcome, and patterns agree with an exhaustive search.

#![no_main]

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::header::{CONTENT_ENCODING, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use libfuzzer_sys::fuzz_target;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tollgate::policy::outcome::{Outcome, OutcomeRule, OutcomeRules};
use tollgate::policy::response::{BodyPrefix, Glob, JsonPointer, ResponseView};

fuzz_target!(|input: &[u8]| {
    let at = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let (head, body) = (&input[..at], input.get(at + 2..).unwrap_or_default());
    let mut case = Case::default();
    head.split(|&byte| byte == b'\n').for_each(|line| case.read(line));

    no_body_changes_what_the_head_says(&case, body);
    any_bytes_under_any_coding(&case, body);
    a_coding_changes_nothing(&mut case, body);
    text_is_found_where_it_is(&case, body);
    patterns_agree_with_trying_everything(&case);
    equality_is_equality(&case);
});

struct Case {
    status: StatusCode,
    method: Method,
    headers: HeaderMap,
    rules: OutcomeRules,
    patterns: Vec<String>,
    texts: Vec<String>,
}

impl Default for Case {
    fn default() -> Self {
        let rules = OutcomeRules { otherwise: Outcome::Neutral, ..OutcomeRules::default() };
        let (status, method) = (StatusCode::OK, Method::POST);
        Self { status, method, headers: HeaderMap::new(), rules, patterns: Vec::new(), texts: Vec::new() }
    }
}

impl Case {
    /// `=302`, `HEAD`, a rule as in `-body Login failed` (`+` for a success), or a header.
    fn read(&mut self, line: &[u8]) {
        let text = std::str::from_utf8(line).unwrap_or_default();
        if let Some(status) = text.strip_prefix('=').and_then(|code| code.parse().ok()) {
            self.status = status;
        } else if text == "HEAD" {
            self.method = Method::HEAD;
        } else if let Some(rule) = text.strip_prefix('-') {
            let rule = self.rule(rule);
            self.rules.failure.extend(rule);
        } else if let Some(rule) = text.strip_prefix('+') {
            let rule = self.rule(rule).filter(|rule| rule.body.is_none());
            self.rules.success.extend(rule);
        } else if let Some(colon) = line.iter().position(|&byte| byte == b':')
            && let Ok(name) = HeaderName::from_bytes(&line[..colon])
            && let Ok(value) = HeaderValue::from_bytes(&line[colon + 1..])
        {
            self.headers.append(name, value);
        }
    }

    fn rule(&mut self, text: &str) -> Option<OutcomeRule> {
        let (kind, text) = text.split_once(' ')?;
        let (first, equals) = match text.split_once('=') {
            Some((first, equals)) => (first, Some(equals.to_owned())),
            None => (text, None),
        };
        let mut rule = OutcomeRule::default();
        match kind {
            "status" => rule.status = Some([first.parse().ok()?..=first.parse().ok()?].into_iter().collect()),
            "class" => rule.status = Some([400..=499].into_iter().collect()),
            "location" => rule.location = Some(Glob::new(text)),
            "cookie" => rule.set_cookie = Some(Glob::new(text)),
            "header" => rule.header = Some((HeaderName::from_bytes(first.as_bytes()).ok()?, equals)),
            "json" => rule.json = Some((JsonPointer::new(first)?, equals)),
            "body" if !text.is_empty() => rule.body = Some(text.to_owned()),
            _ => return None,
        }
        if kind == "location" {
            self.patterns.push(text.to_owned());
        }
        self.texts.push(text.to_owned());
        Some(rule)
    }

    fn response(&self) -> ResponseView<'_> {
        ResponseView { method: &self.method, status: self.status, headers: &self.headers }
    }

    fn outcome(&self, bytes: &[u8], complete: bool) -> Outcome {
        self.rules.by_body(&self.response(), BodyPrefix { bytes, complete }).outcome
    }
}

fn no_body_changes_what_the_head_says(case: &Case, body: &[u8]) {
    let Some(expected) = case.rules.by_head(&case.response()) else { return };
    for bytes in [b"", body, b"{\"a\":1}"] {
        for complete in [false, true] {
            assert_eq!(case.outcome(bytes, complete), expected.outcome);
        }
    }
}

/// Streams of other encoders, broken by the fuzzer.
fn any_bytes_under_any_coding(case: &Case, body: &[u8]) {
    let rules = OutcomeRules {
        failure: vec![OutcomeRule { body: Some("\u{1}no such text\u{2}".into()), ..OutcomeRule::default() }],
        ..OutcomeRules::default()
    };
    for coding in ["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate"] {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding))]);
        let response = ResponseView { headers: &headers, ..case.response() };
        for complete in [false, true] {
            let _ = rules.by_body(&response, BodyPrefix { bytes: body, complete });
        }
    }
}

fn a_coding_changes_nothing(case: &mut Case, body: &[u8]) {
    if case.headers.contains_key(CONTENT_ENCODING) {
        return;
    }
    let mentions =
        |rule: &OutcomeRule| rule.header.as_ref().is_some_and(|(name, _)| name == CONTENT_ENCODING);
    if case.rules.failure.iter().chain(&case.rules.success).any(mentions) {
        return;
    }
    let plain = case.outcome(body, true);
    for (name, coded) in encodings(body) {
        case.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
        assert_eq!(case.outcome(&coded, true), plain, "{name}");
    }
    case.headers.remove(CONTENT_ENCODING);
}

fn encodings(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(text).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
    raw.write_all(text).unwrap();
    let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 1, 16);
    brotli.write_all(text).unwrap();
    vec![
        ("gzip", gzip.finish().unwrap()),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
        ("br", brotli.into_inner()),
        ("zstd", compress_to_vec(text, CompressionLevel::Fastest)),
    ]
}

fn text_is_found_where_it_is(case: &Case, body: &[u8]) {
    let headers = HeaderMap::new();
    let response = ResponseView { method: &Method::POST, status: StatusCode::OK, headers: &headers };
    for text in case.texts.iter().filter(|text| !text.is_empty()) {
        let rule = OutcomeRule { body: Some(text.clone()), ..OutcomeRule::default() };
        let rules = OutcomeRules { failure: vec![rule], ..OutcomeRules::default() };
        let found = body.windows(text.len()).any(|part| part == text.as_bytes());
        // In another encoding than these the outcome may be any.
        let is_utf16 =
            [&b"\xFE\xFF"[..], b"\xFF\xFE", b"\0\0\xFE\xFF"].iter().any(|mark| body.starts_with(mark));
        let expected = if found || is_utf16 { Outcome::Failure } else { Outcome::Neutral };
        assert_eq!(
            rules.by_body(&response, BodyPrefix { bytes: body, complete: true }).outcome,
            expected,
            "{text:?}"
        );
    }
}

fn patterns_agree_with_trying_everything(case: &Case) {
    for pattern in &case.patterns {
        for value in case.headers.get_all(LOCATION).iter().map(HeaderValue::as_bytes) {
            if pattern.len() * value.len() <= 1 << 16 {
                assert_eq!(
                    Glob::new(pattern).matches(value),
                    slowly(pattern.as_bytes(), value),
                    "{pattern:?} {value:?}"
                );
            }
        }
    }
}

/// A table of which prefix of the pattern fits which prefix of the value.
fn slowly(pattern: &[u8], value: &[u8]) -> bool {
    let mut fits = vec![false; value.len() + 1];
    fits[0] = true;
    for &letter in pattern {
        let mut next = vec![false; value.len() + 1];
        for at in 0..=value.len() {
            next[at] = match letter {
                b'*' => fits[at] || at > 0 && next[at - 1],
                _ => at > 0 && fits[at - 1] && value[at - 1] == letter,
            };
        }
        fits = next;
    }
    fits[value.len()]
}

fn equality_is_equality(case: &Case) {
    let headers = HeaderMap::new();
    let response = ResponseView { method: &Method::POST, status: StatusCode::OK, headers: &headers };
    for one in case.texts.iter().take(4) {
        for other in case.texts.iter().take(4) {
            let document = serde_json::json!({ "v": [one] }).to_string();
            let rule = OutcomeRule {
                json: JsonPointer::new("/v/0").map(|pointer| (pointer, Some(other.clone()))),
                ..OutcomeRule::default()
            };
            let rules = OutcomeRules { failure: vec![rule], ..OutcomeRules::default() };
            let expected = if one == other { Outcome::Failure } else { Outcome::Neutral };
            assert_eq!(
                rules.by_body(&response, BodyPrefix { bytes: document.as_bytes(), complete: true }).outcome,
                expected
            );
        }
    }
}
