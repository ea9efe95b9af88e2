//! Answers Envoy's external processing, version 3: `envoy.service.ext_proc.v3.ExternalProcessor/Process`.
//!
//! A stream is one request. Its head decides, or its body if a limit needs that, and the head of the application's answer settles the
//! attempt by the rules of its routes. A stream that ends before makes it a failure, as a client does that hangs up. Until the
//! decision every fault is an error of the stream, and Envoy forwards nothing.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tokio::time::timeout;

use super::calls::AskedAnswer;
use super::server::Server;
use crate::defences::HEADERS;
use crate::engine::{AttemptReceipt, OpenAttempts, ReportedEnd};
use crate::proxy::body::{AskedBody, ClientBody, ResponseBody, UnreadGuard};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::grpc::CallError;
use crate::proxy::grpc::stream::{self, Answers, CallMessages};
use crate::proxy::headers::{FAILURES, RECEIPT, REFUSED};
use crate::proxy::request::described::told_length;
use crate::proxy::request::processing::{BodySendMode, HttpHeaders, ProcessedPart, ProcessingRequest};
use crate::proxy::respond::{ProcessingResponse, RequestChanges, RequestPart, shown_limits};
use crate::time::Span;

/// One request of Envoy's.
struct Exchange {
    server: Rc<Server>,
    connection: Rc<DownstreamConnection>,
    messages: CallMessages,
    answers: Answers,
    /// The attempt, if it took tokens.
    attempt: Option<AwaitedAttempt>,
    /// What the answer tells of limits.
    limits: HeaderMap,
}

/// An attempt until the application has answered. Dropped, it is a failure.
struct AwaitedAttempt {
    server: Rc<Server>,
    connection: Rc<DownstreamConnection>,
    receipt: Option<AttemptReceipt>,
}

/// What Envoy waits for an answer to when the decision comes.
enum DecidedPart {
    Headers,
    Body,
    /// The trailers of a request without a body.
    Trailers,
    /// The head of the application's answer.
    Answer(HttpHeaders),
}

/// How the request goes on.
#[derive(PartialEq, Eq)]
enum Course {
    /// It is forwarded.
    Forwarded,
    /// Envoy has all that it needs.
    Over,
}

impl Server {
    /// The response to a stream. Only one that fails is recorded: otherwise the request is that it is about.
    pub(super) fn process(
        self: Rc<Self>,
        connection: Rc<DownstreamConnection>,
        request: Request<ClientBody>,
    ) -> Response<ResponseBody> {
        let (head, incoming) = request.into_parts();
        let (server, asker) = (Rc::clone(&self), Rc::clone(&connection));
        let (messages, answers) =
            (CallMessages::new(incoming, &self.body_memory.requests), Answers::default());
        let (attempt, limits) = (None, HeaderMap::new());
        let exchange =
            Exchange { server: self, connection, messages, answers: answers.clone(), attempt, limits };
        stream::response(answers, async move {
            let ended = exchange.run().await;
            if let Err(error) = &ended {
                let context = server.context_of_asker(&asker, &Request::from_parts(head, ()));
                drop(context.record.finish(error.response()));
            }
            ended
        })
    }
}

impl Exchange {
    async fn run(mut self) -> Result<(), CallError> {
        let server = Rc::clone(&self.server);
        let wait = server.config.current().shared.settings.body_timeout;
        let guard = UnreadGuard::begins(&server.unread_bodies);
        let Ok(first) = timeout(wait.to_std(), self.messages.next()).await else { return Err(LATE) };
        let Some(first) = first? else { return Ok(()) };
        let (head, mode) = ProcessingRequest::read_first(first)?;
        drop(guard);
        if self.decide(head, mode).await? == Course::Over {
            return Ok(());
        }
        let wait = self.answer_timeout().to_std();
        // After the decision an end without an error lets all pass that is still to come.
        while let Ok(message) = timeout(wait, self.messages.next()).await {
            let Some(message) = message? else { return Ok(()) };
            let answer = match ProcessingRequest::read(message)? {
                ProcessedPart::RequestHeaders(_) => {
                    return Err(CallError::InvalidMessage("a second request"));
                }
                ProcessedPart::RequestBody(_) => ProcessingResponse::request_body(),
                ProcessedPart::RequestTrailers(()) => ProcessingResponse::request_trailers(),
                ProcessedPart::ResponseHeaders(head) => self.settle(&head),
                ProcessedPart::ResponseBody(()) => ProcessingResponse::response_body(),
                ProcessedPart::ResponseTrailers(()) => ProcessingResponse::response_trailers(),
            };
            self.answers.send(&answer).await;
        }
        Ok(())
    }

