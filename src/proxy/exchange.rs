//! The record of one request and its answer, told when the answer has left.

use std::sync::Arc;

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};

use super::body::{AtEnd, ReplyBody};
use super::connection::Connection;
use crate::engine::Refusal;
use crate::event::{Answered, Event, Events};
use crate::policy::Policy;
use crate::policy::attempt::Client;
use crate::time::{Clock, Span, Time};

/// The record while it is being written.
pub(super) struct Exchange {
    record: Answered,
    left: Option<Time>,
    elsewhere: Span,
}

impl Exchange {
    /// Begins with the head of a request.
    pub(super) fn begin<B>(request: &Request<B>, client: Client, request_id: HeaderValue, at: Time) -> Self {
        let header = |name| request.headers().get(name).cloned();
        let record = Answered {
            client,
            method: request.method().clone(),
            target: request.uri().clone(),
            version: request.version(),
            host: header(HOST),
            referer: header(REFERER),
            user_agent: header(USER_AGENT),
            request_id: Some(request_id),
            route: None,
            refused_by: None,
            status: StatusCode::OK,
            bytes: 0,
            complete: false,
            at,
            duration: Span::ZERO,
            added: Span::ZERO,
        };
        Self { record, left: None, elsewhere: Span::ZERO }
    }

    /// Who asks.
    pub(super) fn client(&self) -> Client {
        self.record.client
    }

    /// The attempt of this route was admitted.
    pub(super) fn admitted(&mut self, policy: &Policy, route: usize) {
        self.record.route = policy.routes.get(route).map(|route| Arc::clone(&route.name));
    }

    /// The attempt was refused.
    pub(super) fn refused(&mut self, policy: &Policy, refusal: &Refusal) {
        self.admitted(policy, refusal.route);
        let first = refusal.violated().next().and_then(|standing| policy.limits.get(standing.charge.limit));
        self.record.refused_by = first.map(|limit| Arc::clone(&limit.name));
    }

    /// The request leaves for the upstream.
    pub(super) fn leaves(&mut self, now: Time) {
        self.left = Some(now);
    }

    /// The head of the upstream's answer is here, or none will be.
    pub(super) fn returns(&mut self, now: Time) {
        self.elsewhere = self.left.map_or(Span::ZERO, |left| now.since(left));
    }

    /// Ends with this answer: everybody hears of it when it has left.
    pub(super) fn end_with(
        mut self,
        response: Response<ReplyBody>,
        connection: Arc<Connection>,
        clock: Clock,
        events: Events,
    ) -> Response<ReplyBody> {
        self.record.status = response.status();
        self.record.added = clock.now().since(self.record.at).minus(self.elsewhere);
        let end = Box::new(Ending { record: self.record, connection, clock, events });
        response.map(|body| body.at_end(end))
    }
}

struct Ending {
    record: Answered,
    connection: Arc<Connection>,
    clock: Clock,
    events: Events,
}

impl AtEnd for Ending {
    fn ended(&mut self, bytes: u64, complete: bool) {
        let now = self.clock.now();
        self.connection.phases.answer_ends(now);
        self.record.bytes = bytes;
        self.record.complete = complete;
        self.record.duration = now.since(self.record.at);
        self.events.emit(&Event::Answered(&self.record));
    }
}
