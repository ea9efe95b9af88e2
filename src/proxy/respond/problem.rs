//! What the gate says when there is nothing to forward or nobody answers.
//!
//! Nothing of the request and nothing of the upstream is repeated: a stranger learns the status and what to do.

use http::{HeaderValue, StatusCode};

use super::message::Message;
use super::wait;
use crate::time::Span;

/// Why the gate itself answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// 400: malformed, or to be read in two ways.
    Malformed,
    /// 405: `CONNECT`, which a reverse proxy has no use for.
    Method,
    /// 408: the request did not arrive in time.
    Slow,
    /// 413: the body is longer than what is read of it.
    BodyTooLarge,
    /// 414: the target is too long.
    TargetTooLong,
    /// 417: `Expect` with anything but `100-continue`.
    Expectation,
    /// 431: too many or too long headers.
    HeadersTooLarge,
    /// 502: the upstream refused or broke.
    Broken,
    /// 503: too much at once.
    Busy {
        /// When it is worth trying again.
        wait: Span,
    },
    /// 504: the upstream did not answer in time.
    TimedOut,
}

impl Problem {
    /// The status of the answer.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Broken => StatusCode::BAD_GATEWAY,
            Self::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub(super) fn message(self, request_id: &HeaderValue) -> Message<'_> {
        let status = self.status();
        let retry_after = match self {
            Self::Busy { wait } => Some(wait::retry_after(wait, 0, &[])),
            _ => None,
        };
        Message {
            // RFC 9457, section 4.2.1: the status says it all, and the title is its phrase.
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: self.detail(),
            retry_after,
            limits: None,
            request_id,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::Malformed => "This request cannot be understood.",
            Self::Method => "This method is not available here.",
            Self::Slow => "The request took too long to arrive. Please try again.",
            Self::BodyTooLarge => "The request carries more than is accepted here.",
            Self::TargetTooLong => "The address that was asked for is too long.",
            Self::Expectation => "What this request expects is not available here.",
            Self::HeadersTooLarge => "The request carries too many or too large headers.",
            Self::Broken => {
                "The application behind this address does not answer properly. Please try again later."
            }
            Self::Busy { .. } => "The application behind this address is busy.",
            Self::TimedOut => {
                "The application behind this address takes too long to answer. Please try again later."
            }
        }
    }
}

/// What is allowed where `CONNECT` is not (RFC 9110, section 15.5.6 asks for the list).
pub(super) const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");