    /// Decides by the head, or asks for the body first if that is needed.
    async fn decide(&mut self, head: HttpHeaders, mode: BodySendMode) -> Result<Course, CallError> {
        let body = AskedBody::elsewhere();
        let asked = head.into_request(mode, &body);
        let headers = asked.as_ref().ok().map(|asked| asked.request.headers());
        let cookies = headers.and_then(|headers| self.server.passed_cookies(headers));
        let length = headers.and_then(told_length);
        let mut decision = self.server.decide_asked(&self.connection, asked);
        let by_head = poll_fn(|cx| match Pin::new(&mut decision).poll(cx) {
            Poll::Ready(Ok(response)) => Poll::Ready(Some(response)),
            Poll::Pending if body.is_wanted() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let (response, part) = match by_head.await {
            Some(response) => (response, DecidedPart::Headers),
            None => {
                let none_told = RequestChanges::of(&HeaderMap::new(), cookies.clone());
                self.answers.send(&ProcessingResponse::request(RequestPart::Headers, none_told)).await;
                let mut part = DecidedPart::Body;
                let Ok(response) = tokio::select! {
                    // Without a body there is no decision but a refusal.
                    refused = &mut decision => refused,
                    message = self.messages.next() => {
                        let Some(message) = message? else { return Ok(Course::Over) };
                        match ProcessingRequest::read(message)? {
                            ProcessedPart::RequestBody(all) => {
                                body.give(all.bytes.clone(), all.is_cut(mode, length));
                            }
                            ProcessedPart::RequestTrailers(()) => {
                                body.give(Bytes::new(), false);
                                part = DecidedPart::Trailers;
                            }
                            // The same with trailers that Envoy does not show: the application has it already.
                            ProcessedPart::ResponseHeaders(head) if head.answer().is_some() => {
                                body.give(Bytes::new(), false);
                                part = DecidedPart::Answer(head);
                            }
                            // Envoy answered itself, and forwarded nothing.
                            ProcessedPart::ResponseHeaders(head) => {
                                let answer = self.settle(&head);
                                self.answers.send(&answer).await;
                                return Ok(Course::Over);
                            }
                            _ => return Err(CallError::InvalidMessage("a request without its body")),
                        }
                        decision.await
                    }
                };
                (response, part)
            }
        };
        Ok(self.answer(AskedAnswer::of(response).await, part, cookies).await)
    }

    async fn answer(
        &mut self,
        answer: AskedAnswer,
        part: DecidedPart,
        cookies: Option<Vec<HeaderValue>>,
    ) -> Course {
        if !answer.admits() {
            let AskedAnswer { status, headers, body } = answer;
            self.answers.send(&ProcessingResponse::immediate(status, headers, body)).await;
            return Course::Over;
        }
        let mut headers = answer.headers;
        // The stream reports the outcome, and not the application.
        let receipt = headers.remove(RECEIPT).and_then(|receipt| receipt.to_str().ok()?.parse().ok());
        self.attempt = receipt.map(|receipt| AwaitedAttempt {
            server: Rc::clone(&self.server),
            connection: Rc::clone(&self.connection),
            receipt: Some(receipt),
        });
        self.limits = shown_limits(&headers);
        let changes = RequestChanges::of(&headers, cookies);
        let admitted = match part {
            DecidedPart::Headers => ProcessingResponse::request(RequestPart::Headers, changes),
            DecidedPart::Body => ProcessingResponse::request(RequestPart::Body, changes),
            // Envoy takes no more changes of the head, and the application must not miss what that tells.
            DecidedPart::Trailers if headers.keys().any(is_told) => {
                let refusal =
                    ProcessingResponse::immediate(StatusCode::BAD_REQUEST, HeaderMap::new(), Bytes::new());
                self.answers.send(&refusal).await;
                return Course::Over;
            }
            DecidedPart::Trailers => ProcessingResponse::request_trailers(),
            DecidedPart::Answer(head) => self.settle(&head),
        };
        self.answers.send(&admitted).await;
        Course::Forwarded
    }

    /// Settles the attempt by the head of the answer.
    fn settle(&mut self, head: &HttpHeaders) -> ProcessingResponse {
        let end = match head.answer() {
            Some((status, headers)) => ReportedEnd::Answer { status, headers },
            None => ReportedEnd::Unanswered,
        };
        let cookie = self.attempt.take().and_then(|mut attempt| attempt.report(&end));
        let config = self.server.config.current();
        let hidden = config.shared.rules.policy.hidden_headers();
        ProcessingResponse::response(hidden, &self.limits, cookie.as_ref())
    }

    fn answer_timeout(&self) -> Span {
        let config = self.server.config.current();
        config.shared.report_timeout(&self.connection).unwrap_or(Span::ZERO)
    }
}

impl AwaitedAttempt {
    /// Settles it. Returns a `Set-Cookie` for its client.
    fn report(&mut self, end: &ReportedEnd) -> Option<HeaderValue> {
        let open: &OpenAttempts = self.server.open_attempts_of(&self.connection)?;
        open.report(&self.server.engine, self.receipt.take()?, None, end).ok()?
    }
}

impl Drop for AwaitedAttempt {
    fn drop(&mut self) {
        drop(self.report(&ReportedEnd::Unanswered));
    }
}

/// Whether the application is told something by this header.
fn is_told(name: &HeaderName) -> bool {
    [REFUSED, FAILURES].contains(name) || HEADERS.contains(&name.as_str())
}

const LATE: CallError = CallError::Exhausted("no message in time");
