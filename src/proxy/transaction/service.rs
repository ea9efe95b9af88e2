//! The service: checks, decides, refuses or forwards one request.
//!
//! It reads like the story it is: who is this client; which route; read the body if what it costs stands there; decide;
//! refuse or forward; settle by the answer. The surprising thing: everything up to the decision happens at once, without
//! a task or a future, unless a body has to be read, so a refusal costs little more than reading the request did.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use hyper::body::{Body as _, Incoming};

use super::access_record::AccessRecord;
use super::admitted::AdmittedAttempt;
use super::context::{RequestContext, RequestSummary, error_response};
use super::discard_body;
use super::forward::UpstreamRequest;
use super::response_future::ResponseFuture;
use super::server::Server;
use crate::engine::{Decision, DecisionState, PendingDecision, Refusal, Rules, with_newest_rules};
use crate::event::{Event, Events};
use crate::policy::BodyRequirement;
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::proxy::body::{self, BufferedBody, IncomingBody, MemoryReservation, ResponseBody, UnreadGuard};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::error::MalformedRequest;
use crate::proxy::request::redirect;
use crate::proxy::request::scheme::is_secure;
use crate::proxy::request::target;
use crate::proxy::respond::{self, RateLimitHeaders, ShowLimits};
use crate::proxy::runtime_config::{RuntimeConfig, WorkerConfig};
use crate::time::{Span, Time};

/// Serves the requests of one connection.
pub struct Service {
    server: Rc<Server>,
    connection: Arc<DownstreamConnection>,
}

/// What was decided on a request, by which site, and where it goes if it may.
struct RoutedDecision {
    config: Rc<WorkerConfig>,
    decision: Decision,
    group: usize,
}

/// What can be said after a look at the head of a request.
enum HeadDecision {
    Decided(RoutedDecision),
    /// It is asked for again over TLS.
    Redirected(HeaderValue),
    /// The store has to be asked.
    AwaitsStore(Rc<WorkerConfig>, PendingDecision, usize),
    /// What has to be known stands in its body.
    NeedsBody(Rc<WorkerConfig>, BodyRequirement),
}

/// The same before it is known which rules were in force.
#[expect(clippy::large_enum_variant, reason = "it is moved once and never kept")]
enum HeadCheck {
    Malformed(MalformedRequest),
    Redirected,
    Checked(DecisionState, Option<usize>),
    NeedsBody(BodyRequirement),
}

impl Service {
    /// For this connection.
    #[must_use]
    pub fn new(gate: Rc<Server>, connection: Arc<DownstreamConnection>) -> Self {
        Self { server: gate, connection }
    }

    /// Who hears what happens.
    pub(in crate::proxy) fn events(&self) -> Events {
        self.server.events.clone()
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        self.server.handle(&self.connection, request)
    }
}

impl Server {
    /// Answers one request. There is always an answer.
    fn handle(
        self: &Rc<Self>,
        connection: &Arc<DownstreamConnection>,
        request: Request<Incoming>,
    ) -> ResponseFuture {
        let now = self.engine.clock().now();
        connection.state.request_begins(now);
        let asker = RequestSummary::of(&request, &self.ids);
        let looked = self.check(connection, &request, now);
        let client = match &looked {
            Ok((client, _)) => *client,
            Err(_) => self.config.current().client_for_log(connection, &request),
        };
        let exchange = AccessRecord::begin(self, connection, &request, client, asker.request_id.clone(), now);
        let visit = RequestContext { summary: asker, record: exchange };
        match looked.map(|(_, look)| look) {
            Ok(HeadDecision::Decided(judgement)) => {
                self.respond(connection, judgement, request.map(IncomingBody::Streaming), visit)
            }
            Ok(HeadDecision::Redirected(location)) => {
                visit.finish_with(redirect::redirect_response(location), connection)
            }
            Ok(HeadDecision::AwaitsStore(local, inquiry, group)) => {
                let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
                ResponseFuture::Boxed(Box::pin(async move {
                    let ruling = gate.await_store(inquiry, &local).await;
                    let judgement = RoutedDecision { config: local, decision: ruling, group };
                    let Ok(response) = gate
                        .respond(&connection, judgement, request.map(IncomingBody::Streaming), visit)
                        .await;
                    response
                }))
            }
            Ok(HeadDecision::NeedsBody(local, to_read)) => {
                let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
                let patience = local.shared.settings.body_timeout.to_std();
                let owner = client.ip().map(|ip| local.shared.client.prefixes.mask(ip));
                ResponseFuture::Boxed(Box::pin(async move {
                    let hold = gate.body_memory.reserve(owner);
                    gate.handle_with_body(&connection, request, to_read, patience, hold, visit).await
                }))
            }
            Err(error) => visit.finish_with_error(&error, connection),
        }
    }

