//! Answers Envoy's rate limit service, version 3: `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
//!
//! Each descriptor becomes the request that it is about, and `service` decides on that request as on any other. Unless it is configured
//! otherwise, Envoy forwards a request whose call fails. So only faults that no client can cause are errors of the call; if a client's
//! request cannot be decided, the answer is `OVER_LIMIT`. `request::descriptor` reads questions, `respond` writes answers.

use std::rc::Rc;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};

use super::admitted::AdmittedAttempt;
use super::calls::UnreadCall;
use super::context::RequestContext;
use super::head_check::RoutedDecision;
use super::server::Server;
use super::service::attempt;
use crate::engine::{DecidedAttempt, Decision, LimitStatus, Refusal, Rules, Undecided};
use crate::policy::attempt::{Attempt, Client};
use crate::policy::descriptor::{Descriptor, DescriptorAsker};
use crate::proxy::body::{ClientBody, ResponseBody, UnreadGuard};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::grpc;
use crate::proxy::headers::recorded::RecordedHeaders;
use crate::proxy::request::descriptor::{DescribedRequest, RateLimitRequest};
use crate::proxy::request::target;
use crate::proxy::respond::{self, Code, DescriptorStatus, ProblemKind, RateLimitResponse};
use crate::time::Span;

/// The answer to one descriptor, until those to the others are known.
pub(super) struct Answered {
    pub(super) context: RequestContext,
    pub(super) code: Code,
    status: DescriptorStatus,
    /// What the client is told in headers.
    headers: HeaderMap,
    /// The attempt, if it took tokens.
    pub(super) attempt: Option<AdmittedAttempt>,
    /// How long the attempt is held for its token.
    pub(super) hold: Span,
}

impl Server {
    /// Only a call without an answer is recorded: otherwise the requests are that it is about.
    pub(super) async fn limit_rates(
        self: Rc<Self>,
        connection: Rc<DownstreamConnection>,
        request: Request<ClientBody>,
    ) -> Response<ResponseBody> {
        let (head, incoming) = request.into_parts();
        let context = || self.context_of_asker(&connection, &Request::from_parts(head, ()));
        let guard = UnreadGuard::begins(&self.unread_bodies);
        match self.read_call(incoming, MAX_MESSAGE, RateLimitRequest::read).await {
            Ok(asked) => {
                let answered = self.decide_descriptors(&connection, &asked).await;
                // Not held while the answer waits.
                drop((guard, asked));
                grpc::response(&self.answer(answered).await)
            }
            Err(UnreadCall::TooLong) => {
                let refused = RateLimitResponse::with(Code::OverLimit);
                context().record.finish(grpc::response(&refused))
            }
            Err(UnreadCall::Broken(error)) => {
                let Ok(response) = context().finish_with_error(&error, &connection).await;
                response
            }
            Err(UnreadCall::Malformed(error)) => context().record.finish(error.response()),
        }
    }

    async fn decide_descriptors(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        asked: &RateLimitRequest,
    ) -> Vec<Answered> {
        let mut answered = Vec::with_capacity(asked.descriptors.len());
        for descriptor in &asked.descriptors {
            let (entries, hits) = (descriptor.entries(), asked.hits_of(descriptor));
            let asker = DescriptorAsker::Envoy(&asked.domain);
            let descriptor = Descriptor { asker, entries: &entries, hits: hits.max(1) };
            answered.push(self.decide_descriptor(connection, &descriptor, hits == 0).await);
        }
        answered
    }

    /// Decides on one descriptor. `is_look`: nothing is taken.
    pub(super) async fn decide_descriptor(
        self: &Rc<Self>,
        connection: &Rc<DownstreamConnection>,
        descriptor: &Descriptor<'_>,
        is_look: bool,
    ) -> Answered {
        let (described, malformed) = match DescribedRequest::of(descriptor) {
            Ok(described) => (described, None),
            Err(error) => (DescribedRequest::blank(), Some(error)),
        };
        let body = described.visible_body().without_any();
        let DescribedRequest { request, client } = described;
        let client = match client {
            Some(ip) => Client::from_ip(ip),
            None => self.config.current().shared.client.client_of_peer(connection.peer).unknown(),
        };
        let context = self.context(connection, &request, client, false, self.engine.clock().now());
        let host = match malformed {
            Some(error) => Err(error.into()),
            None => target::validate(connection, &request, &RecordedHeaders::of(request.headers())),
        };
        let host = match host {
            Ok(host) => host,
            Err(error) => return Answered::undecided(context, &error),
        };
        let attempt =
            Attempt { descriptor: Some(descriptor), ..attempt(&request, &host, client, None, body) };
        if is_look {
            return self.look(connection, &attempt, context).await;
        }
        let routes = |rules: &Rules, attempt: &Attempt<'_>| rules.policy.routes_of(attempt);
        match self.decide_by_newest_rules(|_| Ok(attempt), routes).await {
            Ok(decided) => self.answered(connection, decided, context),
            Err(error) => Answered::undecided(context, &error),
        }
    }

