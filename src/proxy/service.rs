//! One request, from its head to its answer.
//!
//! It reads like the story it is: who is this client; which route; decide; refuse or forward; settle by the answer.
//! The outer function turns errors into answers, the inner one uses `?`.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::{ACCEPT, CONNECTION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;

use super::body::{ReplyBody, RequestBody};
use super::client_addr::ClientSettings;
use super::connection::Connection;
use super::error::Error;
use super::exchange::Exchange;
use super::headers::{self, Identity};
use super::respond::{self, Asked, Problem, RefuseSettings, ShowLimits};
use super::settings::Settings;
use super::upstream::Group;
use super::{drain, ids, target, tunnel};
use crate::engine::{Engine, Refusal, Reservation, Rules, Ruling};
use crate::event::{Failure, Outcome};
use crate::policy::attempt::Attempt;
use crate::time::Span;

/// What one worker needs to serve requests.
pub struct Gate {
    /// Decides.
    pub engine: Arc<Engine>,
    /// What of the file may change while the gate runs, besides the rules.
    pub site: Arc<ArcSwap<Site>>,
    /// Bounds and time-outs.
    pub settings: Rc<Settings>,
    /// The upstreams; the first group is the default.
    pub groups: Vec<Group>,
    /// Hears what happened.
    pub events: crate::event::Events,
    /// Names requests.
    pub ids: ids::RequestIds,
}

/// What of the file may change while the gate runs, besides the rules.
#[derive(Debug, Clone)]
pub struct Site {
    /// Who the client is.
    pub client: ClientSettings,
    /// How refusals look.
    pub refuse: RefuseSettings,
}

/// A request as far as the gate's own answers to it go.
struct Asker {
    accept: Option<HeaderValue>,
    head: bool,
    request_id: HeaderValue,
    id_is_ours: bool,
}

impl Gate {
    /// Answers one request. There is always an answer.
    ///
    /// # Errors
    /// None.
    pub async fn handle(
        self: Rc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let now = self.engine.clock().now();
        connection.phases.request_begins(now);
        let asker = Asker::of(&request, &self.ids);
        let site = self.site.load_full();
        let client = site.client.client_of(connection.peer, request.headers());
        let mut exchange = Exchange::begin(&request, client, asker.request_id.clone(), now);
        let response = match self.answer(&connection, &site, request, &asker, &mut exchange).await {
            Ok(response) => response,
            Err(error) => self.apologise(&connection, &error, &asker),
        };
        connection.phases.answer_begins();
        let clock = self.engine.clock().clone();
        Ok(exchange.end_with(response, connection, clock, self.events.clone()))
    }

    async fn answer(
        &self,
        connection: &Connection,
        site: &Site,
        request: Request<Incoming>,
        asker: &Asker,
        exchange: &mut Exchange,
    ) -> Result<Response<ReplyBody>, Error> {
        let host = check(&request)?;
        let rules = self.engine.rules();
        let uri = request.uri();
        let attempt = Attempt {
            method: request.method(),
            path: uri.path(),
            query: uri.query(),
            host: &host,
            client: exchange.client(),
            headers: request.headers(),
        };
        let reservation = match self.engine.decide(&rules, &attempt)? {
            Ruling::Uncounted => None,
            Ruling::Admitted(reservation) => Some(reservation),
            Ruling::Refused(refusal) => {
                exchange.refused(&rules.policy, &refusal);
                return Ok(self.refuse(connection, site, &rules, &refusal, request, asker).await);
            }
        };
        let group = rules.policy.upstream_of(&attempt).unwrap_or(0);
        if let Some(reservation) = &reservation {
            exchange.admitted(&rules.policy, reservation.route());
        }
        let shown = reservation.as_ref().filter(|_| site.refuse.headers == ShowLimits::Always);
        let shown = shown.and_then(|r| respond::rate_limit_headers(&rules.policy, &r.standings));
        drop(rules);
        let mut response =
            self.forward(connection, site, group, request, asker, exchange, reservation).await?;
        if let Some(shown) = shown {
            shown.append_to(response.headers_mut());
        }
        Ok(response)
    }

