//! Whole responses against whole sets of rules.

#[cfg(test)]
mod oracle;

use std::io::Write;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::Outcome::{Failure, Neutral, Success};
use super::*;
use crate::response::{Glob, JsonPointer, Statuses};

fn status(code: u16) -> OutcomeRule {
    OutcomeRule { status: Some([code..=code].into_iter().collect()), ..OutcomeRule::default() }
}

fn location(pattern: &str) -> OutcomeRule {
    OutcomeRule { location: Some(Glob::new(pattern)), ..OutcomeRule::default() }
}

fn body(text: &str) -> OutcomeRule {
    OutcomeRule { body: Some(text.into()), ..OutcomeRule::default() }
}

fn json(pointer: &str, equals: Option<&str>) -> OutcomeRule {
    OutcomeRule {
        json: Some((JsonPointer::new(pointer).unwrap(), equals.map(Into::into))),
        ..OutcomeRule::default()
    }
}

fn header(name: &'static str, equals: Option<&str>) -> OutcomeRule {
    OutcomeRule {
        header: Some((HeaderName::from_static(name), equals.map(Into::into))),
        ..OutcomeRule::default()
    }
}

fn rules(failure: Vec<OutcomeRule>, success: Vec<OutcomeRule>, otherwise: Outcome) -> OutcomeRules {
    OutcomeRules { failure, success, neutral: Vec::new(), otherwise, header: None }
}

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// The outcome of a `POST` by the head alone.
fn head(rules: &OutcomeRules, status: u16, lines: &[(HeaderName, &str)]) -> Option<Outcome> {
    let headers = headers(lines);
    let judged = rules.by_head(&ResponseView {
        method: &Method::POST,
        status: StatusCode::from_u16(status).unwrap(),
        headers: &headers,
    });
    judged.map(|judged| judged.outcome)
}

/// The outcome of a `POST` by head and a complete body.
fn whole(rules: &OutcomeRules, status: u16, lines: &[(HeaderName, &str)], bytes: &[u8]) -> Outcome {
    whole_judged(rules, status, lines, bytes).outcome
}

fn whole_judged(rules: &OutcomeRules, status: u16, lines: &[(HeaderName, &str)], bytes: &[u8]) -> Judgement {
    let headers = headers(lines);
    let status = StatusCode::from_u16(status).unwrap();
    let response = ResponseView { method: &Method::POST, status, headers: &headers };
    rules.by_body(&response, BodyPrefix { bytes, complete: true })
}

#[test]
fn failure_comes_before_success_and_both_before_the_rest() {
    let rules = rules(vec![status(401)], vec![status(401), status(302)], Neutral);
    for (code, outcome) in [(401, Failure), (302, Success), (200, Neutral), (503, Failure)] {
        assert_eq!(head(&rules, code, &[]), Some(outcome), "{code}");
        assert_eq!(whole(&rules, code, &[], b""), outcome, "{code}");
    }
}

#[test]
fn without_rules_an_answer_is_what_the_rest_is() {
    for otherwise in [Success, Failure, Neutral] {
        let rules = rules(Vec::new(), Vec::new(), otherwise);
        assert_eq!(head(&rules, 404, &[]), Some(otherwise));
        assert_eq!(head(&rules, 500, &[]), Some(Failure));
    }
    assert_eq!(head(&OutcomeRules::default(), 200, &[]), Some(Neutral));
}

#[test]
fn an_error_of_the_application_is_a_failure_unless_a_rule_names_it() {
    assert_eq!(whole(&rules(vec![status(500)], Vec::new(), Neutral), 500, &[], b""), Failure);
    let named = OutcomeRules { neutral: vec![status(503)], ..rules(Vec::new(), Vec::new(), Success) };
    assert_eq!([503, 502].map(|code| head(&named, code, &[])), [Some(Neutral), Some(Failure)]);
    let fault = rules(vec![body("<faultstring>Bad password")], Vec::new(), Success);
    assert_eq!(whole(&fault, 500, &[], b"<soap:Fault><faultstring>Bad password</faultstring>"), Failure);
    assert_eq!(whole(&fault, 500, &[], b"<soap:Fault><faultstring>Out of memory</faultstring>"), Failure);
}

