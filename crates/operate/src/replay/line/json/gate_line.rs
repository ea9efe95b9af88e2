//! One line of tollgate's own logs: what the gate decided, and what came of it.
//!
//! Unlike a [`LoggedRequest`](super::LoggedRequest) it is not there to be decided again, so it has no method, path or status.

use std::borrow::Cow;

use super::{JsonFields, LineError, client};
use crate::event::LimitDecision;
use crate::policy::attempt::Client;
use crate::policy::outcome::Outcome;
use crate::time::Time;

/// A line of the decision log, about one limit of an attempt, or of the access log in JSON, about all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct GateLine<'a> {
    /// When the request arrived.
    pub at: Time,
    /// `None` if the log has hashes instead of addresses. One without an address may be a person who was forgotten.
    pub client: Option<Client>,
    /// The route; `None` if the request was no attempt.
    pub route: Option<Cow<'a, str>>,
    /// The host, which only the access log has.
    pub host: Option<Cow<'a, str>>,
    /// The hash of the account, if the attempt has one.
    pub account: Option<u64>,
    /// The limit that a line of the decision log is about, and its verdict.
    pub verdict: Option<(Cow<'a, str>, LimitDecision)>,
    /// When the limits decided, to the nanosecond, in a line of the decision log; else when the request arrived.
    pub decided: Time,
    /// The limit that refused it.
    pub refused_by: Option<Cow<'a, str>>,
    /// Whether a limit that observes would have refused it.
    pub would_refuse: bool,
    /// How it was settled; `None` if the application did not see it.
    pub outcome: Option<Outcome>,
    /// Whether its client is known as the owner of the account; `None` in the access log.
    pub is_owner: Option<bool>,
    /// Whether its route was in attack mode.
    pub is_alarmed: bool,
    /// What the lines of one attempt have in common; `None` where an attempt is one line.
    pub attempt: Option<AttemptId<'a>>,
}

/// What tells an attempt from those before and after it.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct AttemptId<'a> {
    /// The id of the request, which a client may choose.
    pub request: Option<Cow<'a, str>>,
    /// The nanoseconds of its second.
    pub nanoseconds: f64,
}

impl GateLine<'_> {
    /// Whether it was settled as a success.
    #[must_use]
    pub fn has_signed_in(&self) -> bool {
        self.outcome == Some(Outcome::Success)
    }

    /// Whether it was settled as a failure.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.outcome == Some(Outcome::Failure)
    }
}

impl<'a> JsonFields<'a> {
    pub(super) fn into_gate_line(self) -> Result<GateLine<'a>, LineError> {
        let is_decision = !self.verdict.is_absent() && self.status.is_absent();
        if !is_decision && !self.is_of_gate {
            return Err(LineError::NotOfGate);
        }
        let at = self.time.time().ok_or(LineError::NoTime)?;
        let client = match client(self.client_text().ok_or(LineError::NoClient)?) {
            Ok(client) => Some(client),
            Err(LineError::HashedClient) => None,
            Err(error) => return Err(error),
        };
        let verdict = self.verdict.text().filter(|_| is_decision);
        let (is_refusal, is_observed) = (verdict == Some("refuse"), verdict == Some("observe"));
        let nanoseconds = self.nanoseconds.number().unwrap_or_default();
        let exact = super::exact_time(at, nanoseconds);
        let decided = exact.after(self.decided_us.number().map(super::span_of_micros).unwrap_or_default());
        let decision = verdict.and_then(|name| LimitDecision::ALL.into_iter().find(|all| all.name() == name));
        let limit = self.limit.text().filter(|_| is_decision).map(|limit| Cow::Owned(limit.to_owned()));
        let request = self.request_id.into_text();
        Ok(GateLine {
            at,
            client,
            route: self.route.into_text(),
            host: self.host.into_text(),
            account: self.account.text().and_then(|digits| u64::from_str_radix(digits, 16).ok()),
            verdict: limit.zip(decision),
            decided,
            would_refuse: is_observed || self.would_refuse.text().is_some(),
            outcome: self.outcome.text().and_then(Outcome::of_name),
            is_owner: self.is_owner.boolean(),
            is_alarmed: self.is_alarmed.boolean().unwrap_or_default(),
            attempt: is_decision.then_some(AttemptId { request, nanoseconds }),
            refused_by: match is_decision {
                true => self.limit.into_text().filter(|_| is_refusal),
                false => self.refused_by.into_text(),
            },
        })
    }
}