    async fn refuse(
        &self,
        connection: &Connection,
        site: &Site,
        rules: &Rules,
        refusal: &Refusal,
        request: Request<Incoming>,
        asker: &Asker,
    ) -> Response<ReplyBody> {
        let response = respond::refusal(&site.refuse, &rules.policy, refusal, &asker.asked());
        let mut response = response.map(ReplyBody::ours);
        let stays = drain::unread(request, connection);
        if !stays {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if site.refuse.delay > Span::ZERO {
            tokio::time::sleep(site.refuse.delay.to_std()).await;
        }
        response
    }

    #[expect(clippy::too_many_arguments, reason = "one hop, one call, each thing needed once")]
    async fn forward(
        &self,
        connection: &Connection,
        site: &Site,
        group: usize,
        mut request: Request<Incoming>,
        asker: &Asker,
        exchange: &mut Exchange,
        reservation: Option<Reservation>,
    ) -> Result<Response<ReplyBody>, Error> {
        let upgrade = headers::wanted_upgrade(request.headers());
        let client_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let identity = Identity {
            peer: connection.peer_value.as_ref(),
            trusted: site.client.trusts(connection.peer),
            kept: site.client.header.name(),
            request_id: asker.id_is_ours.then_some(&asker.request_id),
        };
        let asked_upgrade = upgrade.is_some();
        headers::towards_upstream(request.headers_mut(), &identity, upgrade);
        let (mut parts, body) = request.into_parts();
        parts.uri = origin_form(&parts.uri);
        parts.version = Version::HTTP_11;
        let (body, progress) = RequestBody::new(body, self.settings.body_timeout.to_std());
        let group = self.groups.get(group).unwrap_or(&self.groups[0]);
        exchange.leaves(self.engine.clock().now());
        let forwarded = group.forward(Request::from_parts(parts, body), &progress).await;
        exchange.returns(self.engine.clock().now());
        settle(reservation, &forwarded);
        let (response, lease) = forwarded?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return tunnel::open(response, lease, client_side);
        }
        let timeout = self.settings.reply_timeout.to_std();
        let mut response = response.map(|body| ReplyBody::upstreams(body, timeout, lease));
        headers::towards_client(response.headers_mut(), false);
        if asked_upgrade || progress.sent() != super::body::Sent::Wholly {
            // Whatever the client sent in the hope of another protocol, or still sends, is not a request.
            connection.phases.linger();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    fn apologise(&self, connection: &Connection, error: &Error, asker: &Asker) -> Response<ReplyBody> {
        let mut response = respond::problem(problem_of(error), &asker.asked()).map(ReplyBody::ours);
        // A connection on which anything unusual happened is not used again.
        connection.phases.linger();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

impl Asker {
    fn of(request: &Request<Incoming>, ids: &ids::RequestIds) -> Self {
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

/// Refuses what the gate does not understand, and tells the host.
fn check(request: &Request<Incoming>) -> Result<String, Error> {
    if request.method() == Method::CONNECT {
        return Err(Error::Connect);
    }
    if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_TARGET) {
        return Err(Error::TargetTooLong);
    }
    Ok(target::check(request)?)
}

fn settle<T>(reservation: Option<Reservation>, forwarded: &Result<(Response<Incoming>, T), Error>) {
    let Some(reservation) = reservation else { return };
    let outcome = match forwarded {
        Ok((response, _)) if !response.status().is_server_error() => Outcome::Neutral,
        _ => Outcome::Error,
    };
    reservation.settle(outcome);
}

/// Path and query as sent, without the authority of an absolute target.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(target) => Uri::from(target.clone()),
        None => Uri::from_static("/"),
    }
}

/// The one place where an error becomes a status.
fn problem_of(error: &Error) -> Problem {
    match error {
        Error::Malformed(_) | Error::TooManyValues(_) | Error::ClientGone => Problem::Malformed,
        Error::Connect => Problem::Method,
        Error::TargetTooLong => Problem::TargetTooLong,
        Error::ClientStalled => Problem::Slow,
        Error::Upstream(Failure::Connect | Failure::Broken) => Problem::Broken,
        Error::Upstream(Failure::Timeout | Failure::ConnectTimeout) => Problem::TimedOut,
        Error::Upstream(Failure::Busy) => Problem::Busy { wait: Span::from_secs(1) },
    }
}

const LONGEST_TARGET: usize = 8 * 1024;
