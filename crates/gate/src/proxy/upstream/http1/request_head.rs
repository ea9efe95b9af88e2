//! Writes the head of a request, and says how its body is framed.
//!
//! Its length is the one that the client or the buffer gave; a body of unknown length is sent in chunks.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body::Body as _;

use crate::proxy::body::RequestBody;
use crate::proxy::headers::passed::push_line;
use crate::proxy::upstream::UpstreamRequest;

/// How the body of a request is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UploadFraming {
    /// This many bytes are still to come.
    Length(u64),
    Chunked,
}

/// The bytes of a head. Chunks have no length next to them.
pub(super) fn encode(request: &mut UpstreamRequest) -> (Vec<u8>, UploadFraming) {
    let UpstreamRequest { method, target, headers, case, body, .. } = request;
    let framing = framing(body.as_deref());
    if framing == UploadFraming::Chunked {
        headers.remove(&CONTENT_LENGTH);
    }
    let mut bytes = Vec::with_capacity(TYPICAL_HEAD);
    for part in [method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"] {
        bytes.extend_from_slice(part);
    }
    headers.write(*case, &mut bytes);
    match framing {
        UploadFraming::Chunked => {
            push_line(&TRANSFER_ENCODING, "chunked", *case, &mut bytes);
        }
        // No chunks are an empty body, and old servers need its length.
        UploadFraming::Length(length)
            if (length > 0 || headers.removes(&TRANSFER_ENCODING)) && !headers.contains(&CONTENT_LENGTH) =>
        {
            push_line(&CONTENT_LENGTH, itoa::Buffer::new().format(length), *case, &mut bytes);
        }
        UploadFraming::Length(_) => {}
    }
    bytes.extend_from_slice(b"\r\n");
    (bytes, framing)
}

fn framing(body: Option<&RequestBody>) -> UploadFraming {
    let Some(body) = body.filter(|body| !body.is_end_stream()) else { return UploadFraming::Length(0) };
    body.size_hint().exact().map_or(UploadFraming::Chunked, UploadFraming::Length)
}

const TYPICAL_HEAD: usize = 1024;
