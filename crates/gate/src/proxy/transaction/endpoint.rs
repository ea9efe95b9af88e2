//! Answers proxies that ask before they forward, and applications and proxies that report outcomes afterwards.
//!
//! A question becomes the request that it is about, and `service` decides on that request as on any other. Instead of forwarding it,
//! the gate answers 200 with a receipt. `request::question` reads questions, [`OpenAttempts`] keeps the attempts.
//!
//! [`OpenAttempts`]: crate::engine::OpenAttempts

use std::rc::Rc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, SET_COOKIE};
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::admitted::{Admitted, AdmittedAttempt};
use super::context::RequestContext;
use super::response_future::ResponseFuture;
use super::server::Server;
use crate::engine::{NoSuchReceipt, OpenAttempts};
use crate::proxy::body::{self, BufferedBody, ClientBody, ResponseBody, UnreadGuard};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::endpoint::EndpointKind;
use crate::proxy::error::{Error, MalformedRequest};
use crate::proxy::grpc;
use crate::proxy::headers::hex::hex_value;
use crate::proxy::headers::recorded::RecordedHeaders;
use crate::proxy::headers::{RECEIPT, REQUEST_ID};
use crate::proxy::request::auth_policy::PolicyCommand;
use crate::proxy::request::question::{Question, asks_nothing};
use crate::proxy::request::report::OutcomeReport;
use crate::proxy::request::target;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::time::Span;

/// What comes to an endpoint.
enum Asked {
    /// A question about a request.
    Question(Question),
    /// A call at an endpoint of this kind.
    Call(EndpointKind),
    /// The report of an outcome.
    Report,
    /// A question or report of Dovecot's.
    Policy(PolicyCommand),
}

/// A request that may be forwarded, as far as an endpoint is concerned.
struct Allowed {
    admitted: Admitted,
    /// How long its outcome may be reported.
    timeout: Span,
    /// Whether the connection may be kept.
    may_be_kept: bool,
}

impl Server {
    /// Answers one request at the decision endpoint of this connection.
    pub(super) fn answer_asker(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        mut request: Request<ClientBody>,
    ) -> ResponseFuture {
        let now = self.engine.clock().now();
        connection.state.request_begins(now);
        match self.asked(connection, &request) {
            Ok(Asked::Question(question)) => {
                let (is_head, body) = (request.method() == Method::HEAD, question.body);
                question.put_into(&mut request);
                self.decide_request(connection, request, is_head, body, now)
            }
            Ok(Asked::Call(kind)) => self.answer_call(connection, kind, request),
            Ok(Asked::Report) => {
                let context = self.context_of_asker(connection, &request);
                let (server, connection) = (Rc::clone(self), Rc::clone(connection));
                ResponseFuture::Boxed(Box::pin(server.take_report(connection, request, context)))
            }
            Ok(Asked::Policy(command)) => self.answer_dovecot(connection, request, command),
            Err(error) => self.context_of_asker(connection, &request).finish_with_error(&error, connection),
        }
    }

    /// What a peer asks, if it may. Where it asks about another request, that is the one to be validated.
    fn asked(
        &self,
        connection: &DownstreamConnection,
        request: &Request<ClientBody>,
    ) -> Result<Asked, Error> {
        let config = self.config.current();
        let endpoint = config.shared.endpoint_of(connection).ok_or(Error::UntrustedAsker)?;
        if !endpoint.trusts(connection.peer) {
            return Err(Error::UntrustedAsker);
        }
        let is_report = endpoint.kind.takes_reports() && is_report(request);
        let is_policy = endpoint.kind == EndpointKind::AuthPolicy;
        if is_report || is_policy || endpoint.kind.is_called() {
            target::validate(connection, request, &RecordedHeaders::of(request.headers()))?;
            if is_policy {
                return Ok(Asked::Policy(PolicyCommand::of(request)?));
            }
            // To a proxy that asks by HTTP, the status of gRPC would be a yes.
            let is_call = grpc::is_call(request.headers()) || endpoint.kind == EndpointKind::EnvoyRls;
            if !is_report && !is_call {
                return Err(MalformedRequest::IncompleteQuestion("Content-Type: application/grpc").into());
            }
            return Ok(if is_report { Asked::Report } else { Asked::Call(endpoint.kind) });
        }
        if request.method() == Method::CONNECT {
            return Err(Error::Connect);
        }
        Ok(Asked::Question(Question::of(request, endpoint.shows_bodies)?))
    }

    pub(super) fn context_of_asker<B>(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: &Request<B>,
    ) -> RequestContext {
        let asker = self.config.current().shared.client.client_of_peer(connection.peer);
        let is_head = request.method() == Method::HEAD;
        self.context(connection, request, asker, is_head, self.engine.clock().now())
    }

