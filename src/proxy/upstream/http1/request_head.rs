//! Writes the head of a request, and says how its body is framed.
//!
//! A header `Transfer-Encoding` asks for chunks; otherwise the length is the one that the client or the buffer gave.

use std::io::Write as _;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http_body::Body as _;

use crate::proxy::body::RequestBody;

/// How the body of a request is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UploadFraming {
    /// This many bytes are still to come.
    Length(u64),
    Chunked,
}

/// The bytes of a head.
pub(super) fn encode(head: &Parts, body: &RequestBody) -> (Vec<u8>, UploadFraming) {
    let framing = framing(head, body);
    let mut bytes = Vec::with_capacity(TYPICAL_HEAD);
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    // `http://app.test?a=b` has an empty path (RFC 9112, 3.2.1).
    let root = if target.starts_with('?') { " /" } else { " " };
    for part in [head.method.as_str(), root, target, " HTTP/1.1\r\n"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    let is_chunked = framing == UploadFraming::Chunked;
    for (name, value) in &head.headers {
        if *name == TRANSFER_ENCODING || (is_chunked && *name == CONTENT_LENGTH) {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    match framing {
        UploadFraming::Chunked => bytes.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        UploadFraming::Length(length) if length > 0 && !head.headers.contains_key(CONTENT_LENGTH) => {
            // Writing to a vector does not fail.
            let _ = write!(bytes, "content-length: {length}\r\n");
        }
        UploadFraming::Length(_) => {}
    }
    bytes.extend_from_slice(b"\r\n");
    (bytes, framing)
}

fn framing(head: &Parts, body: &RequestBody) -> UploadFraming {
    if body.is_end_stream() {
        return UploadFraming::Length(0);
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        return UploadFraming::Chunked;
    }
    // A body of unknown length comes with the header: `transaction::forward` sets it.
    body.size_hint().exact().map_or(UploadFraming::Chunked, UploadFraming::Length)
}

const TYPICAL_HEAD: usize = 1024;
