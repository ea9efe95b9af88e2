//! `X-RateLimit-*`: the numbers of one limit, never of one by account.

use super::*;
use crate::policy::key::KeyPart;

const NAMES: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

fn legacy() -> RefuseSettings {
    RefuseSettings { headers: ShowLimits::Legacy, ..RefuseSettings::default() }
}

fn numbers(headers: &HeaderMap) -> [Option<&str>; 3] {
    NAMES.map(|name| headers.get(name).map(|value| value.to_str().unwrap()))
}

fn refused_by(statuses: SmallVec<[LimitStatus; 4]>, wait: u64) -> Refusal {
    let wait = Some(Span::from_secs(wait));
    Refusal { route: 0, wait, statuses: statuses.into_iter().collect(), attempt: DecidedAttempt::default() }
}

#[test]
fn a_refusal_has_the_numbers_of_the_limit_that_refuses_longest() {
    let refuses = |limit, wait| status(limit, Admission::Refused { wait: Span::from_secs(wait) });
    let statuses = smallvec![status(0, Admission::Admitted), refuses(1, 5), refuses(2, 21)];
    let what = refused_by(statuses, 21);
    let response = respond(&legacy(), &["a", "b", "c"], &what, "application/json");
    assert_eq!(numbers(response.headers()), [Some("10"), Some("0"), Some("21")]);
    assert_eq!(response.headers()["retry-after"], "21");
    assert_eq!(response.headers()["ratelimit"], r#""a";r=7, "b";r=0;t=5, "c";r=0;t=21"#);
    let response = respond(&legacy(), &["address"], &never_fits(), "application/json");
    assert_eq!(numbers(response.headers()), [Some("10"), Some("9"), None], "waiting does not help");
    for headers in [ShowLimits::Refused, ShowLimits::Always, ShowLimits::Never] {
        let settings = RefuseSettings { headers, ..legacy() };
        let response = respond(&settings, &["a", "b", "c"], &what, "application/json");
        assert_eq!(numbers(response.headers()), [None; 3], "{headers:?}");
    }
}

#[test]
fn a_limit_of_accounts_lends_no_numbers() {
    let account = |name| Limit { key: vec![KeyPart::User], ..Limit::new(name, spec()) };
    let refuses = status(1, Admission::Refused { wait: Span::from_secs(77) });
    let of = |policy: &Policy, statuses| {
        let what = refused_by(statuses, 77);
        let id = HeaderValue::from_static("7");
        let (accept, head, language, offer) = (None, false, PageLanguage::default(), None);
        let negotiation = Negotiation { accept, head, request_id: &id, language, offer };
        refusal(&legacy(), policy, &what, &negotiation)
    };
    let both = Policy::new(Vec::new(), vec![Limit::new("address", spec()), account("account")]);
    let response = of(&both, smallvec![status(0, Admission::Admitted), refuses]);
    assert_eq!(numbers(response.headers()), [Some("10"), Some("7"), Some("30")]);
    let alone = Policy::new(Vec::new(), vec![account("other"), account("account")]);
    let response = of(&alone, smallvec![status(0, Admission::Admitted), refuses]);
    assert_eq!(numbers(response.headers()), [None; 3]);
}

#[test]
fn an_attempt_that_passes_has_the_numbers_of_the_scarcest_limit() {
    let mut scarce = status(1, Admission::Admitted);
    scarce.verdict.left = 2;
    let statuses = [status(0, Admission::Admitted), scarce];
    let headers = |shown| {
        let mut headers = HeaderMap::new();
        let found = rate_limit_headers(shown, &policy(&["a", "b"]), &statuses);
        found.into_iter().for_each(|found| found.append_to(&mut headers));
        headers
    };
    let legacy = headers(ShowLimits::Legacy);
    assert_eq!(numbers(&legacy), [Some("10"), Some("2"), Some("30")]);
    assert_eq!(legacy["ratelimit"], r#""a";r=7;t=30, "b";r=2;t=30"#);
    assert_eq!(numbers(&headers(ShowLimits::Always)), [None; 3]);
    assert!(headers(ShowLimits::Refused).is_empty() && headers(ShowLimits::Never).is_empty());
}
