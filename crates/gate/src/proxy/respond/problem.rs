//! Error responses: status and text by kind of problem.
//!
//! The texts name the status and a remedy, and nothing of the request or the upstream. `builder` renders them.

use http::{HeaderValue, StatusCode};

use super::details::ProblemDetails;
use super::pages::{LocalizedPages, PageLanguage};
use super::retry_after;
use crate::policy::DefenceRefusal;
use crate::time::Span;

/// The kinds of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// 400: the request is malformed or ambiguous.
    Malformed,
    /// 403: the peer may not ask at this decision endpoint.
    Forbidden,
    /// A defence refuses the attempt, whatever the limits say.
    RefusedByDefence(&'static DefenceRefusal),
    /// 410: a report names no open attempt.
    Gone,
    /// 405: `CONNECT`, which a reverse proxy does not serve.
    MethodNotAllowed,
    /// 408: the request did not arrive in time.
    RequestTimeout,
    /// 413: the body is longer than its route buffers.
    BodyTooLarge,
    /// 414: the target is too long.
    TargetTooLong,
    /// 415: the coding of the body is not read.
    UnknownCoding,
    /// 415: the charset of the body is not read.
    UnknownCharset,
    /// 417: `Expect` with anything but `100-continue`.
    Expectation,
    /// 431: too many or too long headers.
    HeadersTooLarge,
    /// 502: the upstream refused the connection or failed.
    BadGateway,
    /// 503: overload, or the store is unavailable.
    Unavailable {
        /// The wait for `Retry-After`.
        wait: Span,
    },
    /// 504: the upstream did not respond in time.
    GatewayTimeout,
}

impl ProblemKind {
    /// The status of the response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::RefusedByDefence(refusal) => refusal.status,
            Self::Gone => StatusCode::GONE,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::UnknownCoding | Self::UnknownCharset => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::GatewayTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub(super) fn message(self, request_id: &HeaderValue) -> ProblemDetails<'_> {
        let status = self.status();
        let retry_after = match self {
            Self::Unavailable { wait } => Some(retry_after::seconds(wait, 0, &[])),
            _ => None,
        };
        ProblemDetails {
            // RFC 9457, section 4.2.1: without its own type, the title is the phrase of the status.
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: self.detail(),
            retry_after,
            limits: None,
            request_id,
            texts: &LocalizedPages::built_in().of(PageLanguage::default()).texts,
            contact: None,
            offer: None,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::Malformed => "This request cannot be understood.",
            Self::Forbidden => "Only the proxies that the configuration names may ask here.",
            Self::RefusedByDefence(refusal) => refusal.detail,
            Self::Gone => "This receipt is unknown, used or late.",
            Self::MethodNotAllowed => "This method is not available here.",
            Self::RequestTimeout => "The request took too long to arrive. Please try again.",
            Self::BodyTooLarge => "The request carries more than is accepted here.",
            Self::TargetTooLong => "The address that was asked for is too long.",
            Self::UnknownCoding => "Bodies are read here as they are, or in gzip or deflate.",
            Self::UnknownCharset => "The text of this request is in a charset that is not read here.",
            Self::Expectation => "What this request expects is not available here.",
            Self::HeadersTooLarge => "The request carries too many or too large headers.",
            Self::BadGateway => {
                "The application behind this address does not answer properly. Please try again later."
            }
            Self::Unavailable { .. } => "The application behind this address is busy.",
            Self::GatewayTimeout => {
                "The application behind this address takes too long to answer. Please try again later."
            }
        }
    }
}

/// The methods listed with 405, as RFC 9110, section 15.5.6, requires.
pub(super) const ALLOWED_METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");