#[test]
fn all_conditions_of_a_rule_have_to_hold() {
    let rule = OutcomeRule { location: Some(Glob::new("/home*")), ..status(302) };
    let rules = rules(Vec::new(), vec![rule], Failure);
    assert_eq!(head(&rules, 302, &[(LOCATION, "/home")]), Some(Success));
    assert_eq!(head(&rules, 302, &[(LOCATION, "/login")]), Some(Failure));
    assert_eq!(head(&rules, 201, &[(LOCATION, "/home")]), Some(Failure));
    assert_eq!(head(&rules, 302, &[]), Some(Failure));
}

#[test]
fn a_location_is_read_as_sent_and_by_its_path() {
    let fits = |pattern: &str, value: &str| {
        head(&rules(Vec::new(), vec![location(pattern)], Failure), 302, &[(LOCATION, value)]) == Some(Success)
    };
    for value in [
        "/home",
        "/home?a=b",
        "https://example.org/home",
        "HTTP://example.org:8080/home/x",
        "//example.org/home",
        "/home#top",
    ] {
        assert!(fits("/home*", value), "{value}");
    }
    assert!(fits("/", "https://example.org") && fits("/?a=b", "https://example.org?a=b"));
    assert!(fits("https://example.org/*", "https://example.org/home"), "the raw value as well");
    assert!(fits("/home", "https://example.org/home#top") && fits("*#top", "/home#top"));
    for value in ["/login?next=/home", "https://example.org/login", "home", "https:/home", "mailto:/home"] {
        assert!(!fits("/home*", value), "{value}");
    }
}

#[test]
fn a_header_is_there_or_says_exactly_that() {
    let name = HeaderName::from_static("x-login");
    let there = rules(vec![header("x-login", None)], Vec::new(), Neutral);
    let failed = rules(vec![header("x-login", Some("failed"))], Vec::new(), Neutral);
    for (value, is_there, is_failed) in [
        ("failed", Failure, Failure),
        (" failed ", Failure, Failure),
        ("Failed", Failure, Neutral),
        ("", Failure, Neutral),
    ] {
        assert_eq!(head(&there, 200, &[(name.clone(), value)]), Some(is_there));
        assert_eq!(head(&failed, 200, &[(name.clone(), value)]), Some(is_failed), "{value}");
    }
    assert_eq!(head(&there, 200, &[]), Some(Neutral));
    assert_eq!(
        head(&failed, 200, &[(name.clone(), "ok"), (name, "failed")]),
        Some(Failure),
        "any line counts"
    );
}

#[test]
fn a_place_in_json_is_there_or_says_exactly_that() {
    let document = br#"{"ok":false,"n":3,"s":"no","nothing":null,"list":[{"code":"E1"}],"none":"null"}"#;
    let holds = |pointer, equals| {
        let rules = rules(vec![json(pointer, equals)], Vec::new(), Neutral);
        whole(&rules, 200, &[], document) == Failure
    };
    for (pointer, equals) in [
        ("/ok", None),
        ("/ok", Some("false")),
        ("/n", Some("3")),
        ("/s", Some("no")),
        ("/list/0/code", Some("E1")),
        ("/list", None),
        ("/nothing", Some("null")),
        ("/none", None),
        ("", None),
    ] {
        assert!(holds(pointer, equals), "{pointer} {equals:?}");
    }
    for (pointer, equals) in [
        ("/ok", Some("true")),
        ("/ok", Some("False")),
        ("/n", Some("3.0")),
        ("/nothing", None),
        ("/missing", None),
        ("/list/1", None),
        ("/list", Some("[]")),
    ] {
        assert!(!holds(pointer, equals), "{pointer} {equals:?}");
    }
}

