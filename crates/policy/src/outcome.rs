//! The outcome of an attempt: success, failure, or neither, by rules about the application's response.
//!
//! The first matching rule of `failure` counts, then the first of `success`, then of `neutral`, else `otherwise`. It
//! reads responses and decides nothing about tokens. A rule that depends on unread parts of the body is undecided, and
//! if that makes a difference, the outcome is a failure.

mod rule;

use http::{HeaderMap, HeaderName, StatusCode};

pub use self::rule::OutcomeRule;

use super::response::body::BodyView;
use super::response::{BodyPrefix, ResponseView};

/// The outcome of an admitted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The sign-in succeeded.
    Success,
    /// The sign-in failed, or the client hung up before the response.
    Failure,
    /// The response shows neither.
    Neutral,
    /// No response, and the application cannot have checked the password: it never got the request. No rule results in
    /// it.
    Error,
}

impl Outcome {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::Neutral, Self::Error];

    /// Its word, in logs, metrics and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Neutral => "neutral",
            Self::Error => "error",
        }
    }

    /// The outcome of this word.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// The outcome of an attempt that two routes count. The gate cannot know which of them the application used: so a
    /// failure by either is a failure, and a success has to be one by both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failure, _) | (_, Self::Failure) => Self::Failure,
            (Self::Success, other) => other,
            (one, _) => one,
        }
    }
}

/// An outcome, and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// The outcome.
    pub outcome: Outcome,
    /// How many failures a failure counts as, at least 1.
    pub weight: u32,
    /// Whether an answer told the outcome: not if none came, or if its status or an unread body hides it.
    pub is_said: bool,
}

impl From<Outcome> for Judgement {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, weight: 1, is_said: true }
    }
}

impl Judgement {
    /// The judgement of an attempt that the application never got.
    pub const NEVER_SENT: Self = Self { outcome: Outcome::Error, weight: 1, is_said: true };

    /// The judgement of an attempt without an answer.
    pub const UNANSWERED: Self = Self { outcome: Outcome::Failure, weight: 1, is_said: false };

    /// The judgement of an attempt that two routes count: see [`Outcome::and`]. The heavier weight counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            outcome: self.outcome.and(other.outcome),
            weight: self.weight.max(other.weight),
            is_said: self.is_said && other.is_said,
        }
    }
}

/// The rules of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeRules {
    /// The response is a failure if any of these rules holds.
    pub failure: Vec<OutcomeRule>,
    /// The response is a success if any of these rules holds and none of `failure` does.
    pub success: Vec<OutcomeRule>,
    /// The response is neutral if any of these rules holds and it is neither of the two. These rules read heads only.
    pub neutral: Vec<OutcomeRule>,
    /// The outcome if no rule holds, unless the status alone makes it a failure.
    pub otherwise: Outcome,
    /// The header in which the application says the outcome itself; without it the rules decide.
    pub header: Option<HeaderName>,
}

impl Default for OutcomeRules {
    fn default() -> Self {
        let none = Vec::new;
        Self { failure: none(), success: none(), neutral: none(), otherwise: Outcome::Neutral, header: None }
    }
}

impl OutcomeRules {
    /// Whether no response differs from another.
    #[must_use]
    pub fn are_silent(&self) -> bool {
        self.header.is_none()
            && [&self.success, &self.failure, &self.neutral].into_iter().all(|rules| rules.is_empty())
    }

    /// Whether a response can be anything but a failure or neutral, or one that no rule knows can be neutral.
    #[must_use]
    pub fn know_successes(&self) -> bool {
        !self.success.is_empty() || self.header.is_some() || self.otherwise != Outcome::Failure
    }

    /// Takes every response that no rule knows for a failure.
    pub fn fail_otherwise(&mut self) {
        self.otherwise = Outcome::Failure;
    }

    /// Whether any rule reads bodies.
    #[must_use]
    pub fn read_bodies(&self) -> bool {
        self.failure.iter().chain(&self.success).any(OutcomeRule::reads_bodies)
    }

    /// The judgement by the head alone; `None` if it depends on the body.
    #[must_use]
    pub fn by_head(&self, response: &ResponseView<'_>) -> Option<Judgement> {
        if let Some(outcome) = self.said(response.headers) {
            return Some(outcome.into());
        }
        let view = if self.read_bodies() { BodyView::before_body(response) } else { BodyView::NotRead };
        let checked = self.check(response, &view);
        let outcome = checked.or_else(|| view.is_unreadable().then_some(Outcome::Failure))?;
        // A weight may depend on the body, too.
        let is_known = !self.has_weights() || !self.read_bodies() || view.is_unreadable();
        let is_judged = outcome != Outcome::Failure || is_known;
        is_judged.then(|| self.weighed(checked, response, &view))
    }

