//! Copies the first 64 KiB of a response body for outcome rules, and settles the attempt by them.
//!
//! The body streams on while it is copied. Only if a success may make its client known does the head of the response wait for the
//! outcome, because the cookie is in the head. `policy::outcome` has the rules.

use std::future::poll_fn;
use std::time::Duration;

use http::HeaderValue;
use http_body::Body;

use super::answer_copy::AnswerCopy;
use crate::policy::response::ResponseView;
use crate::proxy::body::{BodyError, BodyStart, BodyTimeout};
use crate::proxy::transaction::admitted::AdmittedAttempt;
use crate::proxy::upstream::UpstreamBody;

/// Collects a response's body, and settles its attempt.
pub(super) struct BodyInspector {
    attempt: AdmittedAttempt,
    answer: AnswerCopy,
}

impl BodyInspector {
    /// An inspector for the body of this response.
    pub(super) fn new(attempt: AdmittedAttempt, response: &ResponseView<'_>) -> Box<Self> {
        Box::new(Self { attempt, answer: AnswerCopy::of(response) })
    }

    /// Collects a piece. Returns whether the limit is reached.
    pub(super) fn inspect(&mut self, piece: &[u8]) -> bool {
        self.answer.collect(piece)
    }

    /// Settles by the collected bytes; `complete` is whether the body has ended. Returns a `Set-Cookie` for the head of
    /// the response, if that was not sent yet.
    pub(super) fn settle(self, complete: bool) -> Option<HeaderValue> {
        let (answer, body) = self.answer.view(complete);
        let judged = self.attempt.by_body(&answer, body);
        self.attempt.settle(judged)
    }

    /// Reads until the outcome is known, and settles. Returns the pieces read, to be sent before the rest, and the
    /// result of [`settle`](Self::settle).
    ///
    /// # Errors
    /// [`BodyError`] if the body is incomplete before that.
    pub(super) async fn read_ahead(
        mut self: Box<Self>,
        incoming: &mut UpstreamBody,
        timeout: Duration,
    ) -> Result<(BodyStart, Option<HeaderValue>), BodyError> {
        let (mut timeout, mut pieces) = (BodyTimeout::for_upstream(timeout), BodyStart::default());
        while !incoming.is_end_stream() {
            let frame = match poll_fn(|cx| timeout.poll_frame(incoming, cx)).await {
                None => break,
                Some(Ok(frame)) => frame,
                // The missing part could decide either way: the attempt is dropped, and so a failure.
                Some(Err(error)) => return Err(error),
            };
            let has_enough = self.inspect(frame.data_ref().map_or(&[], |piece| piece));
            pieces.push(frame);
            if has_enough {
                let is_complete = incoming.is_end_stream();
                return Ok((pieces, self.settle(is_complete)));
            }
        }
        Ok((pieces, self.settle(true)))
    }
}
