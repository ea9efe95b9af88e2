//! One request, from its head to its answer.
//!
//! It reads like the story it is: who is this client; which route; decide; refuse or forward; settle by the answer.
//! The surprising thing: everything up to the decision happens at once, without a task or a future, so a refusal
//! costs little more than reading the request did.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{ACCEPT, CONNECTION};
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;

use super::body::ReplyBody;
use super::connection::Connection;
use super::drain;
use super::error::Error;
use super::exchange::Exchange;
use super::forward::Departure;
use super::headers;
use super::ids::RequestIds;
use super::respond::{self, Asked, Problem, Said, ShowLimits};
use super::site::{Follower, Local, Site};
use super::target;
use crate::engine::{Engine, Refusal, Rules, Ruling, Undecided};
use crate::event::{Events, Failure};
use crate::policy::attempt::{Attempt, Client};
use crate::time::{Span, Time};

/// What one worker needs to serve requests.
pub struct Gate {
    /// Decides.
    pub engine: Arc<Engine>,
    /// What of the file may change while the gate runs.
    pub site: Follower,
    /// Hears what happened.
    pub events: Events,
    /// Names requests.
    pub ids: RequestIds,
    /// What this worker's refusals said lately.
    pub said: Said,
}

/// Serves the requests of one connection.
pub struct Service {
    gate: Rc<Gate>,
    connection: Arc<Connection>,
}

/// An answer that is there, or that will be.
pub enum Answering {
    /// Taken when it is asked for.
    Now(Option<Response<ReplyBody>>),
    /// When the upstream has spoken, or a delay is over.
    Later(Pin<Box<dyn Future<Output = Response<ReplyBody>>>>),
}

/// A request as far as the gate's own answers to it go.
pub(super) struct Asker {
    accept: Option<HeaderValue>,
    head: bool,
    pub(super) request_id: HeaderValue,
    pub(super) id_is_ours: bool,
}

/// What was decided on a request, and where it goes if it may.
struct Judgement {
    ruling: Ruling,
    group: usize,
}

impl Service {
    /// For this connection.
    #[must_use]
    pub fn new(gate: Rc<Gate>, connection: Arc<Connection>) -> Self {
        Self { gate, connection }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        self.gate.answer(&self.connection, request)
    }
}

impl Gate {
    /// Answers one request. There is always an answer.
    fn answer(self: &Rc<Self>, connection: &Arc<Connection>, request: Request<Incoming>) -> Answering {
        let now = self.engine.clock().now();
        connection.phases.request_begins(now);
        let (local, client, judged) = self.judge_by_the_newest(connection, &request, now);
        let (site, rules) = (&local.site, &local.site.rules);
        let asker = Asker::of(&request, &self.ids);
        let mut exchange = Exchange::begin(self, connection, &request, client, asker.request_id.clone(), now);
        let Judgement { ruling, group } = match judged {
            Ok(judgement) => judgement,
            Err(error) => return Answering::now(exchange.end_with(apologise(connection, &error, &asker))),
        };
        let reservation = match ruling {
            Ruling::Uncounted => None,
            Ruling::Admitted(reservation) => Some(reservation),
            Ruling::Refused(refusal) => {
                exchange.refused(&rules.policy, &refusal);
                let response = self.refuse(connection, site, &refusal, request, &asker);
                return Answering::after(site.refuse.delay, exchange.end_with(response));
            }
        };
        let mut shown = None;
        if let Some(reservation) = &reservation {
            exchange.admitted(&rules.policy, reservation.route());
            if site.refuse.headers == ShowLimits::Always {
                shown = respond::rate_limit_headers(&rules.policy, &reservation.standings);
            }
        }
        let mut departure = Departure::prepare(request, connection, &site.client, &asker, &site.settings);
        let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
        Answering::Later(Box::pin(async move {
            match departure.go(&gate, &local, group, &connection, reservation, &mut exchange).await {
                Ok(mut response) => {
                    if let Some(shown) = shown {
                        shown.append_to(response.headers_mut());
                    }
                    exchange.end_with(response)
                }
                Err(error) => exchange.end_with(apologise(&connection, &error, &asker)),
            }
        }))
    }

