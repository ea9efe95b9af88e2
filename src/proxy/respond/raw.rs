//! An error response as raw bytes, for connections without a parsed request.

use http::{HeaderValue, StatusCode};

use super::{Language, Negotiation, ProblemKind, problem};
use crate::proxy::headers::request_id::RequestIds;

/// The response with this status, ready to be written; the connection closes after it. It is text, because the client's
/// `Accept` is not known.
#[must_use]
pub fn raw_problem(status: StatusCode) -> Vec<u8> {
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
            language: Language::default(),
            challenge: None,
        },
    );
    response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    let status = response.status();
    let mut bytes =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or("")).into_bytes();
    for (name, value) in response.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(response.body());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_head_is_answered_in_full() {
        let text = String::from_utf8(raw_problem(StatusCode::REQUEST_TIMEOUT)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{head}");
        assert!(
            head.contains("\r\nconnection: close") && head.contains("\r\ncache-control: no-store"),
            "{head}"
        );
        assert!(head.contains(&format!("\r\ncontent-length: {}", body.len())), "{head}");
    }
}
