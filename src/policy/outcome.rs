//! What came of an attempt: success, failure, or neither, by rules about the application's answer.
//!
//! The first matching rule of `failure` counts, then the first of `success`, else `otherwise`. It reads answers and
//! decides nothing about tokens. The surprising thing: what cannot be read counts as a failure.

mod body;
mod coding;
mod cookie;
mod date;
mod glob;
mod pointer;
mod rule;

use http::{HeaderMap, Method, StatusCode};

pub use self::glob::Glob;
pub use self::pointer::Pointer;
pub use self::rule::{Rule, Statuses};

use self::body::Page;

/// What came of an admitted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Somebody signed in.
    Success,
    /// Nobody did; or the client went away before anybody knew.
    Failure,
    /// Something that says neither.
    Neutral,
    /// 5xx or no answer.
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
pub struct Rules {
    /// Any of these makes an answer a failure.
    pub failure: Vec<Rule>,
    /// Any of these makes an answer a success, unless it is a failure.
    pub success: Vec<Rule>,
    /// What an answer is that no rule names, unless its status is 5xx.
    pub otherwise: Outcome,
}

/// The head of an answer, and what it answers.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The answer's status.
    pub status: StatusCode,
    /// The answer's headers, as the application sent them.
    pub headers: &'a HeaderMap,
}

/// What is known of an answer's body when it is judged.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The first bytes as they came, encoded as the headers say.
    pub bytes: &'a [u8],
    /// Whether that is all of it.
    pub complete: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { failure: Vec::new(), success: Vec::new(), otherwise: Outcome::Neutral }
    }
}

impl Rules {
    /// How much of a body is looked at: bytes, before and after decoding.
    pub const LONGEST: usize = 64 * 1024;

    /// What the head alone says; `None` if it depends on the body.
    #[must_use]
    pub fn by_head(&self, answer: &Answer<'_>) -> Option<Outcome> {
        self.judge(answer, &Page::before_the_body(answer))
    }

    /// What head and body say together. Of the body as many bytes are needed as there are, or
    /// [`LONGEST`](Self::LONGEST); with fewer, what is missing cannot be read.
    #[must_use]
    pub fn by_body(&self, answer: &Answer<'_>, body: Seen<'_>) -> Outcome {
        self.judge(answer, &Page::read(answer, body)).unwrap_or(Outcome::Failure)
    }

    /// `None` only where the body is not known yet and could make a difference.
    fn judge(&self, answer: &Answer<'_>, page: &Page<'_>) -> Option<Outcome> {
        let rest = if answer.status.is_server_error() { Outcome::Error } else { self.otherwise };
        let failed = any(&self.failure, |rule| rule.holds(answer, page, true));
        if failed == Some(true) {
            return Some(Outcome::Failure);
        }
        let passed = match any(&self.success, |rule| rule.holds(answer, page, false)) {
            Some(true) => Some(Outcome::Success),
            Some(false) => Some(rest),
            None => Some(Outcome::Success).filter(|success| *success == rest),
        };
        // A rule that nobody can judge yet changes nothing where the answer is a failure without it.
        passed.filter(|passed| failed.is_some() || *passed == Outcome::Failure)
    }
}

/// Whether any rule holds; `None` if that depends on one that nobody can judge yet.
fn any(rules: &[Rule], holds: impl Fn(&Rule) -> Option<bool>) -> Option<bool> {
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

impl std::fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seen({} bytes, complete: {})", self.bytes.len(), self.complete)
    }
}

#[cfg(test)]
mod tests;