#[test]
fn what_is_not_json_fails_no_rule_about_json() {
    let rules = rules(vec![json("/ok", Some("false"))], vec![json("/ok", Some("true"))], Neutral);
    let page = [(CONTENT_TYPE, "text/html")];
    assert_eq!(whole(&rules, 200, &page, b"<!doctype html>"), Neutral);
    assert_eq!(whole(&rules, 200, &[], b""), Neutral);
    assert_eq!(
        whole(&rules, 200, &page, b"\xEF\xBB\xBF {\"ok\":true}\n"),
        Success,
        "whatever its content type"
    );
    let called_json = [(CONTENT_TYPE, "application/problem+json; charset=utf-8")];
    assert_eq!(whole(&rules, 200, &called_json, b"{\"ok\":tru"), Failure, "broken, but declared as JSON");
    assert_eq!(whole(&rules, 204, &called_json, b""), Neutral);
    let deep = b"[".repeat(1000);
    assert_eq!(whole(&rules, 200, &called_json, &deep), Failure, "too deep to be read");
}

#[test]
fn a_text_is_found_byte_by_byte() {
    let rules = rules(vec![body("Login failed"), body("verweigert \u{fc}")], Vec::new(), Success);
    assert_eq!(whole(&rules, 200, &[], b"<p>Login failed</p>"), Failure);
    assert_eq!(whole(&rules, 200, &[], b"<p>login failed</p>"), Success);
    assert_eq!(whole(&rules, 200, &[], "verweigert \u{fc}".as_bytes()), Failure);
    assert_eq!(whole(&rules, 200, &[], b"verweigert \xFC"), Success, "Latin-1 is not UTF-8");
    let latin = [(CONTENT_TYPE, "text/html; charset=iso-8859-1")];
    assert_eq!(
        whole(&rules, 200, &latin, b"verweigert \xFC"),
        Failure,
        "the text may be there in other bytes"
    );
    assert_eq!(whole(&rules, 200, &latin, b"welcome"), Success);
}

#[test]
fn the_head_is_enough_where_the_body_makes_no_difference() {
    let wordpress = rules(vec![body("login_error")], vec![status(302)], Failure);
    assert_eq!(head(&wordpress, 200, &[]), Some(Failure), "it fails with or without the text");
    assert_eq!(head(&wordpress, 302, &[]), None, "a redirect may hold the text");
    let lenient = rules(vec![body("login_error")], Vec::new(), Success);
    assert_eq!(head(&lenient, 200, &[]), None);
    assert_eq!(head(&lenient, 503, &[]), Some(Failure), "with or without the text");
    let first = rules(vec![body("x"), status(401)], Vec::new(), Success);
    assert_eq!(head(&first, 401, &[]), Some(Failure), "another rule decides");
    let narrow = OutcomeRule { body: Some("x".into()), ..status(200) };
    assert_eq!(
        head(&rules(vec![narrow], Vec::new(), Success), 302, &[]),
        Some(Success),
        "the status rules it out"
    );
    let token = rules(Vec::new(), vec![status(302), json("/token", None)], Failure);
    assert_eq!(head(&token, 302, &[]), Some(Success), "an earlier rule decided");
    assert_eq!(head(&token, 200, &[]), None);
}

