//! gRPC over HTTP/2: one message in a body, the answer to a call, and its status (the protocol's `PROTOCOL-HTTP2.md`).
//! `stream` has calls of many messages.
//!
//! Compression is never agreed on. The messages themselves are left to `request` and `respond`.

pub(super) mod stream;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Frame;
use prost::Message;

use super::body::{BodyStart, ResponseBody};

/// Why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// The message cannot be decoded, or does not say what it has to.
    #[error("invalid message: {0}")]
    InvalidMessage(&'static str),
    /// There is no such method, or the message is compressed.
    #[error("not implemented: {0}")]
    Unimplemented(&'static str),
    /// The body is not exactly one message, or ends within one.
    #[error("malformed frame: {0}")]
    MalformedFrame(&'static str),
    /// The message is too long, or no memory is free for it.
    #[error("resource exhausted: {0}")]
    Exhausted(&'static str),
}

impl CallError {
    /// The number of the status (`doc/statuscodes.md`).
    fn code(self) -> &'static str {
        match self {
            Self::InvalidMessage(_) => "3",
            Self::Exhausted(_) => "8",
            Self::Unimplemented(_) => "12",
            Self::MalformedFrame(_) => "13",
        }
    }

    /// The answer, which is a head alone.
    pub(super) fn response(self) -> Response<ResponseBody> {
        let mut response = empty();
        response.headers_mut().extend(self.status());
        response
    }

    /// The status in headers or trailers.
    fn status(self) -> HeaderMap {
        let mut status = HeaderMap::from_iter([(STATUS, HeaderValue::from_static(self.code()))]);
        // The texts are printable ASCII without a percent sign, which stands for itself.
        status.extend(HeaderValue::try_from(self.to_string()).map(|text| (MESSAGE, text)));
        status
    }
}

/// Whether a request is a call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    kind.strip_prefix(CALL).is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// The message that a body consists of.
///
/// # Errors
/// [`CallError::MalformedFrame`], and [`CallError::Unimplemented`] if it is compressed.
pub(super) fn message_in(mut body: Bytes) -> Result<Bytes, CallError> {
    if body.len() < HEAD {
        return Err(CallError::MalformedFrame("no message"));
    }
    let length = length_in(&mut body)?;
    let is_one = usize::try_from(length) == Ok(body.len());
    let error = CallError::MalformedFrame("not one message of the length in its prefix");
    if is_one { Ok(body) } else { Err(error) }
}

/// The length of a message, by the [`HEAD`] bytes before it.
fn length_in(head: &mut impl Buf) -> Result<u32, CallError> {
    match (head.get_u8(), head.get_u32()) {
        (0, length) => Ok(length),
        (1, _) => Err(CallError::Unimplemented("compressed messages")),
        (2.., _) => Err(CallError::MalformedFrame("no such compression")),
    }
}

/// The answer with this message.
pub(super) fn response(message: &impl Message) -> Response<ResponseBody> {
    let mut body = BodyStart::from(framed(message));
    body.push(Frame::trailers(success()));
    with_body(ResponseBody::whole(body))
}

/// A message behind its prefix.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD.saturating_add(length));
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut bytes);
    bytes.freeze()
}

fn success() -> HeaderMap {
    let mut status = HeaderMap::new();
    status.insert(STATUS, HeaderValue::from_static("0"));
    status
}

fn empty() -> Response<ResponseBody> {
    with_body(ResponseBody::generated(Bytes::new()))
}

fn with_body(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

const CALL: &[u8] = b"application/grpc";
/// Bytes before a message: its compression and its length.
const HEAD: usize = 5;
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &'static [u8]) -> Result<Bytes, CallError> {
        message_in(Bytes::from_static(bytes))
    }

    #[test]
    fn a_body_is_one_message_of_the_length_that_it_says() {
        assert_eq!(read(b"\0\0\0\0\x02ab").unwrap(), "ab");
        assert_eq!(read(b"\0\0\0\0\0").unwrap(), "");
        for malformed in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\x02a",
            b"\0\0\0\0\x01ab",
            b"\x02\0\0\0\0",
            b"\0\xff\xff\xff\xffa",
        ] {
            assert!(matches!(read(malformed), Err(CallError::MalformedFrame(_))), "{malformed:?}");
        }
        assert!(matches!(read(b"\x01\0\0\0\x01a"), Err(CallError::Unimplemented(_))));
    }

    #[test]
    fn a_call_says_so_in_its_type() {
        let is = |kind: &'static str| {
            is_call(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]))
        };
        assert!(
            is("application/grpc") && is("application/grpc+proto") && is("application/grpc; charset=utf-8")
        );
        assert!(!is("application/grpc-web") && !is("application/json") && !is_call(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let length = bytes.len();
            if let Ok(message) = message_in(bytes.into()) {
                prop_assert_eq!(message.len() + HEAD, length);
            }
        }
    }
}
