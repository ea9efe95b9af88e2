//! The service: checks, decides, refuses or forwards one request.
//!
//! The steps: find the client and the route, read the body if its fields decide the cost, decide, refuse or forward,
//! settle by the response. Everything up to the decision runs at once, without a task or a future, unless the gate must read a body
//! or wait for the store. So a refusal costs little more than reading the request. The engine decides, `forward` forwards, and
//! `respond` renders refusals.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;

use super::access_record::{AccessRecord, EndCell};
use super::admitted::{Admitted, AdmittedAttempt};
use super::body_search::ReadBody;
use super::context::{RequestContext, error_response};
use super::discard_body;
use super::forward::PreparedRequest;
use super::head_check::{CheckedHead, HeadDecision, RoutedDecision, UnreadAttempt};
use super::request_summary::RequestSummary;
use super::response_future::ResponseFuture;
use super::server::Server;
use crate::engine::{Decision, DecisionState, PendingDecision, Reservation, Rules, with_newest_rules};
use crate::event::{Event, Events};
use crate::net::listener::Callers;
use crate::policy::attempt::{Attempt, AttemptBody, Client, TlsClient};
use crate::policy::body_coding::BodyCoding;
use crate::policy::{BodyRequirement, MatchedRoutes, Policy, Unchargeable};
use crate::proxy::body::{
    self, BufferedBody, ClientBody, IncomingBody, MemoryReservation, ResponseBody, UnreadGuard,
};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::error::MalformedRequest;
use crate::proxy::headers::recorded::RecordedHeaders;
use crate::proxy::request::question::VisibleBody;
use crate::proxy::request::redirect;
use crate::proxy::request::scheme::is_secure;
use crate::proxy::request::target;
use crate::proxy::respond;
use crate::proxy::runtime_config::WorkerConfig;
use crate::time::Time;

/// Serves the requests of one connection.
pub struct Service {
    pub(super) server: Rc<Server>,
    pub(super) connection: Rc<DownstreamConnection>,
}

impl Service {
    /// The service of this connection.
    #[must_use]
    pub fn new(server: Rc<Server>, connection: Rc<DownstreamConnection>) -> Self {
        Self { server, connection }
    }

    /// Serves one request. There is always a response.
    pub(in crate::proxy) fn respond(&self, request: Request<ClientBody>) -> ResponseFuture {
        match self.connection.callers {
            Callers::Clients => {
                let (now, is_head) = (self.server.engine.clock().now(), request.method() == Method::HEAD);
                self.connection.state.request_begins(now);
                self.server.decide_request(&self.connection, request, is_head, VisibleBody::Whole, now)
            }
            Callers::Askers(_) => self.server.answer_asker(&self.connection, request),
        }
    }

    /// Whether the peer is a proxy that may ask: it cancels what its own clients cancel.
    pub(in crate::proxy) fn serves_trusted_asker(&self) -> bool {
        let config = self.server.config.current();
        config.shared.may_ask(&self.connection)
    }

    /// Records that the client sent what is not a request, and got this status.
    pub(in crate::proxy) fn emit_without_request(&self, status: StatusCode) {
        AccessRecord::emit_without_request(&self.server, &self.connection, status);
    }

    /// The receiver of events.
    pub(in crate::proxy) fn events(&self) -> Events {
        self.server.events.clone()
    }
}