#[test]
fn what_cannot_be_read_fails() {
    let strict = rules(vec![body("x")], Vec::new(), Success);
    let modest = rules(Vec::new(), vec![json("/token", None)], Neutral);
    let unreadable = [
        (200, CONTENT_ENCODING, "compress"),
        (200, CONTENT_ENCODING, "gzip, exi"),
        (206, CONTENT_TYPE, "text/html"),
        (304, CONTENT_TYPE, "text/html"),
        (200, CONTENT_TYPE, "Multipart/ByteRanges; boundary=a"),
        (200, TRANSFER_ENCODING, "gzip, chunked"),
    ];
    for (code, name, value) in unreadable {
        let lines = [(name, value)];
        assert_eq!(head(&strict, code, &lines), Some(Failure), "{code} {lines:?}");
        assert_eq!(whole(&strict, code, &lines, b"{}"), Failure, "{code} {lines:?}");
        assert_eq!(whole(&modest, code, &lines, b"{\"token\":1}"), Failure, "{code} {lines:?}");
    }
    assert_eq!(whole(&strict, 200, &[(CONTENT_ENCODING, "gzip")], b"<p>"), Failure, "a broken stream");
    assert_eq!(whole(&strict, 200, &[(TRANSFER_ENCODING, "chunked")], b"<p>"), Success);

    let (empty, post) = (HeaderMap::new(), BodyPrefix { bytes: b"", complete: true });
    let to_head = ResponseView { method: &Method::HEAD, status: StatusCode::OK, headers: &empty };
    let failure = Judgement { is_said: false, ..Failure.into() };
    assert_eq!((strict.by_head(&to_head), strict.by_body(&to_head, post)), (Some(failure), failure));
}

#[test]
fn a_failure_weighs_what_the_first_rule_says_or_an_undecided_one_before_it() {
    let weighing = |rule: OutcomeRule, weight: u32| OutcomeRule { extra: weight - 1, ..rule };
    let failure = vec![weighing(body("no such user"), 5), weighing(status(401), 3), status(403)];
    let rules = rules(failure, vec![status(302)], Failure);
    let weight = |code, text: &str| {
        let (empty, status) = (HeaderMap::new(), StatusCode::from_u16(code).unwrap());
        let response = ResponseView { method: &Method::POST, status, headers: &empty };
        assert_eq!(rules.by_head(&response), None, "the weight depends on the body");
        let judged = rules.by_body(&response, BodyPrefix { bytes: text.as_bytes(), complete: true });
        (judged.outcome, judged.weight)
    };
    assert_eq!(weight(401, "no such user"), (Failure, 5));
    assert_eq!(weight(401, "wrong password"), (Failure, 3));
    assert_eq!(weight(403, "wrong password"), (Failure, 1));
    assert_eq!(weight(200, "wrong password"), (Failure, 1), "by no rule");
    assert_eq!(weight(302, "welcome"), (Success, 1));
    let undecided = whole_judged(&rules, 401, &[(CONTENT_ENCODING, "unknown")], b"");
    assert_eq!(undecided, Judgement { outcome: Failure, weight: 5, is_said: true }, "401 says so");
}

#[test]
fn a_failure_that_a_status_hides_is_said_only_where_a_rule_names_it() {
    let is_said = |rules: &OutcomeRules, code| whole_judged(rules, code, &[], b"").is_said;
    let by_status = rules(vec![status(401)], Vec::new(), Failure);
    assert_eq!([401, 200, 500, 304].map(|code| is_said(&by_status, code)), [true, true, false, false]);
    let named = rules(vec![status(500)], Vec::new(), Neutral);
    assert!(is_said(&named, 500));
    assert!(!Judgement::UNANSWERED.is_said && !Judgement::UNANSWERED.and(Failure.into()).is_said);
}

#[test]
fn a_body_that_was_not_seen_to_its_end_is_judged_only_by_what_stands_in_it() {
    let empty = HeaderMap::new();
    let response = ResponseView { method: &Method::POST, status: StatusCode::OK, headers: &empty };
    let text = rules(vec![body("x")], Vec::new(), Success);
    let document = rules(vec![json("/ok", Some("false"))], Vec::new(), Success);
    let long = b" ".repeat(BodyPrefix::MAX);
    let seen = |bytes| BodyPrefix { bytes, complete: false };
    assert_eq!(text.by_body(&response, seen(&long)).outcome, Failure, "it may be after the first 64 KiB");
    assert_eq!(document.by_body(&response, seen(&long)).outcome, Failure, "the rest is unknown");
    assert_eq!(text.by_body(&response, seen(b"abc")).outcome, Failure, "it may be in the rest");
    let late = [&long[..], b"x"].concat();
    assert_eq!(
        text.by_body(&response, BodyPrefix { bytes: &late, complete: true }).outcome,
        Failure,
        "beyond the part that is read"
    );
}