    fn refuse(
        &self,
        connection: &Connection,
        site: &Site,
        refusal: &Refusal,
        request: Request<Incoming>,
        asker: &Asker,
    ) -> Response<ReplyBody> {
        let Rules { generation, policy, .. } = &*site.rules;
        let response = self.said.refusal(*generation, &site.refuse, policy, refusal, &asker.asked());
        let mut response = response.map(ReplyBody::ours);
        if !drain::unread(request, connection) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Judges by the site in force. The buckets of the one before are closed a moment earlier than the next one is
    /// published, so there may be nothing to go by yet.
    fn judge_by_the_newest(
        &self,
        connection: &Connection,
        request: &Request<Incoming>,
        now: Time,
    ) -> (Rc<Local>, Client, Result<Judgement, Error>) {
        loop {
            let local = self.site.now();
            let client = local.site.client.client_of(connection.peer, request.headers());
            let judged = self.judge(&local.site.rules, request, client, now);
            if !matches!(judged, Err(Error::Undecided(Undecided::Stale(_)))) {
                return (local, client, judged);
            }
            std::thread::yield_now();
        }
    }

    fn judge(
        &self,
        rules: &Rules,
        request: &Request<Incoming>,
        client: Client,
        now: Time,
    ) -> Result<Judgement, Error> {
        let host = check(request)?;
        let uri = request.uri();
        let attempt = Attempt {
            method: request.method(),
            path: uri.path(),
            query: uri.query(),
            host: &host,
            client,
            headers: request.headers(),
            body: None,
        };
        let ruling = self.engine.decide(rules, &attempt, now)?;
        Ok(Judgement { ruling, group: rules.policy.upstream_of(&attempt).unwrap_or(0) })
    }
}

impl Answering {
    fn now(response: Response<ReplyBody>) -> Self {
        Self::Now(Some(response))
    }

    fn after(delay: Span, response: Response<ReplyBody>) -> Self {
        if delay == Span::ZERO {
            return Self::now(response);
        }
        Self::Later(Box::pin(async move {
            tokio::time::sleep(delay.to_std()).await;
            response
        }))
    }
}

impl Future for Answering {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // Nobody polls an answer that was already given.
            Self::Now(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Self::Later(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}

impl Asker {
    fn of(request: &Request<Incoming>, ids: &RequestIds) -> Self {
        let own = headers::usable_request_id(request.headers());
        Self {
            accept: request.headers().get(ACCEPT).cloned(),
            head: request.method() == Method::HEAD,
            request_id: own.cloned().unwrap_or_else(|| ids.next()),
            id_is_ours: own.is_none(),
        }
    }

    fn asked(&self) -> Asked<'_> {
        Asked { accept: self.accept.as_ref(), head: self.head, request_id: &self.request_id }
    }
}

fn apologise(connection: &Connection, error: &Error, asker: &Asker) -> Response<ReplyBody> {
    let mut response = respond::problem(problem_of(error), &asker.asked()).map(ReplyBody::ours);
    // A connection on which anything unusual happened is not used again.
    connection.phases.linger();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Refuses what the gate does not understand, and tells the host.
fn check(request: &Request<Incoming>) -> Result<target::Host<'_>, Error> {
    if request.method() == Method::CONNECT {
        return Err(Error::Connect);
    }
    if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
        return Err(Error::TargetTooLong);
    }
    Ok(target::check(request)?)
}

/// The one place where an error becomes a status.
fn problem_of(error: &Error) -> Problem {
    match error {
        Error::Malformed(_) | Error::Undecided(_) | Error::ClientGone => Problem::Malformed,
        Error::Connect => Problem::Method,
        Error::TargetTooLong => Problem::TargetTooLong,
        Error::ClientStalled => Problem::Slow,
        Error::Upstream(Failure::Connect | Failure::Broken) => Problem::Broken,
        Error::Upstream(Failure::Timeout | Failure::ConnectTimeout) => Problem::TimedOut,
        Error::Upstream(Failure::Busy) => Problem::Busy { wait: Span::from_secs(1) },
    }
}

const LONGEST_TARGET: usize = 8 * 1024;