    /// Tells the asker that it may forward.
    pub(super) fn allow(
        self: &Rc<Self>,
        connection: &DownstreamConnection,
        config: &RuntimeConfig,
        admitted: Admitted,
        may_be_kept: bool,
        mut context: RequestContext,
    ) -> ResponseFuture {
        let endpoint = config.endpoint_of(connection);
        let Some((endpoint, open)) = endpoint.zip(self.open_attempts_of(connection)) else {
            return context.finish_with_error(&Error::UntrustedAsker, connection);
        };
        let allowed = Allowed { admitted, timeout: endpoint.report_timeout, may_be_kept };
        if allowed.admitted.hold == Span::ZERO {
            let response = self.allowed(open, allowed, &context);
            return ResponseFuture::ready(context.record.finish(response));
        }
        let (server, number) = (Rc::clone(self), connection.callers.asked());
        ResponseFuture::Boxed(Box::pin(async move {
            context.record.hold(allowed.admitted.hold).await;
            let open = &server.open_attempts[number.unwrap_or_default()];
            let response = server.allowed(open, allowed, &context);
            context.record.finish(response)
        }))
    }

    pub(super) fn open_attempts_of(&self, connection: &DownstreamConnection) -> Option<&OpenAttempts> {
        self.open_attempts.get(connection.callers.asked()?)
    }

    fn allowed(
        &self,
        open: &OpenAttempts,
        allowed: Allowed,
        context: &RequestContext,
    ) -> Response<ResponseBody> {
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, context.summary.request_id.clone());
        if let Some(limits) = allowed.admitted.limit_headers {
            limits.append_to(headers);
        }
        if let Some(attempt) = &allowed.admitted.attempt {
            attempt.mark(|name, value| drop(headers.insert(name, value)));
        }
        let deadline = self.engine.clock().now().after(allowed.timeout);
        let attempt = allowed.admitted.attempt.and_then(AdmittedAttempt::into_open);
        let receipt = attempt.and_then(|attempt| open.open(&self.engine, attempt, deadline));
        if let Some(receipt) = receipt {
            headers.insert(RECEIPT, hex_value(receipt.to_bytes()));
        }
        if !allowed.may_be_kept {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Settles the attempt of a report.
    async fn take_report(
        self: Rc<Self>,
        connection: Rc<DownstreamConnection>,
        request: Request<ClientBody>,
        mut context: RequestContext,
    ) -> Response<ResponseBody> {
        let config = self.config.current();
        let timeout = config.shared.settings.body_timeout.to_std();
        let endpoint = config.shared.endpoint_of(&connection);
        let may_answer = endpoint.is_some_and(|endpoint| endpoint.reports_answers);
        let most = if may_answer { MAX_ANSWER_REPORT } else { MAX_REPORT };
        let memory = self.body_memory.requests.reserve(None);
        context.record.pause(self.engine.clock().now());
        let guard = UnreadGuard::begins(&self.unread_bodies);
        let body = body::read(request.into_body(), most, timeout, memory).await;
        context.record.resume(self.engine.clock().now());
        let settled = body.and_then(|body| self.settle_report(&connection, &body, may_answer));
        drop(guard);
        match settled {
            Ok(cookie) => {
                let mut response = empty(StatusCode::NO_CONTENT);
                response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
                context.record.finish(response)
            }
            Err(error) => {
                let Ok(response) = context.finish_with_error(&error, &connection).await;
                response
            }
        }
    }

    fn settle_report(
        &self,
        connection: &DownstreamConnection,
        body: &BufferedBody,
        may_answer: bool,
    ) -> Result<Option<HeaderValue>, Error> {
        let BufferedBody::Whole(bytes) = body else { return Err(Error::BodyTooLong) };
        let OutcomeReport { receipt, user, end } = OutcomeReport::read(bytes, may_answer)?;
        let open = self.open_attempts_of(connection).ok_or(NoSuchReceipt)?;
        Ok(open.report(&self.engine, receipt, user.as_deref(), &end)?)
    }
}

/// Whether a request reports an outcome.
fn is_report(request: &Request<ClientBody>) -> bool {
    request.method() == Method::POST && request.uri().path() == REPORTS && asks_nothing(request.headers())
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::generated(Bytes::new()));
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const REPORTS: &str = "/outcome";
/// Bytes of a report; most of it is the name of an account.
const MAX_REPORT: usize = 8 * 1024;
/// The same with the head of an answer; proxies take heads of 60 KiB at most.
const MAX_ANSWER_REPORT: usize = 128 * 1024;