impl Server {
    /// Decides on a request of a client, which came here itself or is asked about. `is_head`: whether the response has
    /// no body.
    pub(super) fn decide_request(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: Request<ClientBody>,
        is_head: bool,
        body: VisibleBody,
        now: Time,
    ) -> ResponseFuture {
        let recorded = RecordedHeaders::of(request.headers());
        let checked = self.check(connection, &request, &recorded, body, now);
        let client = match &checked {
            Ok(head) => head.client,
            Err(_) => self.config.current().client_for_log(connection, &request),
        };
        let mut context = self.context_with(connection, &request, &recorded, client, is_head, now);
        let CheckedHead { config, decision, .. } = match checked {
            Ok(head) => head,
            Err(error) => return context.finish_with_error(&error, connection),
        };
        match decision {
            HeadDecision::Decided(decision, group) => {
                if let Decision::Refused(refusal) = &decision {
                    self.has_refused(&config, connection, &request, body, refusal, &context);
                }
                let routed = RoutedDecision { config, decision, group };
                self.respond(connection, routed, request.map(IncomingBody::Streaming), context)
            }
            HeadDecision::Redirected(location) => {
                context.finish_with(redirect::redirect_response(location), connection)
            }
            HeadDecision::Validation(answer) => context.finish_with(answer.into_response(), connection),
            HeadDecision::Voucher => {
                let (server, connection) = (Rc::clone(self), Rc::clone(connection));
                let redeemed = server.redeem(connection, config, client, request, context);
                ResponseFuture::Boxed(Box::pin(redeemed))
            }
            HeadDecision::AwaitsStore(pending, group) => {
                let (server, connection) = (Rc::clone(self), Rc::clone(connection));
                ResponseFuture::Boxed(Box::pin(async move {
                    let decision = server.await_store(pending, &config).await;
                    let routed = RoutedDecision { config, decision, group };
                    let Ok(response) = server
                        .respond(&connection, routed, request.map(IncomingBody::Streaming), context)
                        .await;
                    response
                }))
            }
            HeadDecision::NeedsBody(unread) => {
                let policy = &config.shared.rules.policy;
                context.permit_origin(policy, unread.routes.first(), request.headers());
                let timeout = config.shared.settings.body_timeout.to_std();
                let owner = config.shared.client.prefix_of(client);
                let memory = self.body_memory.requests.reserve(owner);
                let (server, connection) = (Rc::clone(self), Rc::clone(connection));
                let handled = server.handle_with_body(connection, request, unread, timeout, memory, context);
                ResponseFuture::Boxed(Box::pin(handled))
            }
        }
    }

    pub(super) fn context<B>(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: &Request<B>,
        client: Client,
        is_head: bool,
        now: Time,
    ) -> RequestContext {
        let recorded = RecordedHeaders::of(request.headers());
        self.context_with(connection, request, &recorded, client, is_head, now)
    }

    fn context_with<B>(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        request: &Request<B>,
        recorded: &RecordedHeaders<'_>,
        client: Client,
        is_head: bool,
        now: Time,
    ) -> RequestContext {
        let summary = RequestSummary::of(is_head, recorded, &self.ids);
        let id = (summary.request_id.clone(), summary.id_came_back);
        let record = AccessRecord::begin(self, connection, (request, recorded), client, id, now);
        RequestContext { summary, record, forwarding: recorded.forwarding }
    }

    /// Decides by the head of a request if possible. Returns the client, too.
    fn check(
        &self,
        connection: &DownstreamConnection,
        request: &Request<ClientBody>,
        recorded: &RecordedHeaders<'_>,
        visible: VisibleBody,
        now: Time,
    ) -> Result<CheckedHead, Error> {
        let host = target::validate(connection, request, recorded)?;
        let has_body = !request.body().is_end_stream();
        let body = if has_body { AttemptBody::Unread } else { visible.without_any() };
        let (config, checked) = with_newest_rules(
            || self.config.current(),
            |config| {
                let (shared, rules) = (&config.shared, &config.shared.rules);
                let client = match config.client_of(connection, request) {
                    Ok(client) => client,
                    Err(error) => return Ok(Err(error.into())),
                };
                if let Some(answered) = HeadDecision::before_routes(shared, connection, request, &host) {
                    return Ok(answered.map(|answered| (client, answered)));
                }
                let mut attempt = attempt(request, &host, client, None, body);
                let is_attempt = || !rules.policy.routes_of(&attempt).is_empty();
                let shown = match shared.shown_by(connection, request, now, is_attempt) {
                    Ok(shown) => shown,
                    Err(error) => return Ok(Err(error.into())),
                };
                if shown.has_bad_signature {
                    self.events.emit(&Event::BadSignature);
                }
                attempt.tls = shown.client();
                let (routes, requirement) = routes_by_head(&rules.policy, &attempt, has_body)?;
                let Some(requirement) = requirement else {
                    let state = self.engine.decide_on(rules, &attempt, routes, now)?;
                    return Ok(Ok((client, HeadDecision::by(state, rules.policy.upstream_of(&attempt)))));
                };
                if visible == VisibleBody::Beginning {
                    return Ok(Err(Error::BodyTooLong));
                }
                // If every body would be refused, the refusal comes before the body is read.
                let certain = rules.policy.certain_routes(&attempt, &routes);
                let refusal = self.engine.refuse(rules, &attempt, certain, now)?;
                let refused = refusal.map(|refusal| HeadDecision::Decided(Decision::Refused(refusal), 0));
                let unread = || UnreadAttempt { requirement, routes, generation: rules.generation };
                Ok(Ok((client, refused.unwrap_or_else(|| HeadDecision::NeedsBody(unread())))))
            },
        )?;
        checked.map(|(client, decision)| CheckedHead { config, client, decision })
    }

