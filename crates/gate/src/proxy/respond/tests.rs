//! Complete responses, byte for byte.

#[cfg(test)]
mod hidden;
#[cfg(test)]
mod legacy;
mod localized;

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use smallvec::smallvec;

use super::*;
use crate::bucket::{Admission, Continuous, Effect, Key, Receipt, Spec, Time, Verdict};
use crate::engine::{DecidedAttempt, LimitStatus};
use crate::policy::{Charge, Limit};

const SECOND: u64 = 1_000_000_000;

fn spec() -> Spec {
    Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap())
}

fn policy(names: &[&str]) -> Policy {
    Policy::new(Vec::new(), names.iter().map(|name| Limit::new(name, spec())).collect())
}

fn status(limit: usize, admission: Admission) -> LimitStatus {
    let (left, next_token) = match admission {
        Admission::Admitted | Admission::Held { .. } => (7, Span::from_millis(29_001)),
        Admission::Refused { wait } => (0, wait),
        Admission::NeverFits => (9, Span::ZERO),
    };
    let charge = Charge {
        limit,
        key: Key(1),
        class: 0,
        spec: spec(),
        cost: 1,
        authorization_cost: 0,
        tag: None,
        effect: Effect::Enforce { owner: 0 },
    };
    LimitStatus {
        charge,
        verdict: Verdict {
            admission,
            left,
            next_token,
            full_at: Time::default(),
            receipt: Receipt::default(),
        },
    }
}

fn refused(nanos: u64) -> Refusal {
    let wait = Span::from_nanos(nanos);
    Refusal {
        route: 0,
        wait: Some(wait),
        statuses: smallvec![status(0, Admission::Refused { wait })],
        attempt: DecidedAttempt::default(),
    }
}

fn never_fits() -> Refusal {
    Refusal {
        route: 0,
        wait: None,
        statuses: smallvec![status(0, Admission::NeverFits)],
        attempt: DecidedAttempt::default(),
    }
}

/// The response to a client that sends this `Accept`.
fn respond(
    settings: &RefuseSettings,
    names: &[&str],
    what: &Refusal,
    accept: &'static str,
) -> Response<Bytes> {
    let (accept, id) = (HeaderValue::from_static(accept), HeaderValue::from_static("01-ab"));
    let negotiation = Negotiation {
        accept: Some(&accept),
        head: false,
        request_id: &id,
        language: PageLanguage::default(),
        offer: None,
    };
    refusal(settings, &policy(names), what, &negotiation)
}

fn refused_as(accept: &'static str) -> Response<Bytes> {
    respond(&RefuseSettings::default(), &["address"], &refused(20 * SECOND + 1), accept)
}

