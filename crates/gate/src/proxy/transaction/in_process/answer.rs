//! A request that the program serves, and the answer to it: what both are told, and what the answer says of the attempt.
//!
//! `inspect` and `forward` do the same for an application behind the gate.

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::engine::HeldAttempt;
use crate::policy::response::{BodyPrefix, ResponseView};
use crate::proxy::headers::REQUEST_ID;
use crate::proxy::headers::passed::PassedHeaders;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::respond::{RequestChanges, show_limits, shown_limits};
use crate::proxy::transaction::answer_copy::AnswerCopy;
use crate::proxy::upstream::plain_response::request_plain_response;

/// A request that may pass. Dropped after it began and before its answer came, its attempt is a failure.
#[derive(Debug)]
pub struct PassedRequest {
    changes: RequestChanges,
    request_id: Option<HeaderValue>,
    /// What the answer tells of limits.
    limits: HeaderMap,
    /// Headers of the answer that no client sees.
    hidden: Vec<HeaderName>,
    attempt: Option<HeldAttempt>,
}

/// The outcome of an attempt, by the head of the answer.
#[derive(Debug)]
pub enum JudgedHead {
    /// It is settled, or there was no attempt.
    Settled,
    /// The body decides while it streams.
    Streaming(Box<AnswerInspector>),
    /// The body decides before the head is sent.
    BeforeHead(Box<AnswerInspector>),
}

/// Collects the body of an answer, and settles its attempt. Dropped, the attempt is a failure.
#[derive(Debug)]
pub struct AnswerInspector {
    attempt: HeldAttempt,
    answer: AnswerCopy,
}

impl PassedRequest {
    /// By the answer to the question: `cookies` are the lines of `Cookie` that pass, if not all do.
    pub(super) fn new(
        told: &HeaderMap,
        cookies: Option<Vec<HeaderValue>>,
        hidden: Vec<HeaderName>,
        attempt: Option<HeldAttempt>,
    ) -> Self {
        let (changes, limits) = (RequestChanges::of(told, cookies), shown_limits(told));
        Self { changes, request_id: told.get(REQUEST_ID).cloned(), limits, hidden, attempt }
    }

    /// The application gets it now.
    pub fn begin(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.make();
        }
    }

    /// Tells the application, by the headers of the request, what it should know, and nothing of it by the client.
    pub fn prepare_request(&mut self, headers: &mut HeaderMap) {
        std::mem::take(&mut self.changes).apply(headers);
        if let Some(id) = self.request_id.take() {
            let _ = headers.try_insert(REQUEST_ID, id);
        }
        if self.attempt.as_ref().is_some_and(HeldAttempt::reads_bodies) {
            let mut passed = PassedHeaders::new(std::mem::take(headers), ReceivedHead::default());
            request_plain_response(&mut passed);
            *headers = passed.into_map();
        }
    }

    /// Judges the head of the answer and changes it for the client. `is_over`: whether no body follows.
    pub fn judge_head(
        mut self,
        method: &Method,
        status: StatusCode,
        headers: &mut HeaderMap,
        is_over: bool,
    ) -> JudgedHead {
        let Some(mut attempt) = self.attempt.take() else {
            self.change(headers);
            return JudgedHead::Settled;
        };
        attempt.read_head(headers);
        let view = ResponseView { method, status, headers: &*headers };
        // Behind 101 follows another protocol, of which rules see nothing.
        let nothing = BodyPrefix { bytes: &[], complete: status != StatusCode::SWITCHING_PROTOCOLS };
        let judged = attempt.by_head(&view).or_else(|| is_over.then(|| attempt.by_body(&view, nothing)));
        let Some(judged) = judged else {
            let inspector = Box::new(AnswerInspector { answer: AnswerCopy::of(&view), attempt });
            let waits = inspector.attempt.settles_before_head();
            self.change(headers);
            return if waits { JudgedHead::BeforeHead(inspector) } else { JudgedHead::Streaming(inspector) };
        };
        let cookie = attempt.settle(judged);
        self.change(headers);
        add_cookie(headers, cookie);
        JudgedHead::Settled
    }

    fn change(self, headers: &mut HeaderMap) {
        self.hidden.iter().for_each(|name| drop(headers.remove(name)));
        show_limits(headers, self.limits);
    }
}

impl AnswerInspector {
    /// Collects a piece. Returns whether the limit is reached.
    pub fn inspect(&mut self, piece: &[u8]) -> bool {
        self.answer.collect(piece)
    }

    /// Settles by the collected bytes; `complete` is whether the body has ended.
    pub fn settle(self, complete: bool) {
        drop(self.settled(complete));
    }

    /// The same before the head is sent, which may get a cookie.
    pub fn settle_before(self, complete: bool, headers: &mut HeaderMap) {
        let cookie = self.settled(complete);
        add_cookie(headers, cookie);
    }

    fn settled(self, complete: bool) -> Option<HeaderValue> {
        let (answer, body) = self.answer.view(complete);
        let judged = self.attempt.by_body(&answer, body);
        self.attempt.settle(judged)
    }
}

fn add_cookie(headers: &mut HeaderMap, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        let _ = headers.try_append(SET_COOKIE, cookie);
    }
}