    /// Reads the body, then decides and responds.
    async fn handle_with_body(
        self: Rc<Self>,
        connection: Rc<DownstreamConnection>,
        request: Request<ClientBody>,
        unread: UnreadAttempt,
        timeout: Duration,
        memory: MemoryReservation,
        mut context: RequestContext,
    ) -> Response<ResponseBody> {
        let (head, incoming) = request.into_parts();
        let mut request = Request::from_parts(head, IncomingBody::Buffered(None));
        context.record.pause(self.engine.clock().now());
        let guard = UnreadGuard::begins(&self.unread_bodies);
        // Where the body is needed, another coding was refused by the head.
        let coding = BodyCoding::of(request.headers()).ok().flatten();
        let coding = coding.map(|coding| (coding, memory.another()));
        let buffered = body::read(incoming, unread.requirement.max_bytes, timeout, memory).await;
        if matches!(buffered, Err(Error::NoMemory)) {
            self.events.emit(&Event::BodyRefused);
        }
        context.record.resume(self.engine.clock().now());
        let decided = match buffered {
            Ok(buffered) => {
                let read = self.search_body(&connection, &request, &buffered, coding, &unread).await;
                match read {
                    Ok(read) => {
                        self.decide_with_body(&connection, &mut request, buffered, read, unread).await
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        drop(guard);
        let Ok(response) = match decided {
            Ok(decision) => self.respond(&connection, decision, request, context),
            Err(error) => context.finish_with_error(&error, &connection),
        }
        .await;
        response
    }

    /// Decides on a request with a buffered body, which becomes its body.
    async fn decide_with_body(
        &self,
        connection: &DownstreamConnection,
        request: &mut Request<IncomingBody>,
        buffered: BufferedBody,
        read: ReadBody,
        unread: UnreadAttempt,
    ) -> Result<RoutedDecision, Error> {
        read.check(unread.requirement.is_needed)?;
        let decision = self.decide(connection, request, &read, unread).await?;
        *request.body_mut() = match buffered {
            BufferedBody::Whole(bytes) => IncomingBody::Buffered(some(&bytes)),
            BufferedBody::Longer(beginning, rest) => IncomingBody::Prefixed(some(&beginning), rest),
        };
        Ok(decision)
    }

    async fn await_store(&self, pending: Box<PendingDecision>, config: &WorkerConfig) -> Decision {
        pending.await_store(&self.engine, &config.shared.rules).await
    }

    /// Decides on a request with its body.
    async fn decide<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
        read: &ReadBody,
        unread: UnreadAttempt,
    ) -> Result<RoutedDecision, Error> {
        let host = target::validate_again(connection, request)?;
        let now = self.engine.clock().now();
        let shown = self.config.current().shared.shown_by(connection, request, now, || true)?;
        self.decide_by_newest_rules(
            |config| {
                let client = config.client_of(connection, request)?;
                let body = read.for_rules(&config.shared.rules);
                Ok(attempt(request, &host, client, shown.client(), body))
            },
            |rules, attempt| match rules.generation == unread.generation {
                true => rules.policy.routes_with_body(unread.routes.clone(), attempt),
                false => rules.policy.routes_of(attempt),
            },
        )
        .await
    }

    /// Decides on an attempt, which may depend on the configuration, and on its routes.
    pub(super) async fn decide_by_newest_rules<'a>(
        &self,
        attempt: impl Fn(&WorkerConfig) -> Result<Attempt<'a>, MalformedRequest>,
        routes: impl Fn(&Rules, &Attempt<'_>) -> MatchedRoutes,
    ) -> Result<RoutedDecision, Error> {
        let now = self.engine.clock().now();
        let (config, checked) = with_newest_rules(
            || self.config.current(),
            |config| {
                let attempt = match attempt(config) {
                    Ok(attempt) => attempt,
                    Err(error) => return Ok(Err(error)),
                };
                let rules = &config.shared.rules;
                let state = self.engine.decide_on(rules, &attempt, routes(rules, &attempt), now)?;
                Ok(Ok((state, rules.policy.upstream_of(&attempt))))
            },
        )?;
        let (state, group) = checked?;
        let decision = match state {
            DecisionState::Ready(decision) => decision,
            // Boxed: the futures around it are moved for every request with a body, and few of them ask a store.
            DecisionState::Pending(pending) => Box::pin(self.await_store(pending, &config)).await,
        };
        Ok(RoutedDecision { config, decision, group: group.unwrap_or(0) })
    }

    /// Refuses or forwards a request, by its decision.
    pub(super) fn respond(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        RoutedDecision { config, decision, group }: RoutedDecision,
        request: Request<IncomingBody>,
        mut context: RequestContext,
    ) -> ResponseFuture {
        let (shared, rules) = (&config.shared, &config.shared.rules);
        let reservation = match decision {
            Decision::Uncounted => None,
            Decision::RefusedByDefence(refusal) => {
                return context.finish_with_error(&Error::RefusedByDefence(refusal), connection);
            }
            Decision::Denied => return context.finish_with_error(&Error::StoreUnavailable, connection),
            Decision::Admitted(reservation) => {
                context.permit_origin(&rules.policy, reservation.routes().first(), request.headers());
                let settled = context.record.admitted(rules, &reservation);
                if let Err(none) = context.record.acquire_permits(shared, &reservation) {
                    // The application never sees the request, so it is not an attempt.
                    reservation.refund(&self.engine, rules);
                    return context.finish_with_error(&none.into(), connection);
                }
                Some((reservation, settled))
            }
            Decision::Refused(refusal) => {
                context.record.refused(rules, &refusal);
                context.permit_origin(&rules.policy, Some(&refusal.route), request.headers());
                let response = self.refuse(connection, shared, &refusal, request, &context);
                return ResponseFuture::delayed(
                    shared.refuse_on(connection).delay,
                    connection,
                    context.record.finish(response),
                );
            }
        };
        let admitted = self.admitted(&config, connection, reservation, request.headers());
        if !connection.callers.are_clients() {
            let may_be_kept = discard_body::may_be_kept(request, connection);
            return self.allow(connection, shared, admitted, may_be_kept, context);
        }
        let Admitted { attempt, hold, limit_headers } = admitted;
        let mut prepared = PreparedRequest::prepare(request, connection, &config, group, attempt, &context);
        let (server, connection) = (Rc::clone(self), Rc::clone(connection));
        ResponseFuture::Boxed(Box::pin(async move {
            let RequestContext { summary, mut record, .. } = context;
            record.hold(hold).await;
            let sent = prepared.send(&server, &connection, &mut record).await;
            record.set_uncovered_password(prepared.has_uncovered_password());
            record.finish(match sent {
                Ok(mut response) => {
                    if let Some(limits) = limit_headers {
                        limits.replaced().for_each(|name| response.body_mut().remove_passed(&name));
                        limits.append_to(response.headers_mut());
                    }
                    response
                }
                Err(error) => error_response(&connection, &error, &summary),
            })
        }))
    }

    /// What goes on of a request that may pass.
    fn admitted(
        self: &Rc<Self>,
        config: &Rc<WorkerConfig>,
        connection: &DownstreamConnection,
        reservation: Option<(Box<Reservation>, EndCell)>,
        headers: &HeaderMap,
    ) -> Admitted {
        let Some((reservation, settled)) = reservation else { return Admitted::default() };
        let shared = &config.shared;
        let limit_headers =
            respond::rate_limit_headers(shared.refuse.headers, &shared.rules.policy, &reservation.statuses);
        let is_secure = reservation.claim().is_some()
            && is_secure(headers, shared.trusts_peer_of(connection), connection.is_secure());
        let hold = reservation.hold;
        let attempt = AdmittedAttempt::new(self, config, reservation, settled, is_secure);
        Admitted { attempt: Some(attempt), hold, limit_headers }
    }
}

/// The routes as far as the head tells them, and what has to be read of the body before the decision.
pub(super) fn routes_by_head(
    policy: &Policy,
    attempt: &Attempt<'_>,
    has_body: bool,
) -> Result<(MatchedRoutes, Option<BodyRequirement>), Unchargeable> {
    let routes = policy.routes_of(attempt);
    let requirement = if has_body { policy.body_requirement(attempt, &routes)? } else { None };
    Ok((routes, requirement))
}

pub(super) fn attempt<'a, B>(
    request: &'a Request<B>,
    host: &'a str,
    client: Client,
    tls: Option<&'a TlsClient>,
    body: AttemptBody<'a>,
) -> Attempt<'a> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let (path, query) = (uri.path(), uri.query());
    Attempt { method, path, query, host, client, headers, body, descriptor: None, tls }
}

fn some(bytes: &Bytes) -> Option<Bytes> {
    Some(bytes.clone()).filter(|bytes| !bytes.is_empty())
}
