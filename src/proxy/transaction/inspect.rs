//! Copies the first 64 KiB of a response body for outcome rules, and settles the attempt by them.
//!
//! At most 64 KiB, and what streams is not held up by it. The surprising thing: only where a success is to be answered with
//! a cookie is the head of the answer held back until enough was seen, because a cookie stands in the head.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body;
use hyper::body::Incoming;

use crate::policy::outcome::{BodyPrefix, OutcomeRules, ResponseView};
use crate::proxy::body::{BodyError, BodyTimeout};
use crate::proxy::transaction::admitted::AdmittedAttempt;

/// Sees an answer's body, and settles its attempt.
pub(super) struct BodyInspector {
    pending: AdmittedAttempt,
    method: Method,
    status: StatusCode,
    headers: HeaderMap,
    seen: Vec<u8>,
    is_truncated: bool,
}

impl BodyInspector {
    /// For the body of this answer.
    pub(super) fn new(pending: AdmittedAttempt, answer: &ResponseView<'_>) -> Box<Self> {
        let (method, headers) = (answer.method.clone(), answer.headers.clone());
        Box::new(Self {
            pending,
            method,
            status: answer.status,
            headers,
            seen: Vec::new(),
            is_truncated: false,
        })
    }

    /// Another piece. Says whether no more is needed.
    pub(super) fn inspect(&mut self, piece: &[u8]) -> bool {
        let room = OutcomeRules::MAX_BODY_READ.saturating_sub(self.seen.len());
        self.is_truncated |= piece.len() > room;
        self.seen.extend(piece.iter().take(room));
        self.seen.len() >= OutcomeRules::MAX_BODY_READ
    }

    /// Settles by what was seen; `complete` says whether the body is over. What is returned is for the head of the answer,
    /// if that has not left yet.
    pub(super) fn settle(self, complete: bool) -> Option<HeaderValue> {
        let answer = ResponseView { method: &self.method, status: self.status, headers: &self.headers };
        let seen = BodyPrefix { bytes: &self.seen, complete: complete && !self.is_truncated };
        let outcome = self.pending.by_body(&answer, seen);
        self.pending.settle(outcome)
    }

    /// Reads until enough was seen, and settles: what was read, which has to leave before the rest, and what
    /// [`settle`](Self::settle) says.
    ///
    /// # Errors
    /// [`BodyError`] if the upstream breaks off before.
    pub(super) async fn read_ahead(
        mut self: Box<Self>,
        incoming: &mut Incoming,
        timeout: Duration,
    ) -> Result<(VecDeque<Bytes>, Option<HeaderValue>), BodyError> {
        let (mut patience, mut ahead) = (BodyTimeout::for_upstream(timeout), VecDeque::new());
        while !incoming.is_end_stream() {
            let piece = match poll_fn(|cx| patience.poll_data(incoming, cx)).await {
                None => break,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                // What is missing might have said anything: the attempt is dropped, and so a failure.
                Some(Err(error)) => return Err(error),
            };
            let has_enough = self.inspect(&piece);
            ahead.push_back(piece);
            if has_enough {
                let is_over = incoming.is_end_stream();
                return Ok((ahead, self.settle(is_over)));
            }
        }
        Ok((ahead, self.settle(true)))
    }
}