    /// Decides by the head of a request, as far as that goes, and says whose it is.
    fn check(
        &self,
        connection: &DownstreamConnection,
        request: &Request<Incoming>,
        now: Time,
    ) -> Result<(Client, HeadDecision), Error> {
        let host = target::validate(connection, request)?;
        let has_body = !request.body().is_end_stream();
        let (local, (client, found)) = with_newest_rules(
            || self.config.current(),
            |local| {
                let rules = &local.shared.rules;
                let client = match local.client_of(connection, request) {
                    Ok(client) => client,
                    Err(why) => return Ok((Client::UnixSocket, HeadCheck::Malformed(why))),
                };
                if local.shared.redirect.is_some() && local.shared.needs_redirect(connection, request) {
                    return Ok((client, HeadCheck::Redirected));
                }
                let attempt = attempt(
                    request,
                    &host,
                    client,
                    if has_body { AttemptBody::Unread } else { AttemptBody::Whole(&[]) },
                );
                let to_read = if has_body { rules.policy.body_requirement(&attempt)? } else { None };
                let Some(to_read) = to_read else {
                    let consulted = self.engine.decide(rules, &attempt, now)?;
                    return Ok((client, HeadCheck::Checked(consulted, rules.policy.upstream_of(&attempt))));
                };
                // Whoever is refused whatever the body says is refused before it is read.
                let refusal = if to_read.may_be_no_attempt {
                    None
                } else {
                    self.engine.refuse(rules, &attempt, now)?
                };
                let ruling = refusal.map(|refusal| {
                    HeadCheck::Checked(DecisionState::Ready(Decision::Refused(refusal)), None)
                });
                Ok((client, ruling.unwrap_or(HeadCheck::NeedsBody(to_read))))
            },
        )?;
        let look = match found {
            HeadCheck::Malformed(why) => return Err(why.into()),
            HeadCheck::Redirected => {
                HeadDecision::Redirected(local.shared.redirect_location(connection, request)?)
            }
            HeadCheck::Checked(DecisionState::Ready(ruling), group) => {
                HeadDecision::Decided(RoutedDecision {
                    config: local,
                    decision: ruling,
                    group: group.unwrap_or(0),
                })
            }
            HeadCheck::Checked(DecisionState::Pending(inquiry), group) => {
                HeadDecision::AwaitsStore(local, inquiry, group.unwrap_or(0))
            }
            HeadCheck::NeedsBody(to_read) => HeadDecision::NeedsBody(local, to_read),
        };
        Ok((client, look))
    }

    /// Reads the body, then decides and answers.
    async fn handle_with_body(
        self: Rc<Self>,
        connection: &Arc<DownstreamConnection>,
        request: Request<Incoming>,
        to_read: BodyRequirement,
        patience: Duration,
        hold: MemoryReservation,
        mut visit: RequestContext,
    ) -> Response<ResponseBody> {
        let (head, incoming) = request.into_parts();
        visit.record.pause(self.engine.clock().now());
        let unread = UnreadGuard::begins(&self.unread_bodies);
        let read = body::read(incoming, to_read.max_bytes, patience, hold).await;
        if matches!(read, Err(Error::NoMemory)) {
            self.events.emit(&Event::BodyRefused);
        }
        visit.record.resume(self.engine.clock().now());
        let judged = match read {
            Ok(read) => self.decide_with_body(connection, head, read, &to_read).await,
            Err(error) => Err(error),
        };
        drop(unread);
        let Ok(response) = match judged {
            Ok((judgement, request)) => self.respond(connection, judgement, request, visit),
            Err(error) => visit.finish_with_error(&error, connection),
        }
        .await;
        response
    }

    /// Decides on a request of whose body something was read.
    async fn decide_with_body(
        &self,
        connection: &DownstreamConnection,
        head: http::request::Parts,
        read: BufferedBody,
        to_read: &BodyRequirement,
    ) -> Result<(RoutedDecision, Request<IncomingBody>), Error> {
        let (known, arrival) = match &read {
            BufferedBody::Whole(bytes) => (AttemptBody::Whole(bytes), IncomingBody::Buffered(some(bytes))),
            BufferedBody::Longer(..) if to_read.refuse_longer => return Err(Error::BodyTooLong),
            BufferedBody::Longer(..) => (AttemptBody::TooLong, IncomingBody::Buffered(None)),
        };
        let mut request = Request::from_parts(head, arrival);
        let judgement = self.decide(connection, &request, known).await?;
        if let BufferedBody::Longer(beginning, rest) = read {
            *request.body_mut() = IncomingBody::Prefixed(some(&beginning), rest);
        }
        Ok((judgement, request))
    }

    /// Waits for the store.
    async fn await_store(&self, inquiry: PendingDecision, local: &WorkerConfig) -> Decision {
        inquiry.await_store(&self.engine, &local.shared.rules).await
    }

