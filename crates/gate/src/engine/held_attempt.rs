//! An admitted attempt in the hands of a program that serves the request itself, until its own answer is judged.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use super::{Engine, OpenAttempt};
use crate::policy::outcome::Judgement;
use crate::policy::response::{BodyPrefix, ResponseView};

/// An admitted attempt until its outcome is known. Dropped once the application has it, it is a failure: the application may
/// have checked the password. Before, it was none.
#[derive(Debug)]
#[must_use]
pub struct HeldAttempt {
    engine: Arc<Engine>,
    attempt: Option<OpenAttempt>,
    /// Whether the application has the request.
    is_made: bool,
}

impl HeldAttempt {
    /// An attempt that this engine admitted.
    pub fn new(engine: &Arc<Engine>, attempt: OpenAttempt) -> Self {
        Self { engine: Arc::clone(engine), attempt: Some(attempt), is_made: false }
    }

    /// The application gets the request now.
    pub fn make(&mut self) {
        self.is_made = true;
    }

    /// Whether a rule reads the body of the answer.
    #[must_use]
    pub fn reads_bodies(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.reservation.reads_bodies(&attempt.rules))
    }

    /// Whether the outcome has to be known before the head of the answer is sent: a success may make its client known.
    #[must_use]
    pub fn settles_before_head(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.reservation.claim().is_some())
    }

    /// Remembers the cookies of the answer for second steps, before its client has them, and what the application demands.
    pub fn read_head(&mut self, answer: &HeaderMap) {
        if let Some(attempt) = &mut self.attempt {
            attempt.read_head(&self.engine, answer);
        }
    }

    /// The judgement by the head of the answer; `None` if it depends on the body.
    #[must_use]
    pub fn by_head(&self, answer: &ResponseView<'_>) -> Option<Judgement> {
        let attempt = self.attempt.as_ref()?;
        attempt.reservation.judge_head(&attempt.rules, answer)
    }

    /// The judgement by head and body.
    #[must_use]
    pub fn by_body(&self, answer: &ResponseView<'_>, body: BodyPrefix<'_>) -> Judgement {
        let judged =
            self.attempt.as_ref().map(|attempt| attempt.reservation.judge(&attempt.rules, answer, body));
        judged.unwrap_or(Judgement::UNANSWERED)
    }

    /// Settles the attempt. Returns a `Set-Cookie` for the answer if its client becomes known as an owner.
    pub fn settle(mut self, judged: impl Into<Judgement>) -> Option<HeaderValue> {
        self.attempt.take()?.settle(&self.engine, judged)
    }
}

impl Drop for HeldAttempt {
    fn drop(&mut self) {
        let Some(attempt) = self.attempt.take() else { return };
        if self.is_made {
            drop(attempt.settle(&self.engine, Judgement::UNANSWERED));
        } else {
            attempt.reservation.refund(&self.engine, &attempt.rules);
        }
    }
}
