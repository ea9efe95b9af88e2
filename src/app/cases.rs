//! Decides cases, one after the other, with the gate's own functions: on one clock, which stands still between them, and
//! with one set of buckets.
//!
//! Reading cases is left to the configuration, printing to the command line.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use http::header::COOKIE;

use super::explain::{RequestParts, too_long};
use crate::config::Config;
use crate::config::cases::{CaseAnswer, ExpectedVerdict, TestCase};
use crate::config::values::Duration;
use crate::engine::{Decision, Engine, LimitStatus, Refusal, Reservation, Rules};
use crate::event::Events;
use crate::observe::admin::ExplainRequest;
use crate::policy::Judgement;
use crate::policy::response::{BodyPrefix, ResponseView};
use crate::proxy::request::client_addr::ClientSettings;
use crate::proxy::respond;
use crate::store::memory::TooLarge;
use crate::time::{Clock, Span, Time};

/// A configuration on its way through cases.
pub struct CaseRun {
    engine: Engine,
    rules: Arc<Rules>,
    clock: Clock,
    client: ClientSettings,
    /// The cookie that the gate gave to each browser.
    cookies: HashMap<String, HeaderValue>,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseVerdict {
    /// Forwarded, after it was held for this time. Limits that only observe, and would have refused it.
    Admitted(Span, Vec<String>),
    /// Refused by these limits: the client is told this wait, or none.
    Refused(Option<Span>, Vec<String>),
    /// Refused so by a defence, whatever the limits say.
    RefusedByDefence(String),
    /// Forwarded, and not an attempt.
    Uncounted,
    /// Answered so before it is decided, whatever the limits say.
    Answered(String),
}

impl CaseRun {
    /// With new buckets.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space for the buckets.
    pub fn new(config: Config) -> Result<Self, TooLarge> {
        let Config { policy, client, store, .. } = config;
        let clock = Clock::manual(START);
        let engine = Engine::new(policy, store.capacity.min(MAX_BUCKETS), clock.clone(), Events::default())?;
        let rules = Arc::clone(&engine.rules());
        Ok(Self { engine, rules, clock, client, cookies: HashMap::new() })
    }

    /// Makes all requests of a case. Returns what is not as expected, of the first for which anything is.
    pub fn differences(&mut self, case: &TestCase) -> Vec<String> {
        let mut found = Vec::new();
        for number in 1..=case.times {
            let differences = differences(case, &self.decide(case));
            if found.is_empty() {
                let which = match case.times {
                    1 => String::new(),
                    times => format!(" ({number} of {times})"),
                };
                let line = |what: String| format!("{}: {}{which}: {what}", case.place, case.name);
                found = differences.into_iter().map(line).collect();
            }
        }
        found
    }

    /// Decides the request of a case, and settles it by its answer.
    pub fn decide(&mut self, case: &TestCase) -> CaseVerdict {
        self.clock.set(START.after(case.at));
        let asked = self.with_cookie(case);
        let parts = RequestParts::of(&asked);
        let attempt = match parts.attempt(&self.client, &asked) {
            Ok(attempt) => attempt,
            Err(answer) => return CaseVerdict::Answered(answer),
        };
        if let Some(answer) = too_long(&self.rules.policy, &attempt) {
            return CaseVerdict::Answered(answer);
        }
        match self.engine.decide_in_memory(&self.rules, &attempt, self.clock.now()) {
            Ok(Decision::Uncounted) => CaseVerdict::Uncounted,
            Ok(Decision::Admitted(reservation)) => {
                let observing =
                    self.names(reservation.statuses.iter().filter(|status| status.would_refuse()));
                let hold = reservation.hold;
                self.settle(reservation, case);
                CaseVerdict::Admitted(hold, observing)
            }
            Ok(Decision::Refused(refusal)) => self.refused(&refusal),
            Ok(Decision::RefusedByDefence(refusal)) => {
                CaseVerdict::RefusedByDefence(format!("{}, because {}", refusal.status.as_u16(), refusal.why))
            }
            Ok(Decision::Denied) => CaseVerdict::Answered("503, because the store is away".to_owned()),
            Err(why) => CaseVerdict::Answered(format!("400, because {why}")),
        }
    }

    fn refused(&self, refusal: &Refusal) -> CaseVerdict {
        let wait = respond::told_wait(&self.rules.policy, refusal);
        CaseVerdict::Refused(wait, self.names(refusal.violated()))
    }

