//! What Envoy's external processing sends, version 3 (`envoy/service/ext_proc/v3/external_processor.proto`): the parts of a
//! request and of its answer, one after the other.
//!
//! Only the fields that matter here are decoded. `external_processor` has the order of the parts.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use prost::{Enumeration, Message, Oneof};

use super::described::{AskedRequest, DescribedHead, EnvoyHeaders};
use super::question::VisibleBody;
use crate::proxy::body::{AskedBody, ClientBody};
use crate::proxy::error::MalformedRequest;
use crate::proxy::grpc::CallError;

/// `envoy.service.ext_proc.v3.ProcessingRequest`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct ProcessingRequest {
    #[prost(oneof = "ProcessedPart", tags = "2, 3, 4, 5, 6, 7")]
    part: Option<ProcessedPart>,
    #[prost(bool, tag = "10")]
    observability_mode: bool,
    #[prost(message, optional, tag = "11")]
    protocol: Option<ProtocolConfiguration>,
}

/// What a message brings.
#[derive(Clone, PartialEq, Oneof)]
pub(in crate::proxy) enum ProcessedPart {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(()),
    #[prost(message, tag = "6")]
    RequestTrailers(()),
    #[prost(message, tag = "7")]
    ResponseTrailers(()),
}

/// Sent with the first part, since Envoy 1.33.
#[derive(Clone, Copy, PartialEq, Message)]
struct ProtocolConfiguration {
    #[prost(enumeration = "BodySendMode", tag = "1")]
    request_body_mode: i32,
    #[prost(enumeration = "BodySendMode", tag = "2")]
    response_body_mode: i32,
}

/// `envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(in crate::proxy) enum BodySendMode {
    None = 0,
    Streamed = 1,
    Buffered = 2,
    BufferedPartial = 3,
    FullDuplexStreamed = 4,
    Grpc = 5,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    headers: Option<EnvoyHeaders>,
    #[prost(bool, tag = "3")]
    is_end: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub(in crate::proxy) bytes: Bytes,
    #[prost(bool, tag = "2")]
    is_end: bool,
}

impl ProcessingRequest {
    /// Decodes a message.
    ///
    /// # Errors
    /// [`CallError::InvalidMessage`], and [`CallError::Unimplemented`] where the answers would be ignored.
    pub(in crate::proxy) fn read(message: Bytes) -> Result<ProcessedPart, CallError> {
        Ok(Self::decode_whole(message)?.0)
    }

    /// The same of the first message, with the way of the request's body.
    ///
    /// # Errors
    /// The same, also where bodies would have to be answered piece by piece.
    pub(in crate::proxy) fn read_first(message: Bytes) -> Result<(HttpHeaders, BodySendMode), CallError> {
        let (part, protocol) = Self::decode_whole(message)?;
        let ProcessedPart::RequestHeaders(headers) = part else {
            return Err(CallError::InvalidMessage("a stream begins with the headers of a request"));
        };
        // Without the configuration nobody knows whether a body follows: none is waited for.
        let protocol = protocol.unwrap_or_default();
        for mode in [protocol.request_body_mode, protocol.response_body_mode] {
            let mode = BodySendMode::try_from(mode).unwrap_or(BodySendMode::Grpc);
            if matches!(mode, BodySendMode::FullDuplexStreamed | BodySendMode::Grpc) {
                return Err(CallError::Unimplemented("this body mode"));
            }
        }
        Ok((headers, protocol.request_body_mode()))
    }

    fn decode_whole(message: Bytes) -> Result<(ProcessedPart, Option<ProtocolConfiguration>), CallError> {
        let wrong = || CallError::InvalidMessage("not a ProcessingRequest");
        let Self { part, observability_mode, protocol } = Self::decode(message).map_err(|_| wrong())?;
        if observability_mode {
            return Err(CallError::Unimplemented("observability_mode"));
        }
        Ok((part.ok_or_else(wrong)?, protocol))
    }
}

impl BodySendMode {
    /// Whether the request waits in Envoy until its body came, and was decided on.
    fn holds_back(self) -> bool {
        matches!(self, Self::Buffered | Self::BufferedPartial)
    }
}

impl HttpHeaders {
    /// The request with this head, and its body if that follows and the request waits for it.
    ///
    /// # Errors
    /// [`MalformedRequest::IncompleteQuestion`] and [`MalformedRequest::AmbiguousQuestion`].
    pub(in crate::proxy) fn into_request(
        self,
        mode: BodySendMode,
        body: &AskedBody,
    ) -> Result<AskedRequest, MalformedRequest> {
        let (visible, body) = match () {
            () if self.is_end => (VisibleBody::Whole, ClientBody::Empty),
            () if mode.holds_back() => (VisibleBody::Whole, ClientBody::Asked(body.clone())),
            () => (VisibleBody::Hidden, ClientBody::Empty),
        };
        Ok(AskedRequest { request: self.head()?.into_request(body)?, body: visible })
    }

    /// Its headers.
    ///
    /// # Errors
    /// [`MalformedRequest::AmbiguousQuestion`].
    pub(in crate::proxy) fn head(&self) -> Result<DescribedHead, MalformedRequest> {
        let mut head = DescribedHead::default();
        head.add_all(self.headers.as_ref().map_or(&[], |headers| &headers.lines))?;
        Ok(head)
    }

    /// The answer of the application with this head; `None` for one of Envoy's own, which says nothing of the attempt. Envoy
    /// sets this header in every answer that it got.
    pub(in crate::proxy) fn answer(&self) -> Option<(StatusCode, HeaderMap)> {
        let answer = self.head().ok()?.into_answer();
        answer.filter(|(_, headers)| headers.contains_key("x-envoy-upstream-service-time"))
    }
}

impl HttpBody {
    /// Whether the rest of the body is missing, of which the head tells this length. The end of a whole one may be told by
    /// trailers. Envoy lets no body pass that is longer than its head tells.
    pub(in crate::proxy) fn is_cut(&self, mode: BodySendMode, length: Option<u64>) -> bool {
        !self.is_end && mode == BodySendMode::BufferedPartial && length != Some(self.bytes.len() as u64)
    }
}
