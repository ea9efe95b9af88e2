//! What can be judged, and outcomes of responses that are seen in part.

use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};

use super::*;
use crate::bucket::{Continuous, Spec};
use crate::policy::RouteReading;
use crate::policy::response::Glob;
use crate::time::Span;

fn policy(limits: Vec<Limit>, user: Vec<Field>) -> Policy {
    let limits_of_route = (0..limits.len()).collect();
    let route = Route {
        reading: RouteReading { user, ..RouteReading::default() },
        limits: limits_of_route,
        ..Route::new("login", vec!["POST /login".parse().unwrap()])
    };
    Policy::new(vec![route], limits)
}

fn limit(key: Vec<KeyPart>) -> Limit {
    let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(1), 1).unwrap());
    Limit { key, ..Limit::new("limit", spec) }
}

#[test]
fn a_limit_is_judged_if_the_log_shows_its_key() {
    let columns = LogColumns { host: true, user: true, location: true, decisions: false };
    let cases = [
        (KeyPart::Ip, LogColumns::default(), true),
        (KeyPart::All, LogColumns::default(), true),
        (KeyPart::Host, LogColumns::default(), false),
        (KeyPart::Host, columns, true),
        (KeyPart::User, LogColumns::default(), false),
        (KeyPart::User, columns, true),
        (KeyPart::Owner, columns, false),
        (KeyPart::Cookie("a".into()), columns, false),
    ];
    for (key, columns, is_judged) in cases {
        let mut policy = policy(vec![limit(vec![key.clone()])], vec![Field::Basic]);
        assert_eq!(restrict(&mut policy, columns)[0].is_none(), is_judged, "{key:?}");
        assert_eq!(policy.limits[0].mode == Mode::Enforce, is_judged);
    }
    let mut by_form = policy(vec![limit(vec![KeyPart::User])], vec![Field::form("name").unwrap()]);
    assert_eq!(restrict(&mut by_form, columns)[0], Some("the log has no accounts"));
}

fn rule(status: Option<u16>, location: Option<&str>, cookie: Option<&str>) -> OutcomeRule {
    OutcomeRule {
        status: status.map(|status| [status..=status].into_iter().collect()),
        location: location.map(Glob::new),
        set_cookie: cookie.map(Glob::new),
        ..OutcomeRule::default()
    }
}

fn outcome(rules: &OutcomeRules, columns: LogColumns, status: u16, location: Option<&str>) -> Outcome {
    let route = Route { rules: rules.clone(), ..Route::new("login", Vec::new()) };
    let headers: HeaderMap =
        location.map(|location| (LOCATION, location.parse().unwrap())).into_iter().collect();
    let status = StatusCode::from_u16(status).unwrap();
    let response = ResponseView { method: &Method::POST, status, headers: &headers };
    VisibleRules::of(&route, columns).outcome(&response)
}

#[test]
fn a_rule_holds_if_the_part_that_the_log_shows_does() {
    let rules = OutcomeRules {
        success: vec![rule(Some(302), None, Some("session"))],
        failure: vec![rule(Some(200), None, None)],
        otherwise: Outcome::Neutral,
        ..OutcomeRules::default()
    };
    for (status, expected) in
        [(302, Outcome::Success), (200, Outcome::Failure), (404, Outcome::Neutral), (500, Outcome::Failure)]
    {
        assert_eq!(outcome(&rules, LogColumns::default(), status, None), expected, "{status}");
    }
}

#[test]
fn a_location_decides_where_the_log_has_it_and_a_doubt_is_a_failure() {
    let rules = OutcomeRules {
        success: vec![rule(Some(302), Some("/home*"), None)],
        failure: vec![rule(Some(302), Some("*error*"), None)],
        ..OutcomeRules::default()
    };
    let with_location = LogColumns { location: true, ..LogColumns::default() };
    assert_eq!(outcome(&rules, with_location, 302, Some("/home")), Outcome::Success);
    assert_eq!(outcome(&rules, with_location, 302, Some("/error")), Outcome::Failure);
    assert_eq!(outcome(&rules, LogColumns::default(), 302, None), Outcome::Failure);
}

#[test]
fn a_rule_of_which_nothing_is_seen_is_left_out_and_told() {
    let route = Route {
        rules: OutcomeRules { success: vec![rule(None, None, Some("session"))], ..OutcomeRules::default() },
        ..Route::new("login", Vec::new())
    };
    assert!(VisibleRules::of(&route, LogColumns::default()).is_partial);
    assert_eq!(outcome(&route.rules, LogColumns::default(), 200, None), Outcome::Neutral);
}
