//! What came of an attempt: success, failure, or neither, by rules about the application's answer.
//!
//! The first matching rule of `failure` counts, then the first of `success`, else `otherwise`. It reads answers and
//! decides nothing about tokens. The surprising thing: what cannot be read counts as a failure.

use http::{HeaderMap, Method, StatusCode};

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

/// The rules of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// What an answer is that no rule names.
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
        Self { otherwise: Outcome::Neutral }
    }
}

impl Rules {
    /// How much of a body is looked at: bytes, before and after decoding.
    pub const LONGEST: usize = 64 * 1024;

    /// What the head alone says; `None` if it depends on the body.
    #[must_use]
    pub fn by_head(&self, answer: &Answer<'_>) -> Option<Outcome> {
        Some(if answer.status.is_server_error() { Outcome::Error } else { self.otherwise })
    }

    /// What head and body say together.
    #[must_use]
    pub fn by_body(&self, answer: &Answer<'_>, body: Seen<'_>) -> Outcome {
        let _ = body;
        self.by_head(answer).unwrap_or(Outcome::Failure)
    }
}

impl std::fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seen({} bytes, complete: {})", self.bytes.len(), self.complete)
    }
}
