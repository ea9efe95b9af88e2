//! A copy of the application's answer, as far as rules for outcomes read it: its head, and the first 64 KiB of its body.

use http::{HeaderMap, Method, StatusCode};

use crate::policy::response::{BodyPrefix, ResponseView};

/// A copy of an answer.
#[derive(Debug)]
pub(super) struct AnswerCopy {
    method: Method,
    status: StatusCode,
    headers: HeaderMap,
    seen: Vec<u8>,
    is_truncated: bool,
}

impl AnswerCopy {
    /// Takes this from the head of an answer.
    pub(super) fn of(answer: &ResponseView<'_>) -> Self {
        let (method, headers) = (answer.method.clone(), answer.headers.clone());
        Self { method, status: answer.status, headers, seen: Vec::new(), is_truncated: false }
    }

    /// Collects a piece of the body. Returns whether the limit is reached.
    pub(super) fn collect(&mut self, piece: &[u8]) -> bool {
        let free = BodyPrefix::MAX.saturating_sub(self.seen.len());
        self.is_truncated |= piece.len() > free;
        self.seen.extend(piece.iter().take(free));
        self.seen.len() >= BodyPrefix::MAX
    }

    /// What rules read; `complete` is whether the body has ended.
    pub(super) fn view(&self, complete: bool) -> (ResponseView<'_>, BodyPrefix<'_>) {
        let answer = ResponseView { method: &self.method, status: self.status, headers: &self.headers };
        (answer, BodyPrefix { bytes: &self.seen, complete: complete && !self.is_truncated })
    }
}