/// A response as the connection sends it.
fn sent(rendered: RenderedRefusal, id: &HeaderValue) -> Response<Bytes> {
    let (status, body) = match &rendered {
        RenderedRefusal::New(response) => (response.status(), response.body().clone()),
        RenderedRefusal::Kept(kept) => (kept.status(), kept.body(id)),
    };
    let mut headers = rendered.into_headers(id.clone());
    headers.insert(CONTENT_LENGTH, body.len().into());
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

fn body(response: &Response<Bytes>) -> &str {
    std::str::from_utf8(response.body()).unwrap()
}

/// The headers as lines, sorted.
fn lines(headers: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn a_program_gets_problem_details() {
    let response = refused_as("application/json");
    assert_eq!(
        body(&response),
        concat!(
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
            r#""title":"Too many sign-in attempts","status":429,"detail":"Wait 21 seconds, then try again.","#,
            r#""retry_after":21,"violated-policies":["address"],"instance":"urn:request:01-ab"}"#
        )
    );
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[test]
fn a_terminal_gets_text_and_exactly_these_headers() {
    let response = refused_as("*/*");
    assert_eq!(body(&response), "Too many sign-in attempts.\nWait 21 seconds, then try again.\n");
    assert_eq!(
        lines(response.headers()),
        [
            "cache-control: no-store",
            "content-length: 60",
            "content-type: text/plain; charset=utf-8",
            "ratelimit-policy: \"address\";q=10;w=300",
            "ratelimit: \"address\";r=0;t=21",
            "retry-after: 21",
            "vary: Accept",
            "x-content-type-options: nosniff",
            "x-request-id: 01-ab",
        ]
    );
}

#[test]
fn a_browser_gets_a_page_that_needs_nothing_else() {
    let response = refused_as("text/html,application/xhtml+xml,*/*;q=0.8");
    let page = body(&response);
    for needed in [
        "<time datetime=\"PT21S\">21 seconds</time>",
        "<a href=\"\">",
        "--wait:21\"",
        "01-ab",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(needed), "{needed} is missing in {page}");
    }
    for unwanted in ["<script", "http-equiv", "http://", "https://", "url(", "@import", "{{", "src="] {
        assert!(!page.contains(unwanted), "{unwanted} is in {page}");
    }
    let headers = response.headers();
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(headers["referrer-policy"], "same-origin");
    let csp = headers["content-security-policy"].to_str().unwrap();
    assert!(csp.starts_with("default-src 'none'; ") && !csp.contains("script"), "{csp}");
}

#[test]
fn every_form_has_its_true_length_and_none_is_kept_or_guessed() {
    for accept in ["*/*", "text/html", "application/json"] {
        let response = refused_as(accept);
        let headers = response.headers();
        assert_eq!(headers["content-length"], response.body().len().to_string().as_str());
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(!headers.contains_key("server"));
    }
}

#[test]
fn head_gets_the_headers_of_the_other_methods_and_no_body() {
    let (accept, id) = (HeaderValue::from_static("text/html"), HeaderValue::from_static("01-ab"));
    let negotiation = Negotiation {
        accept: Some(&accept),
        head: true,
        request_id: &id,
        language: PageLanguage::default(),
        offer: None,
    };
    let head =
        refusal(&RefuseSettings::default(), &policy(&["address"]), &refused(20 * SECOND + 1), &negotiation);
    assert_eq!(lines(head.headers()), lines(refused_as("text/html").headers()));
    assert!(head.body().is_empty());
    assert!(problem(ProblemKind::BadGateway, &negotiation).body().is_empty());
}

#[test]
fn the_wait_is_rounded_up_to_whole_seconds() {
    for (nanos, shown) in [(200_000_000, "1"), (20 * SECOND + 1, "21"), (30 * SECOND, "30")] {
        let response = respond(&RefuseSettings::default(), &["address"], &refused(nanos), "*/*");
        assert_eq!(response.headers()["retry-after"], shown);
    }
}

#[test]
fn where_waiting_never_helps_no_wait_is_named() {
    for accept in ["*/*", "application/json", "text/html"] {
        let response = respond(&RefuseSettings::default(), &["address"], &never_fits(), accept);
        assert!(!response.headers().contains_key("retry-after"));
        assert!(body(&response).contains("Waiting does not help here."));
        assert_eq!(response.headers()["ratelimit"], r#""address";r=9"#);
        assert!(!body(&response).contains("retry_after") && !body(&response).contains("then try again"));
    }
}

#[test]
fn every_refusing_limit_is_named_and_every_limit_shows_its_state() {
    let wait = Span::from_secs(5);
    let statuses = smallvec![
        status(0, Admission::Refused { wait }),
        status(1, Admission::Admitted),
        status(2, Admission::Refused { wait: Span::from_secs(9) }),
    ];
    let what =
        Refusal { route: 0, wait: Some(Span::from_secs(9)), statuses, attempt: DecidedAttempt::default() };
    let response = respond(&RefuseSettings::default(), &["a", "b", "c"], &what, "application/json");
    assert!(body(&response).contains(r#""violated-policies":["a","c"]"#));
    assert_eq!(response.headers()["retry-after"], "9");
    assert_eq!(response.headers()["ratelimit"], r#""a";r=0;t=5, "b";r=7, "c";r=0;t=9"#);
    assert_eq!(response.headers()["ratelimit-policy"], r#""a";q=10;w=300, "b";q=10;w=300, "c";q=10;w=300"#);
}

#[test]
fn a_limit_that_charged_two_buckets_is_named_once() {
    let mut what = refused(9 * SECOND);
    what.statuses.insert(0, status(0, Admission::Refused { wait: Span::from_secs(2) }));
    what.statuses.push(status(0, Admission::Admitted));
    let response = respond(&RefuseSettings::default(), &["a"], &what, "application/json");
    assert!(body(&response).contains(r#""violated-policies":["a"]"#));
    assert_eq!(response.headers()["ratelimit"], r#""a";r=0;t=9"#);
}

#[test]
fn a_limit_that_only_observes_is_not_shown() {
    let mut observed = status(1, Admission::Refused { wait: Span::from_secs(99) });
    observed.charge.effect = Effect::Observe;
    let mut what = refused(SECOND);
    what.statuses.push(observed);
    let response = respond(&RefuseSettings::default(), &["a", "quiet"], &what, "application/json");
    assert!(!format!("{response:?}").contains("quiet"));
    assert!(rate_limit_headers(ShowLimits::Legacy, &policy(&["a", "quiet"]), &[observed]).is_none());
}

#[test]
fn hostile_names_stay_text() {
    let response =
        respond(&RefuseSettings::default(), &["a\"b\\c\u{e9}\r\n"], &refused(SECOND), "application/json");
    assert_eq!(response.headers()["ratelimit"], r#""a\"b\\c???";r=0;t=1"#);
    assert!(body(&response).contains(r#"["a\"b\\cé??"]"#));
}

#[test]
fn hostile_identities_stay_text() {
    let id = HeaderValue::from_bytes(b"\"><script>alert(1)</script>\"}\xff").unwrap();
    for (accept, safe) in [
        ("text/html", "&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;}?"),
        ("application/json", "urn:request:%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%7D%FF\"}"),
    ] {
        let accept = HeaderValue::from_static(accept);
        let negotiation = Negotiation {
            accept: Some(&accept),
            head: false,
            request_id: &id,
            language: PageLanguage::default(),
            offer: None,
        };
        let settings = RefuseSettings::default();
        for response in [
            refusal(&settings, &policy(&["a"]), &refused(1), &negotiation),
            problem(ProblemKind::Malformed, &negotiation),
        ] {
            assert!(body(&response).contains(safe), "{}", body(&response));
            assert!(!body(&response).contains("<script"));
        }
    }
}

#[test]
fn a_site_has_pages_of_its_own_and_its_own_status() {
    let settings = RefuseSettings {
        status: StatusCode::SERVICE_UNAVAILABLE,
        pages: RefusalPages {
            html: Some(Template::parse("<p>{{limit}}: {{retry_after}}")),
            json: Some(Template::parse("{\"wait\":{{retry_after}}}")),
            text: Some(Template::parse("{{request_id}}")),
            ..RefusalPages::default()
        },
        headers: ShowLimits::Never,
        ..RefuseSettings::default()
    };
    for (accept, expected) in
        [("text/html", "<p>a&lt;: 3"), ("application/json", "{\"wait\":3}"), ("*/*", "01-ab")]
    {
        let response = respond(&settings, &["a<"], &refused(3 * SECOND), accept);
        assert_eq!(body(&response), expected);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["content-length"], expected.len().to_string().as_str());
        assert!(!response.headers().contains_key("ratelimit"));
        assert!(!response.headers().contains_key("ratelimit-policy"));
    }
    let never = respond(&settings, &["a"], &never_fits(), "text/html");
    assert!(body(&never).contains("Waiting does not help here."), "a page about a wait would lie");
}

#[test]
fn jitter_is_added_to_everything_that_names_the_wait() {
    let settings = RefuseSettings { jitter_permille: 500, ..RefuseSettings::default() };
    let response = respond(&settings, &["a"], &refused(1000 * SECOND), "application/json");
    let shown: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1001..=1500).contains(&shown), "{shown}");
    assert!(body(&response).contains(&format!("Wait {shown} seconds")));
    assert!(body(&response).contains(&format!("\"retry_after\":{shown},")));
    assert_eq!(response.headers()["ratelimit"], r#""a";r=0;t=1000"#, "the bucket knows no jitter");
}

#[test]
fn every_problem_has_its_status_in_every_form() {
    let busy = ProblemKind::Unavailable { wait: Span::from_millis(200) };
    let table = [
        (ProblemKind::Malformed, 400),
        (ProblemKind::MethodNotAllowed, 405),
        (ProblemKind::RequestTimeout, 408),
        (ProblemKind::BodyTooLarge, 413),
        (ProblemKind::TargetTooLong, 414),
        (ProblemKind::UnknownCoding, 415),
        (ProblemKind::UnknownCharset, 415),
        (ProblemKind::HeadersTooLarge, 431),
        (ProblemKind::BadGateway, 502),
        (busy, 503),
        (ProblemKind::GatewayTimeout, 504),
    ];
    let id = HeaderValue::from_static("7");
    for (kind, status) in table {
        for accept in ["*/*", "text/html", "application/problem+json"] {
            let accept = HeaderValue::from_static(accept);
            let response = problem(
                kind,
                &Negotiation {
                    accept: Some(&accept),
                    head: false,
                    request_id: &id,
                    language: PageLanguage::default(),
                    offer: None,
                },
            );
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers().contains_key("retry-after"), kind == busy);
            assert_eq!(response.headers().contains_key("allow"), kind == ProblemKind::MethodNotAllowed);
            assert_eq!(response.headers()["x-request-id"], "7");
            assert!(body(&response).contains(StatusCode::canonical_reason(&response.status()).unwrap()));
        }
    }
    let negotiation = Negotiation {
        accept: Some(&HeaderValue::from_static("application/json")),
        head: false,
        request_id: &id,
        language: PageLanguage::default(),
        offer: None,
    };
    assert_eq!(
        body(&problem(busy, &negotiation)),
        concat!(
            r#"{"type":"about:blank","title":"Service Unavailable","status":503,"#,
            r#""detail":"The application behind this address is busy. Wait 1 second, then try again.","#,
            r#""retry_after":1,"instance":"urn:request:7"}"#
        )
    );
}

#[test]
fn limits_can_be_shown_beside_those_of_the_application() {
    let mut headers = HeaderMap::new();
    headers.insert("ratelimit", HeaderValue::from_static("\"theirs\";r=1"));
    rate_limit_headers(ShowLimits::Always, &policy(&["address"]), &[status(0, Admission::Admitted)])
        .unwrap()
        .append_to(&mut headers);
    assert_eq!(
        lines(&headers),
        [
            "ratelimit-policy: \"address\";q=10;w=300",
            "ratelimit: \"address\";r=7;t=30",
            "ratelimit: \"theirs\";r=1"
        ]
    );
}

#[test]
fn a_refusal_that_names_no_limit_has_an_empty_list_and_a_problem_has_none() {
    let what = Refusal {
        route: 0,
        wait: Some(Span::from_secs(3)),
        statuses: smallvec![],
        attempt: DecidedAttempt::default(),
    };
    let refused = respond(&RefuseSettings::default(), &[], &what, "application/json");
    assert!(
        body(&refused).contains(r#""retry_after":3,"violated-policies":[],"instance""#),
        "{}",
        body(&refused)
    );
}

#[test]
fn a_remembered_refusal_is_a_fresh_one_but_for_its_id() {
    let page = |text| Some(Template::parse(text));
    let pages = RefusalPages {
        html: page("<p>{{request_id}}{{request_id}} {{wait}}"),
        json: page("{\"id\":\"{{request_id}}\"}"),
        text: page("{{request_id}}"),
        ..RefusalPages::default()
    };
    let configured = RefuseSettings { pages: pages.clone(), ..RefuseSettings::default() };
    let of_route = RefuseSettings { of_routes: vec![Some(pages)], ..RefuseSettings::default() };
    let policy = policy(&["address"]);
    for settings in [RefuseSettings::default(), configured, of_route].map(Arc::new) {
        let cache = RefusalCache::default();
        let accepts = ["*/*", "text/html", "application/json", "application/problem+json;q=0.5"];
        for (nanos, accept) in
            accepts.iter().flat_map(|accept| [(30 * SECOND, accept), (94 * SECOND, accept)])
        {
            let accept = HeaderValue::from_static(accept);
            for id in ["1-first", "2-the-second", "<\"3\">&%{{wait}}", "1-first"] {
                let request_id = &HeaderValue::from_bytes(id.as_bytes()).unwrap();
                let negotiation = Negotiation {
                    accept: Some(&accept),
                    head: false,
                    request_id,
                    language: PageLanguage::default(),
                    offer: None,
                };
                let given =
                    sent(cache.refusal(1, &settings, &policy, &refused(nanos), &negotiation), request_id);
                let fresh = refusal(&settings, &policy, &refused(nanos), &negotiation);
                assert_eq!((lines(given.headers()), given.body()), (lines(fresh.headers()), fresh.body()));
            }
        }
    }
}

#[test]
fn a_refusal_is_not_remembered_across_a_change_of_the_rules() {
    let (cache, settings) = (RefusalCache::default(), Arc::new(RefuseSettings::default()));
    let id = HeaderValue::from_static("1");
    let negotiation = Negotiation {
        accept: None,
        head: false,
        request_id: &id,
        language: PageLanguage::default(),
        offer: None,
    };
    let named = |generation, name: &'static str, settings: &Arc<RefuseSettings>| {
        let given = cache.refusal(generation, settings, &policy(&[name]), &refused(SECOND), &negotiation);
        let response = sent(given, &id);
        response.headers()["ratelimit"].to_str().unwrap().to_owned()
    };
    assert!(named(1, "address", &settings).starts_with("\"address\""));
    assert!(named(2, "client", &settings).starts_with("\"client\""));
    let other =
        Arc::new(RefuseSettings { status: StatusCode::SERVICE_UNAVAILABLE, ..RefuseSettings::default() });
    let given = cache.refusal(2, &other, &policy(&["client"]), &refused(SECOND), &negotiation);
    assert_eq!(sent(given, &id).status(), 503);
}
