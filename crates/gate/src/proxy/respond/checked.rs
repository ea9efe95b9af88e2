//! The answers of Envoy's external authorization, version 3 (`envoy/service/auth/v3/external_auth.proto`). `grpc` writes them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use prost::Message;

use super::added_header::{HeaderOption, RequestChanges, ValueField, shown_limits, without_framing};

/// `envoy.service.auth.v3.CheckResponse`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<RpcStatus>,
    #[prost(message, optional, tag = "2")]
    denied: Option<DeniedResponse>,
    #[prost(message, optional, tag = "3")]
    ok: Option<OkResponse>,
}

/// `google.rpc.Status`.
#[derive(Clone, Copy, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
}

/// `envoy.type.v3.HttpStatus`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct HttpStatus {
    #[prost(int32, tag = "1")]
    code: i32,
}

/// `DeniedHttpResponse`.
#[derive(Clone, PartialEq, Message)]
struct DeniedResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderOption>,
    #[prost(string, tag = "3")]
    body: String,
}

/// `OkHttpResponse`.
#[derive(Clone, PartialEq, Message)]
struct OkResponse {
    #[prost(message, repeated, tag = "2")]
    headers: Vec<HeaderOption>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    headers_to_remove: Vec<Bytes>,
    #[prost(message, repeated, tag = "6")]
    response_headers_to_add: Vec<HeaderOption>,
}

impl CheckResponse {
    /// The request may pass, by this answer of the endpoint.
    pub(in crate::proxy) fn ok(answer: &HeaderMap, cookies: Option<Vec<HeaderValue>>) -> Self {
        // A line that Envoy could not take as text leaves all as they are.
        let cookies = cookies.filter(|lines| lines.iter().all(|line| line.to_str().is_ok()));
        let RequestChanges { set, remove } = RequestChanges::of(answer, cookies);
        let ok = OkResponse {
            headers: HeaderOption::all(&set, ValueField::Text),
            headers_to_remove: RequestChanges::removed(&remove),
            response_headers_to_add: HeaderOption::of_limits(&shown_limits(answer), ValueField::Text),
        };
        Self { status: Some(RpcStatus { code: 0 }), ok: Some(ok), denied: None }
    }

    /// Envoy answers this itself.
    pub(in crate::proxy) fn denied(status: StatusCode, headers: HeaderMap, body: &Bytes) -> Self {
        let denied = DeniedResponse {
            status: Some(status.into()),
            headers: HeaderOption::all(&without_framing(headers), ValueField::Text),
            body: String::from_utf8_lossy(body).into_owned(),
        };
        Self { status: Some(RpcStatus { code: PERMISSION_DENIED }), denied: Some(denied), ok: None }
    }
}

impl From<StatusCode> for HttpStatus {
    fn from(status: StatusCode) -> Self {
        Self { code: status.as_u16().into() }
    }
}

const PERMISSION_DENIED: i32 = 7;
