//! The record of one request and its answer, told when the answer has left.

use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, HOST, REFERER, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};

use super::body::{AtEnd, ReplyBody};
use super::connection::Connection;
use super::service::Gate;
use super::veil;
use crate::engine::{Places, Refusal};
use crate::event::{Answered, Event};
use crate::policy::Policy;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// The record while it is being written.
pub(super) struct Exchange(Box<Record>);

/// Made once a request and never moved: it is the largest thing there is about one.
struct Record {
    answered: Answered,
    left: Option<Time>,
    elsewhere: Span,
    places: Places,
    /// Whether it is counted among those of its prefix that are at an upstream.
    is_counted: bool,
    gate: Rc<Gate>,
    connection: Arc<Connection>,
}

impl Exchange {
    /// Begins with the head of a request.
    pub(super) fn begin<B>(
        gate: &Rc<Gate>,
        connection: &Arc<Connection>,
        request: &Request<B>,
        client: Client,
        request_id: HeaderValue,
        at: Time,
    ) -> Self {
        let header = |name| request.headers().get(name).cloned();
        let (target, referer) = told(gate, request);
        let answered = Answered {
            client,
            method: request.method().clone(),
            target,
            version: request.version(),
            host: header(HOST),
            referer,
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
        let (gate, connection) = (Rc::clone(gate), Arc::clone(connection));
        let places = Places::default();
        Self(Box::new(Record {
            answered,
            left: None,
            elsewhere: Span::ZERO,
            places,
            is_counted: false,
            gate,
            connection,
        }))
    }

    /// The attempt of this route was admitted.
    pub(super) fn admitted(&mut self, policy: &Policy, route: usize) {
        self.0.answered.route = policy.routes.get(route).map(|route| Arc::clone(&route.name));
    }

    /// The attempt was refused.
    pub(super) fn refused(&mut self, policy: &Policy, refusal: &Refusal) {
        self.admitted(policy, refusal.route);
        let first = refusal.violated().next().and_then(|standing| policy.limits.get(standing.charge.limit));
        self.0.answered.refused_by = first.map(|limit| Arc::clone(&limit.name));
    }

    /// The attempt is one of those on their way until its answer has left, or the client has.
    pub(super) fn takes(&mut self, places: Places) {
        self.0.places = places;
    }

    /// It goes to an upstream, and is one of its prefix' there until its answer has left, or the client has. Says how
    /// many these are.
    pub(super) fn joins_its_neighbours(&mut self) -> usize {
        let count = self.0.connection.pass().request_begins();
        self.0.is_counted = count.is_some();
        count.unwrap_or(0)
    }

    /// Its places, for what goes on after the answer.
    pub(super) fn hand_over(&mut self) -> Places {
        std::mem::take(&mut self.0.places)
    }

    /// From now on the gate waits for somebody else: the upstream, a client that still sends, or the time at which an
    /// attempt that is held is due.
    pub(super) fn leaves(&mut self, now: Time) {
        self.0.left = Some(now);
    }

    /// That wait is over.
    pub(super) fn returns(&mut self, now: Time) {
        let away = self.0.left.take().map_or(Span::ZERO, |left| now.since(left));
        self.0.elsewhere = self.0.elsewhere.plus(away);
    }

    /// The attempt is not held any more.
    pub(super) fn departs(&mut self) {
        self.0.places.depart();
    }

    /// Ends with this answer: everybody hears of it when it has left.
    pub(super) fn end_with(mut self, mut response: Response<ReplyBody>) -> Response<ReplyBody> {
        let record = &mut self.0;
        record.connection.phases.answer_begins();
        record.answered.status = response.status();
        record.answered.added =
            record.gate.engine.clock().now().since(record.answered.at).minus(record.elsewhere);
        if record.connection.phases.is_leaving() {
            say_goodbye(&mut response);
        }
        response.body_mut().at_end(self.0);
        response
    }
}

/// Apart, because it stands on the way of every answer.
#[cold]
fn say_goodbye(response: &mut Response<ReplyBody>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Target and `Referer` as they may be told. Most have no query, and nobody has to ask for the routes.
fn told<B>(gate: &Gate, request: &Request<B>) -> (Uri, Option<HeaderValue>) {
    let (target, referer) = (request.uri(), request.headers().get(REFERER));
    let has_query = target.query().is_some() || referer.is_some_and(|value| value.as_bytes().contains(&b'?'));
    if !has_query {
        return (target.clone(), referer.cloned());
    }
    let local = gate.site.now();
    let policy = &local.site.rules.policy;
    (veil::target(target, policy), referer.map(|value| veil::referer(value, policy)))
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.is_counted {
            self.connection.pass().request_ends();
        }
    }
}

impl AtEnd for Record {
    fn ended(&mut self, bytes: u64, complete: bool) {
        let now = self.gate.engine.clock().now();
        self.connection.phases.answer_ends(now);
        if !complete && self.answered.version < Version::HTTP_11 {
            // It may have been told no length, and takes the end of the connection for the end of the answer.
            self.connection.phases.breaks_off();
        }
        self.answered.bytes = bytes;
        self.answered.complete = complete;
        self.answered.duration = now.since(self.answered.at);
        self.gate.events.emit(&Event::Answered(&self.answered));
    }
}