    /// The request with the cookie of its browser.
    fn with_cookie(&self, case: &TestCase) -> ExplainRequest {
        let mut request = case.request.clone();
        let cookie = case.browser.as_ref().and_then(|browser| self.cookies.get(browser));
        request.headers.extend(cookie.map(|cookie| (COOKIE, cookie.clone())));
        request
    }

    fn settle(&mut self, reservation: Box<Reservation>, case: &TestCase) {
        let judged = match &case.answer {
            Some(CaseAnswer { status, headers, body }) => {
                reservation.remember_new_cookies(&self.engine, headers);
                let response = ResponseView { method: &case.request.method, status: *status, headers };
                let read = body.len().min(BodyPrefix::MAX);
                let complete = read == body.len();
                let body = BodyPrefix { bytes: &body.as_bytes()[..read], complete };
                reservation.judge(&self.rules, &response, body)
            }
            None => Judgement::UNANSWERED,
        };
        let at = self.engine.time().after(reservation.hold);
        let cookie = reservation.settle_and_claim(&self.engine, &self.rules, (judged, at), false);
        let pair = cookie.and_then(|cookie| {
            let pair = cookie.as_bytes().split(|byte| *byte == b';').next()?;
            HeaderValue::from_bytes(pair).ok()
        });
        if let (Some(browser), Some(pair)) = (&case.browser, pair) {
            self.cookies.insert(browser.clone(), pair);
        }
    }

    /// The names of the limits of these statuses, each once.
    fn names<'s>(&self, statuses: impl Iterator<Item = &'s LimitStatus>) -> Vec<String> {
        let policy = &self.rules.policy;
        let of =
            |status: &LimitStatus| policy.limits[policy.rate_limit_of(status.charge.limit)].name.to_string();
        let mut names: Vec<String> = statuses.map(of).collect();
        names.dedup();
        names
    }
}

/// What is not as expected.
fn differences(case: &TestCase, verdict: &CaseVerdict) -> Vec<String> {
    let differ = |what: &str, expected: &str, got: &str| format!("expected {what}{expected}, got {got}");
    let (wait, by): (_, &[String]) = match (case.expected, verdict) {
        (ExpectedVerdict::Admit, CaseVerdict::Admitted(hold, _)) => (Some(*hold), &[]),
        (ExpectedVerdict::Refuse, CaseVerdict::Refused(wait, by)) => (*wait, by),
        (ExpectedVerdict::Refuse, CaseVerdict::RefusedByDefence(_))
        | (ExpectedVerdict::Uncounted, CaseVerdict::Uncounted) => (None, &[]),
        (expected, got) => return vec![differ("", expected.word(), &got.to_string())],
    };
    let mut found = Vec::new();
    if let Some(expected) = case.wait.filter(|expected| wait.map(in_millis) != Some(*expected)) {
        found.push(differ("wait ", &Duration(expected).to_string(), &told(wait)));
    }
    if let Some(expected) = case.by.as_ref().filter(|expected| !by.contains(expected)) {
        let by = if by.is_empty() { "no limit".to_owned() } else { by.join(" and ") };
        found.push(differ("by ", expected, &by));
    }
    found
}

/// Rounded up to what a file can say.
fn in_millis(span: Span) -> Span {
    Span::from_millis(span.as_nanos().div_ceil(1_000_000))
}

fn told(wait: Option<Span>) -> String {
    wait.map_or_else(|| "no wait that helps".to_owned(), |wait| Duration(in_millis(wait)).to_string())
}

impl fmt::Display for CaseVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted(_, observing) if observing.is_empty() => f.write_str("admit"),
            Self::Admitted(_, observing) => {
                write!(f, "admit: {} would refuse, and only observes", observing.join(" and "))
            }
            Self::Refused(wait, by) => write!(f, "refuse by {}, wait {}", by.join(" and "), told(*wait)),
            Self::RefusedByDefence(answer) => write!(f, "refuse with {answer}"),
            Self::Uncounted => f.write_str("uncounted"),
            Self::Answered(answer) => write!(f, "the answer {answer}"),
        }
    }
}

/// When the clock starts: a Thursday at midnight, 2026-01-01, at which periods of UTC up to a week begin.
const START: Time = Time::from_nanos(1_767_225_600_000_000_000);
/// Buckets of each limit. More than all requests of a usual file can fill.
const MAX_BUCKETS: usize = 65_536;
