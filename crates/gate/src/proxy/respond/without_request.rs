//! An error response for connections without a parsed request.

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Response, StatusCode};

use super::{Negotiation, PageLanguage, ProblemKind, problem};
use crate::proxy::headers::request_id::RequestIds;

/// The response with this status; the connection closes after it. It is text, because the client's `Accept` is not known.
#[must_use]
pub fn problem_without_request(status: StatusCode) -> Response<Bytes> {
    let kind = match status {
        StatusCode::REQUEST_TIMEOUT => ProblemKind::RequestTimeout,
        StatusCode::URI_TOO_LONG => ProblemKind::TargetTooLong,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ProblemKind::HeadersTooLarge,
        _ => ProblemKind::Malformed,
    };
    let request_id = RequestIds::default().next();
    let mut response = problem(
        kind,
        &Negotiation {
            accept: None,
            head: false,
            request_id: &request_id,
            language: PageLanguage::default(),
            offer: None,
        },
    );
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
