//! Calls of gRPC at a decision endpoint: which service answers them, and what services have in common.
//!
//! A request that a message describes is decided on as any other, and the answer of `endpoint` to the same question of HTTP says
//! what Envoy is told.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::response_future::ResponseFuture;
use super::server::Server;
use crate::proxy::body::{self, BufferedBody, ClientBody, ResponseBody, complete_headers};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::endpoint::EndpointKind;
use crate::proxy::error::{Error, MalformedRequest};
use crate::proxy::grpc::{self, CallError};
use crate::proxy::request::described::AskedRequest;

/// What is answered to a question about a request.
pub(super) struct AskedAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why a call has no message that can be decided on.
pub(super) enum UnreadCall {
    /// Its client may have made it so long.
    TooLong,
    Broken(Error),
    Malformed(CallError),
}

impl Server {
    /// Answers a call at an endpoint of this kind.
    pub(super) fn answer_call(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        kind: EndpointKind,
        request: Request<ClientBody>,
    ) -> ResponseFuture {
        if !grpc::is_call(request.headers()) || kind.method() != Some(request.uri().path()) {
            let error = CallError::Unimplemented("there is no such method here");
            let context = self.context_of_asker(connection, &request);
            return ResponseFuture::ready(context.record.finish(error.response()));
        }
        let (server, connection) = (Rc::clone(self), Rc::clone(connection));
        match kind {
            EndpointKind::ExtProc => ResponseFuture::ready(server.process(connection, request)),
            EndpointKind::ExtAuthz => ResponseFuture::Boxed(Box::pin(server.authorize(connection, request))),
            EndpointKind::EnvoyRls | EndpointKind::ForwardAuth | EndpointKind::AuthPolicy => {
                ResponseFuture::Boxed(Box::pin(server.limit_rates(connection, request)))
            }
        }
    }

    /// The only message of a call, of at most `max` bytes.
    pub(super) async fn read_call<T>(
        &self,
        mut incoming: ClientBody,
        max: usize,
        read: impl FnOnce(Bytes) -> Result<T, CallError>,
    ) -> Result<T, UnreadCall> {
        let beginning = poll_fn(|cx| Poll::Ready(Pin::new(&mut incoming).poll_frame(cx))).await;
        let beginning = match beginning {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Poll::Ready(Some(Err(_))) => return Err(UnreadCall::Broken(Error::ClientDisconnected)),
            Poll::Ready(None) | Poll::Pending => Bytes::new(),
        };
        // Nearly every message has come in one piece, which needs no other memory.
        let whole = match incoming.is_end_stream() && beginning.len() <= max {
            true => beginning,
            false => self.read_call_behind(beginning, incoming, max).await?,
        };
        grpc::message_in(whole).and_then(read).map_err(UnreadCall::Malformed)
    }

    async fn read_call_behind(
        &self,
        beginning: Bytes,
        incoming: ClientBody,
        max: usize,
    ) -> Result<Bytes, UnreadCall> {
        let timeout = self.config.current().shared.settings.body_timeout.to_std();
        let memory = self.body_memory.requests.reserve(None);
        let body = body::read_behind(beginning, incoming, max, timeout, memory).await;
        match body.map_err(UnreadCall::Broken)? {
            BufferedBody::Whole(bytes) => Ok(bytes),
            BufferedBody::Longer(..) => Err(UnreadCall::TooLong),
        }
    }

    /// Decides on a request that a message describes.
    pub(super) fn decide_asked(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        asked: Result<AskedRequest, MalformedRequest>,
    ) -> ResponseFuture {
        match asked {
            Ok(AskedRequest { request, body }) => {
                let is_head = request.method() == Method::HEAD;
                self.decide_request(connection, request, is_head, body, self.engine.clock().now())
            }
            Err(error) => {
                let context = self.context_of_asker(connection, &Request::new(()));
                context.finish_with_error(&error.into(), connection)
            }
        }
    }

    /// The lines of `Cookie` that go on to the application, if the gate's own must not.
    pub(super) fn passed_cookies(&self, headers: &HeaderMap) -> Option<Vec<HeaderValue>> {
        self.config.current().shared.rules.policy.owner_cookie.as_ref()?.others(headers)
    }
}

impl AskedAnswer {
    pub(super) async fn of(mut response: Response<ResponseBody>) -> Self {
        complete_headers(&mut response);
        let (head, body) = response.into_parts();
        let body = match body.is_end_stream() {
            true => Bytes::new(),
            false => body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
        };
        Self { status: head.status, headers: head.headers, body }
    }

    /// Whether the request may be forwarded.
    pub(super) fn admits(&self) -> bool {
        self.status == StatusCode::OK
    }
}
