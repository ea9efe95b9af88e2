//! Sample events for the tests of this layer.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, Uri, Version};
use smallvec::smallvec;

use crate::bucket::{Continuous, Spec};
use crate::event::{AccessLogEntry, AlarmChange, AttemptRecord, LimitDecision, LimitRecord, WiringSigns};
use crate::policy::attempt::Client;
use crate::policy::{AlarmFigures, AlarmWords, AttemptFacts, Limit, Policy, Route};
use crate::time::{Span, Time};

/// 2026-11-20 23:21:52.043 UTC.
pub(super) const AT: Time = Time::from_nanos(1_795_216_912_043_000_000);

/// The entry of a refused attempt, with every field filled.
pub(super) fn entry() -> AccessLogEntry {
    AccessLogEntry {
        client: Client::from_ip([203, 0, 113, 9].into()),
        is_request: true,
        method: Method::POST,
        target: "/login?next=%2F".parse().unwrap(),
        version: Version::HTTP_11,
        host: Some(HeaderValue::from_static("intranet.example.org")),
        referer: Some(HeaderValue::from_static("https://intranet.example.org/login")),
        user_agent: Some(HeaderValue::from_static("Mozilla/5.0 (X11; Linux x86_64)")),
        request_id: Some(HeaderValue::from_static("0192f0c1")),
        signs: WiringSigns::default(),
        attempt: Some(Box::new(attempt())),
        span: None,
        status: StatusCode::TOO_MANY_REQUESTS,
        bytes: 512,
        complete: true,
        at: AT,
        duration: Span::from_nanos(1_234_567),
        added: Span::from_nanos(4_250),
    }
}

/// An alarm that begins on the route `login`.
pub(super) fn alarm(report_to: &Uri) -> AlarmChange<'_> {
    let figures = AlarmFigures { failures: 90, share: 0.95 };
    let (route, report_to) = ("login", Some(report_to));
    AlarmChange { route, words: &WORDS, report_to, begins: true, figures, at: AT }
}

/// A failed attempt of an account, refused by the limit `address` of the route `login`.
pub(super) fn attempt() -> AttemptRecord {
    let refused = LimitRecord {
        limit: 0,
        decision: LimitDecision::Refuse,
        left: 0,
        wait: Some(Span::from_millis(21_500)),
    };
    AttemptRecord {
        policy: Arc::new(policy(&["login"], &["address", "account"])),
        route: 0,
        limits: smallvec![
            refused,
            LimitRecord { limit: 1, decision: LimitDecision::Admit, left: 4, wait: Some(Span::ZERO) }
        ],
        facts: AttemptFacts {
            account: Some(0x1234_5678_9abc),
            failures_before: 3,
            ..AttemptFacts::default()
        },
        decided: AT,
        settled: None,
    }
}

/// One route for each name, and all limits on every route.
pub(super) fn policy(routes: &[&str], limits: &[&str]) -> Policy {
    let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
    let route = |name: &&str| Route {
        limits: (0..limits.len()).collect(),
        ..Route::new(name, vec!["POST /login".parse().unwrap()])
    };
    let limit = |name: &&str| Limit::new(name, spec);
    Policy::new(routes.iter().map(route).collect(), limits.iter().map(limit).collect())
}

const WORDS: AlarmWords = AlarmWords {
    event: "attack",
    gauge: "tollgate_alarm",
    help: "Whether it is on",
    begins: "it begins",
    ends: "it ends",
};
