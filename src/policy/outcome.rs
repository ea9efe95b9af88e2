//! What came of an attempt: success, failure, or neither, by rules about the application's answer.
//!
//! The first matching rule of `failure` counts, then the first of `success`, then of `neutral`, else `otherwise`. It reads
//! answers and decides nothing about tokens. A rule that would have had to see more than was seen is not decided, and
//! where that makes a difference the answer is a failure.

mod body;
mod charset;
mod coding;
mod cookie;
mod date;
mod glob;
mod pointer;
mod rule;

use http::{HeaderMap, Method, StatusCode};

pub use self::glob::Glob;
pub use self::pointer::JsonPointer;
pub use self::rule::{OutcomeRule, Statuses};

use self::body::BodyView;

/// What came of an admitted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Somebody signed in.
    Success,
    /// Nobody did; or the client went away before anybody knew.
    Failure,
    /// Something that says neither.
    Neutral,
    /// There is no answer, and the application cannot have judged the password: it never got the request. No rule says
    /// so.
    Error,
}

impl Outcome {
    /// What two routes together make of an attempt that is counted for both: nobody knows by which of them the
    /// application takes it, so a failure by either is one, and a success has to be one by both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failure, _) | (_, Self::Failure) => Self::Failure,
            (Self::Success, other) => other,
            (one, _) => one,
        }
    }
}

/// The rules of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeRules {
    /// Any of these makes an answer a failure.
    pub failure: Vec<OutcomeRule>,
    /// Any of these makes an answer a success, unless it is a failure.
    pub success: Vec<OutcomeRule>,
    /// Any of these makes an answer neither, unless it is one of the two. They are about heads alone.
    pub neutral: Vec<OutcomeRule>,
    /// What an answer is that no rule names, unless its status alone makes it a failure.
    pub otherwise: Outcome,
}

/// The head of an answer, and what it answers.
#[derive(Debug, Clone, Copy)]
pub struct ResponseView<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The answer's status.
    pub status: StatusCode,
    /// The answer's headers, as the application sent them.
    pub headers: &'a HeaderMap,
}

/// What is known of an answer's body when it is judged.
#[derive(Clone, Copy)]
pub struct BodyPrefix<'a> {
    /// The first bytes as they came, encoded as the headers say.
    pub bytes: &'a [u8],
    /// Whether that is all of it.
    pub complete: bool,
}

impl Default for OutcomeRules {
    fn default() -> Self {
        let none = Vec::new;
        Self { failure: none(), success: none(), neutral: none(), otherwise: Outcome::Neutral }
    }
}

impl OutcomeRules {
    /// How much of a body is looked at: bytes, before and after decoding.
    pub const MAX_BODY_READ: usize = 64 * 1024;

    /// Whether any of them looks into bodies.
    #[must_use]
    pub fn read_bodies(&self) -> bool {
        self.failure.iter().chain(&self.success).any(OutcomeRule::reads_bodies)
    }

    /// What the head alone says; `None` if it depends on the body.
    #[must_use]
    pub fn by_head(&self, answer: &ResponseView<'_>) -> Option<Outcome> {
        let page = BodyView::before_body(answer);
        self.check(answer, &page).or_else(|| page.is_unreadable().then_some(Outcome::Failure))
    }

    /// What head and body say together. Of the body as many bytes are needed as there are, or
    /// [`MAX_BODY_READ`](Self::LONGEST); what stands behind them is not known.
    #[must_use]
    pub fn by_body(&self, answer: &ResponseView<'_>, body: BodyPrefix<'_>) -> Outcome {
        self.check(answer, &BodyView::read(answer, body)).unwrap_or(Outcome::Failure)
    }

    /// `None` where what is not known of the body makes a difference.
    fn check(&self, answer: &ResponseView<'_>, page: &BodyView<'_>) -> Option<Outcome> {
        let any = |rules: &[OutcomeRule]| any(rules, |rule| rule.holds(answer, page));
        let rest = || {
            let is_neutral = any(&self.neutral)?;
            Some(if is_neutral { Outcome::Neutral } else { self.default_outcome(answer.status) })
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

    /// What an answer is that no rule names.
    fn default_outcome(&self, status: StatusCode) -> Outcome {
        let hides = status.is_server_error() || MASKING_STATUSES.contains(&status);
        if hides { Outcome::Failure } else { self.otherwise }
    }
}

/// Whether any rule holds; `None` if that depends on one of which it is not known.
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

/// What a client's `Range`, `If-*`, `A-IM`, `Negotiate` or `Accept` can put in the place of the answer to a wrong password,
/// after the application has judged it (RFC 9110, RFC 3229, RFC 2295).
const MASKING_STATUSES: [StatusCode; 7] = [
    StatusCode::PARTIAL_CONTENT,
    StatusCode::IM_USED,
    StatusCode::MULTIPLE_CHOICES,
    StatusCode::NOT_MODIFIED,
    StatusCode::NOT_ACCEPTABLE,
    StatusCode::PRECONDITION_FAILED,
    StatusCode::RANGE_NOT_SATISFIABLE,
];

impl std::fmt::Debug for BodyPrefix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seen({} bytes, complete: {})", self.bytes.len(), self.complete)
    }
}

#[cfg(test)]
mod tests;