#[test]
fn a_rule_covers_what_it_is_the_shorter_form_of() {
    let classes: Statuses = [400..=499].into_iter().collect();
    let wide = OutcomeRule { status: Some(classes), ..OutcomeRule::default() };
    let narrow = OutcomeRule { location: Some(Glob::new("/x")), ..status(401) };
    assert!(wide.covers(&status(401)) && wide.covers(&narrow) && status(401).covers(&narrow));
    assert!(!narrow.covers(&status(401)) && !status(401).covers(&wide) && !status(401).covers(&status(403)));
    assert!(
        header("a", None).covers(&header("a", Some("b")))
            && !header("a", Some("b")).covers(&header("a", None))
    );
    assert!(!header("a", None).covers(&header("b", None)));
    assert!(
        json("/a", None).covers(&json("/a", Some("b")))
            && !json("/a", None).covers(&json("/a", Some("null")))
    );
    assert!(body("a").covers(&body("a")) && !body("a").covers(&body("ab")));
}

fn any_rule() -> impl Strategy<Value = OutcomeRule> {
    prop_oneof![
        (200_u16..210).prop_map(status),
        Just(location("/home*")),
        Just(header("x-a", None)),
        "[ab]{1,3}".prop_map(|text| body(&text)),
        "(/[ab])?".prop_map(|pointer| json(&pointer, None)),
        ((200_u16..210), "[ab]{1,2}")
            .prop_map(|(code, text)| OutcomeRule { body: Some(text), ..status(code) }),
    ]
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ab ]{0,20}".prop_map(String::into_bytes),
        Just(br#"{"a":1}"#.to_vec()),
        Just(b"[null]".to_vec())
    ]
}

proptest! {
    #[test]
    fn what_the_head_says_no_body_changes(
        failure in prop::collection::vec(any_rule(), 0..3),
        success in prop::collection::vec(any_rule(), 0..3),
        otherwise in prop::sample::select(vec![Success, Failure, Neutral]),
        code in prop_oneof![200_u16..210, Just(302), Just(500)],
        line in prop::sample::select(
            vec![(LOCATION, "/home"), (CONTENT_ENCODING, "x"), (CONTENT_TYPE, "application/json")],
        ),
        bytes in any_body(), complete: bool,
    ) {
        let rules = rules(failure, success, otherwise);
        let headers = headers(&[line]);
        let status = StatusCode::from_u16(code).unwrap();
        let response = ResponseView { method: &Method::POST, status, headers: &headers };
        let by_body = rules.by_body(&response, BodyPrefix { bytes: &bytes, complete });
        if let Some(by_head) = rules.by_head(&response) {
            prop_assert_eq!((by_head.outcome, by_head.weight), (by_body.outcome, by_body.weight));
            prop_assert!(by_body.is_said || !by_head.is_said, "a body may say what a status hides");
        }
    }

    #[test]
    fn a_compressed_page_means_the_same(text in "[ab]{0,40}", part in "[ab]{1,3}") {
        let rules = rules(vec![body(&part)], Vec::new(), Success);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        let expected = if text.contains(&part) { Failure } else { Success };
        prop_assert_eq!(whole(&rules, 200, &[], text.as_bytes()), expected);
        prop_assert_eq!(whole(&rules, 200, &[(CONTENT_ENCODING, "gzip")], &gzip.finish().unwrap()), expected);
    }
}
