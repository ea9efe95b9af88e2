//! The answers of Envoy's external processing, version 3 (`envoy/service/ext_proc/v3/external_processor.proto`), one for each part
//! of a request and of its answer. `grpc` writes them.

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use prost::{Message, Oneof};

use super::added_header::{HeaderOption, RequestChanges, ValueField, without_framing};
use super::checked::HttpStatus;

/// `envoy.service.ext_proc.v3.ProcessingResponse`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct ProcessingResponse {
    #[prost(oneof = "ProcessedAnswer", tags = "1, 2, 3, 4, 5, 6, 7")]
    answer: Option<ProcessedAnswer>,
}

/// The answer to a part.
#[derive(Clone, PartialEq, Oneof)]
enum ProcessedAnswer {
    #[prost(message, tag = "1")]
    RequestHeaders(PartChanges),
    #[prost(message, tag = "2")]
    ResponseHeaders(PartChanges),
    #[prost(message, tag = "3")]
    RequestBody(PartChanges),
    #[prost(message, tag = "4")]
    ResponseBody(()),
    #[prost(message, tag = "5")]
    RequestTrailers(()),
    #[prost(message, tag = "6")]
    ResponseTrailers(()),
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// `HeadersResponse` and `BodyResponse`.
#[derive(Clone, PartialEq, Message)]
struct PartChanges {
    #[prost(message, optional, tag = "1")]
    common: Option<CommonResponse>,
}

/// What is not here says that the part passes.
#[derive(Clone, PartialEq, Message)]
struct CommonResponse {
    #[prost(message, optional, tag = "2")]
    headers: Option<HeaderMutation>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderMutation {
    #[prost(message, repeated, tag = "1")]
    set: Vec<HeaderOption>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    remove: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<HttpStatus>,
    #[prost(message, optional, tag = "2")]
    headers: Option<HeaderMutation>,
    #[prost(bytes = "bytes", tag = "3")]
    body: Bytes,
}

/// The part of a request that an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum RequestPart {
    Headers,
    Body,
}

impl ProcessingResponse {
    /// The request goes on with these changes.
    pub(in crate::proxy) fn request(
        part: RequestPart,
        RequestChanges { set, remove }: RequestChanges,
    ) -> Self {
        let remove = RequestChanges::removed(&remove);
        let changes = HeaderMutation { set: HeaderOption::all(&set, ValueField::Raw), remove }.into();
        Self::with(match part {
            RequestPart::Headers => ProcessedAnswer::RequestHeaders(changes),
            RequestPart::Body => ProcessedAnswer::RequestBody(changes),
        })
    }

    /// The head of the answer goes on: without what only the gate reads, with these limits and this cookie.
    pub(in crate::proxy) fn response<'h>(
        hidden: impl Iterator<Item = &'h HeaderName>,
        limits: &HeaderMap,
        cookie: Option<&HeaderValue>,
    ) -> Self {
        let mut set = HeaderOption::of_limits(limits, ValueField::Raw);
        set.extend(cookie.and_then(|cookie| HeaderOption::added(&SET_COOKIE, cookie, ValueField::Raw)));
        let remove = hidden.map(|name| Bytes::copy_from_slice(name.as_ref())).collect();
        Self::with(ProcessedAnswer::ResponseHeaders(HeaderMutation { set, remove }.into()))
    }

    /// A part of the request's body goes on.
    pub(in crate::proxy) fn request_body() -> Self {
        Self::with(ProcessedAnswer::RequestBody(PartChanges::default()))
    }

    /// A part of the answer's body goes on.
    pub(in crate::proxy) fn response_body() -> Self {
        Self::with(ProcessedAnswer::ResponseBody(()))
    }

    /// Trailers of the request go on.
    pub(in crate::proxy) fn request_trailers() -> Self {
        Self::with(ProcessedAnswer::RequestTrailers(()))
    }

    /// Trailers of the answer go on.
    pub(in crate::proxy) fn response_trailers() -> Self {
        Self::with(ProcessedAnswer::ResponseTrailers(()))
    }

    /// Envoy answers this itself.
    pub(in crate::proxy) fn immediate(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        let set = HeaderOption::all(&without_framing(headers), ValueField::Raw);
        let headers = Some(HeaderMutation { set, remove: Vec::new() });
        Self::with(ProcessedAnswer::Immediate(ImmediateResponse {
            status: Some(status.into()),
            headers,
            body,
        }))
    }

    fn with(answer: ProcessedAnswer) -> Self {
        Self { answer: Some(answer) }
    }
}

impl From<HeaderMutation> for PartChanges {
    fn from(headers: HeaderMutation) -> Self {
        Self { common: Some(CommonResponse { headers: Some(headers) }) }
    }
}