    fn answered(
        self: &Rc<Self>,
        connection: &DownstreamConnection,
        RoutedDecision { config, decision, .. }: RoutedDecision,
        mut context: RequestContext,
    ) -> Answered {
        let (shared, rules) = (&config.shared, &config.shared.rules);
        match decision {
            Decision::Uncounted => Answered::free(context),
            Decision::Denied => Answered::undecided(context, &Error::StoreUnavailable),
            Decision::RefusedByDefence(refusal) => {
                Answered::undecided(context, &Error::RefusedByDefence(refusal))
            }
            Decision::Refused(refusal) => {
                context.record.refused(rules, &refusal);
                let form = shared.refuse_on(connection);
                let negotiation = context.summary.negotiation();
                let rendered =
                    self.refusal_cache.refusal(rules.generation, form, &rules.policy, &refusal, &negotiation);
                let status = DescriptorStatus::of(Code::OverLimit, &rules.policy, &refusal.statuses);
                let headers = rendered.into_headers(context.summary.request_id.clone());
                Answered { code: Code::OverLimit, status, headers, ..Answered::free(context) }
            }
            Decision::Admitted(reservation) => {
                let settled = context.record.admitted(rules, &reservation);
                if let Err(none) = context.record.acquire_permits(shared, &reservation) {
                    reservation.refund(&self.engine, rules);
                    return Answered::undecided(context, &none.into());
                }
                let mut headers = HeaderMap::new();
                let shown = shared.refuse.headers;
                if let Some(limits) = respond::rate_limit_headers(shown, &rules.policy, &reservation.statuses)
                {
                    limits.append_to(&mut headers);
                }
                let status = DescriptorStatus::of(Code::Ok, &rules.policy, &reservation.statuses);
                let hold = reservation.hold;
                let attempt = Some(AdmittedAttempt::new(self, &config, reservation, settled, false));
                Answered { status, headers, attempt, hold, ..Answered::free(context) }
            }
        }
    }

    /// What would be decided on an attempt now; takes nothing.
    async fn look(
        self: &Rc<Self>,
        connection: &DownstreamConnection,
        attempt: &Attempt<'_>,
        context: RequestContext,
    ) -> Answered {
        let config = self.config.current();
        let rules = &config.shared.rules;
        let decided = |decision| RoutedDecision { config: Rc::clone(&config), decision, group: 0 };
        if let Some(refusal) = self.engine.refusal_by_operator(rules, attempt.client) {
            return self.answered(connection, decided(Decision::RefusedByDefence(refusal)), context);
        }
        let found = match rules.charges(&self.engine, attempt) {
            Ok(found) => found,
            Err(error) => return Answered::undecided(context, &Undecided::from(error).into()),
        };
        let Ok(statuses) = self.engine.inspect(rules, &found, attempt.client).await else {
            return Answered::undecided(context, &Error::StoreUnavailable);
        };
        if !statuses.iter().any(LimitStatus::refuses) {
            let status = DescriptorStatus::of(Code::Ok, &rules.policy, &statuses);
            return Answered { status, ..Answered::free(context) };
        }
        let (route, wait) = (found.routes.first().copied(), rules.longest_wait(&statuses));
        let attempt = DecidedAttempt::default();
        let refusal = Refusal { route: route.unwrap_or_default(), wait, statuses, attempt };
        self.answered(connection, decided(Decision::Refused(Box::new(refusal))), context)
    }

    /// The answer to all descriptors together. If one is refused, the request is not made: the others get back what they
    /// took.
    async fn answer(&self, answered: Vec<Answered>) -> RateLimitResponse {
        let is_refused = answered.iter().any(|one| one.code == Code::OverLimit);
        let hold = answered.iter().map(|one| one.hold).max().unwrap_or_default();
        let mut response = RateLimitResponse::with(if is_refused { Code::OverLimit } else { Code::Ok });
        let refused = answered.iter().filter(|one| one.code == Code::OverLimit);
        response.tell_wait(refused.map(Answered::retry_after));
        let mut open = Vec::with_capacity(answered.len());
        for Answered { context, code, status, headers, attempt, .. } in answered {
            response.statuses.push(status);
            response.tell_client(&headers);
            let mut marks = HeaderMap::new();
            attempt.iter().for_each(|attempt| attempt.mark(|name, value| drop(marks.insert(name, value))));
            marks.iter().for_each(|(name, value)| response.tell_application(name, value));
            open.push((context, code, attempt));
        }
        if hold > Span::ZERO && !is_refused {
            tokio::time::sleep(hold.to_std()).await;
        }
        for (mut context, code, attempt) in open {
            match attempt {
                Some(attempt) if is_refused => attempt.undo(),
                // Nobody reports an outcome: it is a failure, and its charge stays.
                attempt => drop(attempt),
            }
            context.record.end_hold();
            let status = if code == Code::Ok { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
            drop(context.record.finish(recorded(status)));
        }
        response
    }
}

impl Answered {
    /// Nothing was taken and nothing refuses.
    fn free(context: RequestContext) -> Self {
        let status = DescriptorStatus::without_limit(Code::Ok);
        Self { context, code: Code::Ok, status, headers: HeaderMap::new(), attempt: None, hold: Span::ZERO }
    }

    /// What would be an error of the request itself.
    fn undecided(context: RequestContext, error: &Error) -> Self {
        let mut headers = HeaderMap::new();
        if let ProblemKind::Unavailable { wait } = error.problem() {
            headers.insert(RETRY_AFTER, wait.as_secs_ceil().max(1).into());
        }
        let status = DescriptorStatus::without_limit(Code::OverLimit);
        Self { code: Code::OverLimit, status, headers, ..Self::free(context) }
    }

    /// Seconds; `None` if waiting does not help.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
    }
}

/// What the access log says of the request that was asked about.
fn recorded(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::generated(bytes::Bytes::new()));
    *response.status_mut() = status;
    response
}

/// Bytes of a question. A longer one is refused, since its client may have made it so long.
const MAX_MESSAGE: usize = 64 * 1024;
