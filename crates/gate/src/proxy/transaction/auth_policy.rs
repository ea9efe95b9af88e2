//! Answers Dovecot's `auth_policy`: whether a sign-in may be tried, and what came of it.
//!
//! A question becomes a descriptor, and is decided as one of Envoy's. Unless it is configured otherwise, Dovecot takes an error for
//! a yes, so what a client can cause is a refusal. The attempt stays open until Dovecot reports it. `request::auth_policy` reads
//! both.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use serde::Serialize;
use smallvec::SmallVec;

use super::admitted::AdmittedAttempt;
use super::rate_limit_service::Answered;
use super::response_future::ResponseFuture;
use super::server::Server;
use crate::engine::ReportedEnd;
use crate::policy::descriptor::{Descriptor, DescriptorAsker};
use crate::proxy::body::{self, BufferedBody, ClientBody, ResponseBody, UnreadGuard};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::request::auth_policy::{PolicyCommand, PolicySignIn};
use crate::proxy::respond::Code;
use crate::time::Span;

/// An answer to Dovecot.
#[derive(Serialize)]
struct SignInAnswer {
    /// Seconds to wait before the password is checked; -1 refuses.
    status: i64,
    /// What the client reads.
    msg: String,
}

impl Server {
    /// Answers one request at an endpoint of Dovecot's.
    pub(super) fn answer_dovecot(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: Request<ClientBody>,
        command: PolicyCommand,
    ) -> ResponseFuture {
        let (server, connection) = (Rc::clone(self), Rc::clone(connection));
        ResponseFuture::Boxed(Box::pin(async move {
            let (head, incoming) = request.into_parts();
            let request = Request::from_parts(head, ());
            match server.answer_policy(&connection, &request, incoming, command).await {
                Ok(response) => response,
                Err(error) => {
                    let context = server.context_of_asker(&connection, &request);
                    let Ok(response) = context.finish_with_error(&error, &connection).await;
                    response
                }
            }
        }))
    }

    async fn answer_policy(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: &Request<()>,
        incoming: ClientBody,
        command: PolicyCommand,
    ) -> Result<Response<ResponseBody>, Error> {
        let timeout = self.config.current().shared.settings.body_timeout.to_std();
        let memory = self.body_memory.requests.reserve(None);
        let guard = UnreadGuard::begins(&self.unread_bodies);
        let read = body::read(incoming, MAX_MESSAGE, timeout, memory).await;
        drop(guard);
        let body = match read? {
            BufferedBody::Whole(body) => body,
            // Its client may have made it so long.
            BufferedBody::Longer(..) if command == PolicyCommand::Allow => {
                connection.state.linger();
                let mut response = SignInAnswer::refusal(None).response();
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                return Ok(self.context_of_asker(connection, request).record.finish(response));
            }
            BufferedBody::Longer(..) => return Err(Error::BodyTooLong),
        };
        let sign_in = PolicySignIn::read(&body)?;
        match command {
            PolicyCommand::Allow => self.allow_sign_in(connection, &sign_in).await,
            PolicyCommand::Report => self.settle_sign_in(connection, request, &sign_in).await,
        }
    }

    /// Whether a password may be checked.
    async fn allow_sign_in(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        sign_in: &PolicySignIn<'_>,
    ) -> Result<Response<ResponseBody>, Error> {
        let config = self.config.current();
        let timeout = config.shared.report_timeout(connection).ok_or(Error::UntrustedAsker)?;
        let open = self.open_attempts_of(connection).ok_or(Error::UntrustedAsker)?;
        let mut answered = self.decide_sign_in(connection, sign_in).await;
        let answer = match answered.code {
            Code::Ok => SignInAnswer::permission(answered.hold),
            Code::Unknown | Code::OverLimit => SignInAnswer::refusal(answered.retry_after()),
        };
        if let Some(attempt) = answered.attempt.take().and_then(AdmittedAttempt::into_open) {
            // Dovecot holds it before it checks the password.
            let deadline = self.engine.clock().now().after(answered.hold).after(timeout);
            open.open_as(&self.engine, sign_in.receipt(&self.engine), attempt, deadline);
        }
        Ok(answered.recorded_with(answer.response()))
    }

    /// Settles the attempt of a report. A failure that nobody asked about is an attempt by itself.
    async fn settle_sign_in(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: &Request<()>,
        sign_in: &PolicySignIn<'_>,
    ) -> Result<Response<ResponseBody>, Error> {
        let response = json(&serde_json::json!({ "status": "ok" }));
        let done = |response| Ok(self.context_of_asker(connection, request).record.finish(response));
        // After a refusal by policy, no password was checked. Another attempt that is open is not meant.
        let Some(is_success) = sign_in.is_success()? else { return done(response) };
        let open = self.open_attempts_of(connection).ok_or(Error::UntrustedAsker)?;
        // Not even a fault of Dovecot's is neutral: another database of passwords may have answered.
        let end = ReportedEnd::of_password(is_success);
        let receipt = sign_in.receipt(&self.engine);
        let settle = || open.report(&self.engine, receipt, None, &end).is_ok();
        let is_settled = settle();
        // By default Dovecot asks again after the right password.
        while is_settled && is_success && settle() {}
        if is_settled || is_success {
            return done(response);
        }
        let mut answered = self.decide_sign_in(connection, sign_in).await;
        if let Some(attempt) = answered.attempt.take() {
            attempt.fail();
        }
        Ok(answered.recorded_with(response))
    }

    async fn decide_sign_in(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        sign_in: &PolicySignIn<'_>,
    ) -> Answered {
        let remote = sign_in.remote.map(|remote| remote.to_string());
        let mut entries: SmallVec<[(&[u8], &[u8]); 3]> = SmallVec::new();
        entries.extend(remote.as_ref().map(|remote| (&b"remote_address"[..], remote.as_bytes())));
        entries.push((b"user", sign_in.login().as_bytes()));
        if !sign_in.protocol().is_empty() {
            entries.push((b"protocol", sign_in.protocol().as_bytes()));
        }
        let asker = DescriptorAsker::Dovecot(sign_in.protocol());
        self.decide_descriptor(connection, &Descriptor { asker, entries: &entries, hits: 1 }, false).await
    }
}

impl Answered {
    /// The answer about the attempt, which is recorded as admitted or refused.
    fn recorded_with(mut self, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        self.context.record.end_hold();
        if self.code != Code::Ok {
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        }
        let mut response = self.context.record.finish(response);
        *response.status_mut() = StatusCode::OK;
        response
    }
}

impl SignInAnswer {
    /// Dovecot holds the attempt itself.
    fn permission(hold: Span) -> Self {
        Self { status: i64::try_from(hold.as_secs_ceil()).unwrap_or(i64::MAX), msg: String::new() }
    }

    /// `wait` is in seconds; `None` if waiting does not help.
    fn refusal(wait: Option<u64>) -> Self {
        let msg = match wait {
            Some(1) => "Too many sign-in attempts. Wait a second, then try again.".to_owned(),
            Some(wait) => format!("Too many sign-in attempts. Wait {wait} seconds, then try again."),
            None => "This sign-in attempt was refused.".to_owned(),
        };
        Self { status: -1, msg }
    }

    fn response(&self) -> Response<ResponseBody> {
        json(self)
    }
}

fn json(answer: &impl Serialize) -> Response<ResponseBody> {
    let body = serde_json::to_vec(answer).unwrap_or_default();
    let mut response = Response::new(ResponseBody::generated(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Bytes of a question or report. Dovecot reads 8 KiB of a client, each byte of which may be written as seven.
const MAX_MESSAGE: usize = 64 * 1024;