    /// The judgement by head and body. `body` has to hold all bytes, or the first [`BodyPrefix::MAX`]; bytes beyond are not
    /// read.
    #[must_use]
    pub fn by_body(&self, response: &ResponseView<'_>, body: BodyPrefix<'_>) -> Judgement {
        if let Some(outcome) = self.said(response.headers) {
            return outcome.into();
        }
        let view = BodyView::read(response, body);
        self.weighed(self.check(response, &view), response, &view)
    }

    fn has_weights(&self) -> bool {
        self.failure.iter().any(|rule| rule.extra > 0)
    }

    /// The outcome with the weight of the first rule that holds, or of one before it that is undecided and weighs more.
    /// What is undecided is a failure.
    fn weighed(
        &self,
        checked: Option<Outcome>,
        response: &ResponseView<'_>,
        view: &BodyView<'_>,
    ) -> Judgement {
        let outcome = checked.unwrap_or(Outcome::Failure);
        if outcome != Outcome::Failure {
            return outcome.into();
        }
        let names_it = || any(&self.failure, |rule| rule.holds(response, view)) == Some(true);
        let is_said = checked.is_some() && (!hides_outcome(response.status) || names_it());
        if !self.has_weights() {
            return Judgement { is_said, ..outcome.into() };
        }
        let mut extra = 0;
        for rule in &self.failure {
            let holds = rule.holds(response, view);
            if holds != Some(false) {
                extra = rule.extra.max(extra);
            }
            if holds == Some(true) {
                break;
            }
        }
        Judgement { outcome, weight: extra.saturating_add(1), is_said }
    }

    /// What the application itself says; an unknown word, or more than one header, is a failure.
    fn said(&self, headers: &HeaderMap) -> Option<Outcome> {
        let mut values = headers.get_all(self.header.as_ref()?).iter();
        Some(match (values.next()?.as_bytes(), values.next()) {
            (b"success", None) => Outcome::Success,
            (b"neutral", None) => Outcome::Neutral,
            _ => Outcome::Failure,
        })
    }

    /// `None` if unread parts of the body make a difference.
    fn check(&self, response: &ResponseView<'_>, view: &BodyView<'_>) -> Option<Outcome> {
        let any = |rules: &[OutcomeRule]| any(rules, |rule| rule.holds(response, view));
        let rest = || {
            let is_neutral = any(&self.neutral)?;
            Some(if is_neutral { Outcome::Neutral } else { self.default_outcome(response.status) })
        };
        let passed = || match any(&self.success) {
            Some(true) => Some(Outcome::Success),
            Some(false) => rest(),
            None => rest().filter(|rest| *rest == Outcome::Success),
        };
        match any(&self.failure) {
            Some(true) => Some(Outcome::Failure),
            Some(false) => passed(),
            None => passed().filter(|passed| *passed == Outcome::Failure),
        }
    }

    /// The outcome if no rule holds.
    fn default_outcome(&self, status: StatusCode) -> Outcome {
        if hides_outcome(status) { Outcome::Failure } else { self.otherwise }
    }
}

/// Whether the status alone hides what became of the attempt.
fn hides_outcome(status: StatusCode) -> bool {
    status.is_server_error() || MASKING_STATUSES.contains(&status)
}

/// Whether any rule holds; `None` if that depends on an undecided rule.
fn any(rules: &[OutcomeRule], holds: impl Fn(&OutcomeRule) -> Option<bool>) -> Option<bool> {
    let mut known = Some(false);
    for rule in rules {
        match holds(rule) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => known = None,
        }
    }
    known
}

/// Statuses by which a client's `Range`, `If-*`, `A-IM`, `Negotiate` or `Accept` can replace the response to a wrong
/// password, after the application has checked it (RFC 9110, RFC 3229, RFC 2295).
const MASKING_STATUSES: [StatusCode; 7] = [
    StatusCode::PARTIAL_CONTENT,
    StatusCode::IM_USED,
    StatusCode::MULTIPLE_CHOICES,
    StatusCode::NOT_MODIFIED,
    StatusCode::NOT_ACCEPTABLE,
    StatusCode::PRECONDITION_FAILED,
    StatusCode::RANGE_NOT_SATISFIABLE,
];

#[cfg(test)]
mod tests;