    /// Decides on a request with its body.
    async fn decide<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
        body: AttemptBody<'_>,
    ) -> Result<RoutedDecision, Error> {
        let host = target::validate(connection, request)?;
        let now = self.engine.clock().now();
        let (local, found) = with_newest_rules(
            || self.config.current(),
            |local| {
                let client = match local.client_of(connection, request) {
                    Ok(client) => client,
                    Err(why) => return Ok(Err(why)),
                };
                let attempt = attempt(request, &host, client, body);
                let consulted = self.engine.decide(&local.shared.rules, &attempt, now)?;
                Ok(Ok((consulted, local.shared.rules.policy.upstream_of(&attempt))))
            },
        )?;
        let (consulted, group) = found?;
        let ruling = match consulted {
            DecisionState::Ready(ruling) => ruling,
            DecisionState::Pending(inquiry) => self.await_store(inquiry, &local).await,
        };
        Ok(RoutedDecision { config: local, decision: ruling, group: group.unwrap_or(0) })
    }

    /// Refuses or forwards.
    fn respond(
        self: &Rc<Self>,
        connection: &Arc<DownstreamConnection>,
        RoutedDecision { config: local, decision: ruling, group }: RoutedDecision,
        request: Request<IncomingBody>,
        mut visit: RequestContext,
    ) -> ResponseFuture {
        let (site, rules) = (&local.shared, &local.shared.rules);
        let reservation = match ruling {
            Decision::Uncounted => None,
            Decision::Denied => return visit.finish_with_error(&Error::StoreUnavailable, connection),
            Decision::Admitted(reservation) => {
                visit.record.admitted(&rules.policy, reservation.route());
                let Some(places) = rules.acquire_permits(&reservation) else {
                    // The application never hears of it, so it was no attempt.
                    reservation.refund(&self.engine, rules);
                    return visit.finish_with_error(&Error::InFlightLimit, connection);
                };
                visit.record.hold_permits(places);
                Some(reservation)
            }
            Decision::Refused(refusal) => {
                visit.record.refused(&rules.policy, &refusal);
                let response = self.refuse(connection, site, &refusal, request, &visit.summary);
                return ResponseFuture::delayed(site.refuse.delay, visit.record.finish(response));
            }
        };
        let shown = reservation
            .as_ref()
            .filter(|_| site.refuse.headers == ShowLimits::Always)
            .and_then(|admitted| respond::rate_limit_headers(&rules.policy, &admitted.statuses));
        let hold = reservation.as_ref().map_or(Span::ZERO, |held| held.hold);
        let attempt = reservation.map(|reservation| {
            let trusted = site.client.trusts(connection.peer);
            let is_secure = reservation.claim().is_some()
                && is_secure(request.headers(), trusted, connection.is_secure());
            AdmittedAttempt::new(self, &local, reservation, is_secure)
        });
        let departure = UpstreamRequest::prepare(request, connection, &local, group, attempt, &visit.summary);
        let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
        ResponseFuture::Boxed(Box::pin(async move {
            gate.forward(departure, &connection, hold, shown, visit).await
        }))
    }

    async fn forward(
        &self,
        mut departure: UpstreamRequest,
        connection: &Arc<DownstreamConnection>,
        hold: Span,
        shown: Option<RateLimitHeaders>,
        RequestContext { summary: asker, record: mut exchange, .. }: RequestContext,
    ) -> Response<ResponseBody> {
        if hold > Span::ZERO {
            exchange.pause(self.engine.clock().now());
            tokio::time::sleep(hold.to_std()).await;
            exchange.resume(self.engine.clock().now());
            exchange.end_hold();
        }
        match departure.send(self, connection, &mut exchange).await {
            Ok(mut response) => {
                if let Some(shown) = shown {
                    shown.append_to(response.headers_mut());
                }
                exchange.finish(response)
            }
            Err(error) => exchange.finish(error_response(connection, &error, &asker)),
        }
    }

    fn refuse(
        &self,
        connection: &DownstreamConnection,
        site: &RuntimeConfig,
        refusal: &Refusal,
        request: Request<IncomingBody>,
        asker: &RequestSummary,
    ) -> Response<ResponseBody> {
        let Rules { generation, policy, .. } = &*site.rules;
        let response =
            self.refusal_cache.refusal(*generation, &site.refuse, policy, refusal, &asker.negotiation());
        let mut response = response.map(ResponseBody::generated);
        let (head, arrival) = request.into_parts();
        let may_be_kept = match arrival {
            IncomingBody::Streaming(body) => {
                discard_body::discard(Request::from_parts(head, body), connection)
            }
            IncomingBody::Buffered(_) => true,
            // More than anybody reads for its fields is more than is drained.
            IncomingBody::Prefixed(..) => false,
        };
        if !may_be_kept {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

fn attempt<'a, B>(
    request: &'a Request<B>,
    host: &'a str,
    client: Client,
    body: AttemptBody<'a>,
) -> Attempt<'a> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    Attempt { method, path: uri.path(), query: uri.query(), host, client, headers, body }
}

fn some(bytes: &Bytes) -> Option<Bytes> {
    Some(bytes.clone()).filter(|bytes| !bytes.is_empty())
}
