//! One request, from its head to its answer.
//!
//! It reads like the story it is: who is this client; which route; read the body if what it costs stands there; decide;
//! refuse or forward; settle by the answer. The surprising thing: everything up to the decision happens at once, without
//! a task or a future, unless a body has to be read, so a refusal costs little more than reading the request did.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use hyper::body::{Body as _, Incoming};

use super::answering::Answering;
use super::body::{self, Arrival, BodyMemory, Hold, Read, ReplyBody, Unread};
use super::connection::Connection;
use super::drain;
use super::error::Error;
use super::exchange::Exchange;
use super::forward::Departure;
use super::ids::RequestIds;
use super::pending::Pending;
use super::redirect;
use super::respond::{self, RateLimitHeaders, Said, ShowLimits};
use super::scheme::is_secure;
use super::site::{Follower, Local, Site};
use super::target::{self, Malformed};
use super::visit::{Asker, Visit, apologise};
use crate::engine::{Consulted, Engine, Inquiry, Refusal, Rules, Ruling, by_newest};
use crate::event::{Event, Events};
use crate::policy::ToRead;
use crate::policy::attempt::{Attempt, Body, Client};
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
    /// Requests whose bodies are being read: it was not decided on them yet.
    pub unread: Cell<u32>,
    /// For bodies that are read for their fields, by all workers.
    pub body_memory: Arc<BodyMemory>,
}

/// Serves the requests of one connection.
pub struct Service {
    gate: Rc<Gate>,
    connection: Arc<Connection>,
}

/// What was decided on a request, by which site, and where it goes if it may.
struct Judgement {
    local: Rc<Local>,
    ruling: Ruling,
    group: usize,
}

/// What can be said after a look at the head of a request.
enum Look {
    Judged(Judgement),
    /// It is asked for again over TLS.
    Elsewhere(HeaderValue),
    /// The store has to be asked.
    Asked(Rc<Local>, Inquiry, usize),
    /// What has to be known stands in its body.
    Unread(Rc<Local>, ToRead),
}

/// The same before it is known which rules were in force.
#[expect(clippy::large_enum_variant, reason = "it is moved once and never kept")]
enum Found {
    Malformed(Malformed),
    SentAway,
    Consulted(Consulted, Option<usize>),
    Unread(ToRead),
}

impl Service {
    /// For this connection.
    #[must_use]
    pub fn new(gate: Rc<Gate>, connection: Arc<Connection>) -> Self {
        Self { gate, connection }
    }

    /// Who hears what happens.
    pub(super) fn events(&self) -> Events {
        self.gate.events.clone()
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
        let asker = Asker::of(&request, &self.ids);
        let looked = self.look(connection, &request, now);
        let client = match &looked {
            Ok((client, _)) => *client,
            Err(_) => self.site.now().client_on_record(connection, &request),
        };
        let exchange = Exchange::begin(self, connection, &request, client, asker.request_id.clone(), now);
        let visit = Visit { asker, exchange };
        match looked.map(|(_, look)| look) {
            Ok(Look::Judged(judgement)) => {
                self.conclude(connection, judgement, request.map(Arrival::Streaming), visit)
            }
            Ok(Look::Elsewhere(location)) => visit.ends_with(redirect::answer(location), connection),
            Ok(Look::Asked(local, inquiry, group)) => {
                let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
                Answering::Later(Box::pin(async move {
                    let ruling = gate.hear(inquiry, &local).await;
                    let judgement = Judgement { local, ruling, group };
                    let Ok(response) =
                        gate.conclude(&connection, judgement, request.map(Arrival::Streaming), visit).await;
                    response
                }))
            }
            Ok(Look::Unread(local, to_read)) => {
                let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
                let patience = local.site.settings.body_timeout.to_std();
                let owner = client.ip().map(|ip| local.site.client.prefixes.mask(ip));
                Answering::Later(Box::pin(async move {
                    let hold = gate.body_memory.hold(owner);
                    gate.read(&connection, request, to_read, patience, hold, visit).await
                }))
            }
            Err(error) => visit.ends_in(&error, connection),
        }
    }

    /// Decides by the head of a request, as far as that goes, and says whose it is.
    fn look(
        &self,
        connection: &Connection,
        request: &Request<Incoming>,
        now: Time,
    ) -> Result<(Client, Look), Error> {
        let host = target::understand(connection, request)?;
        let has_body = !request.body().is_end_stream();
        let (local, (client, found)) = by_newest(
            || self.site.now(),
            |local| {
                let rules = &local.site.rules;
                let client = match local.client_of(connection, request) {
                    Ok(client) => client,
                    Err(why) => return Ok((Client::Local, Found::Malformed(why))),
                };
                if local.site.redirect.is_some() && local.site.sends_away(connection, request) {
                    return Ok((client, Found::SentAway));
                }
                let attempt =
                    attempt(request, &host, client, if has_body { Body::Unread } else { Body::Whole(&[]) });
                let to_read = if has_body { rules.policy.to_read(&attempt)? } else { None };
                let Some(to_read) = to_read else {
                    let consulted = self.engine.consult(rules, &attempt, now)?;
                    return Ok((client, Found::Consulted(consulted, rules.policy.upstream_of(&attempt))));
                };
                // Whoever is refused whatever the body says is refused before it is read.
                let refusal =
                    if to_read.may_be_none { None } else { self.engine.refuse(rules, &attempt, now)? };
                let ruling =
                    refusal.map(|refusal| Found::Consulted(Consulted::Now(Ruling::Refused(refusal)), None));
                Ok((client, ruling.unwrap_or(Found::Unread(to_read))))
            },
        )?;
        let look = match found {
            Found::Malformed(why) => return Err(why.into()),
            Found::SentAway => Look::Elsewhere(local.site.elsewhere(connection, request)?),
            Found::Consulted(Consulted::Now(ruling), group) => {
                Look::Judged(Judgement { local, ruling, group: group.unwrap_or(0) })
            }
            Found::Consulted(Consulted::Later(inquiry), group) => {
                Look::Asked(local, inquiry, group.unwrap_or(0))
            }
            Found::Unread(to_read) => Look::Unread(local, to_read),
        };
        Ok((client, look))
    }

    /// Reads the body, then decides and answers.
    async fn read(
        self: Rc<Self>,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
        to_read: ToRead,
        patience: Duration,
        hold: Hold,
        mut visit: Visit,
    ) -> Response<ReplyBody> {
        let (head, incoming) = request.into_parts();
        visit.exchange.leaves(self.engine.clock().now());
        let unread = Unread::begins(&self.unread);
        let read = body::read(incoming, to_read.most, patience, hold).await;
        if matches!(read, Err(Error::NoMemory)) {
            self.events.emit(&Event::BodyRefused);
        }
        visit.exchange.returns(self.engine.clock().now());
        let judged = match read {
            Ok(read) => self.judge_read(connection, head, read, &to_read).await,
            Err(error) => Err(error),
        };
        drop(unread);
        let Ok(response) = match judged {
            Ok((judgement, request)) => self.conclude(connection, judgement, request, visit),
            Err(error) => visit.ends_in(&error, connection),
        }
        .await;
        response
    }

    /// Decides on a request of whose body something was read.
    async fn judge_read(
        &self,
        connection: &Connection,
        head: http::request::Parts,
        read: Read,
        to_read: &ToRead,
    ) -> Result<(Judgement, Request<Arrival>), Error> {
        let (known, arrival) = match &read {
            Read::Whole(bytes) => (Body::Whole(bytes), Arrival::Whole(some(bytes))),
            Read::Longer(..) if to_read.refuse_longer => return Err(Error::BodyTooLong),
            Read::Longer(..) => (Body::TooLong, Arrival::Whole(None)),
        };
        let mut request = Request::from_parts(head, arrival);
        let judgement = self.judge(connection, &request, known).await?;
        if let Read::Longer(beginning, rest) = read {
            *request.body_mut() = Arrival::Begun(some(&beginning), rest);
        }
        Ok((judgement, request))
    }

    /// Waits for the store.
    async fn hear(&self, inquiry: Inquiry, local: &Local) -> Ruling {
        inquiry.ruling(&self.engine, &local.site.rules).await
    }

    /// Decides on a request with its body.
    async fn judge<B>(
        &self,
        connection: &Connection,
        request: &Request<B>,
        body: Body<'_>,
    ) -> Result<Judgement, Error> {
        let host = target::understand(connection, request)?;
        let now = self.engine.clock().now();
        let (local, found) = by_newest(
            || self.site.now(),
            |local| {
                let client = match local.client_of(connection, request) {
                    Ok(client) => client,
                    Err(why) => return Ok(Err(why)),
                };
                let attempt = attempt(request, &host, client, body);
                let consulted = self.engine.consult(&local.site.rules, &attempt, now)?;
                Ok(Ok((consulted, local.site.rules.policy.upstream_of(&attempt))))
            },
        )?;
        let (consulted, group) = found?;
        let ruling = match consulted {
            Consulted::Now(ruling) => ruling,
            Consulted::Later(inquiry) => self.hear(inquiry, &local).await,
        };
        Ok(Judgement { local, ruling, group: group.unwrap_or(0) })
    }

    /// Refuses or forwards.
    fn conclude(
        self: &Rc<Self>,
        connection: &Arc<Connection>,
        Judgement { local, ruling, group }: Judgement,
        request: Request<Arrival>,
        mut visit: Visit,
    ) -> Answering {
        let (site, rules) = (&local.site, &local.site.rules);
        let reservation = match ruling {
            Ruling::Uncounted => None,
            Ruling::Denied => return visit.ends_in(&Error::StoreAway, connection),
            Ruling::Admitted(reservation) => {
                visit.exchange.admitted(&rules.policy, reservation.route());
                let Some(places) = rules.places(&reservation) else {
                    // The application never hears of it, so it was no attempt.
                    reservation.give_back(&self.engine, rules);
                    return visit.ends_in(&Error::Crowded, connection);
                };
                visit.exchange.takes(places);
                Some(reservation)
            }
            Ruling::Refused(refusal) => {
                visit.exchange.refused(&rules.policy, &refusal);
                let response = self.refuse(connection, site, &refusal, request, &visit.asker);
                return Answering::after(site.refuse.delay, visit.exchange.end_with(response));
            }
        };
        let shown = reservation
            .as_ref()
            .filter(|_| site.refuse.headers == ShowLimits::Always)
            .and_then(|admitted| respond::rate_limit_headers(&rules.policy, &admitted.standings));
        let hold = reservation.as_ref().map_or(Span::ZERO, |held| held.hold);
        let attempt = reservation.map(|reservation| {
            let trusted = site.client.trusts(connection.peer);
            let is_secure = reservation.claim().is_some()
                && is_secure(request.headers(), trusted, connection.is_secure());
            Pending::new(self, &local, reservation, is_secure)
        });
        let departure = Departure::prepare(request, connection, &local, group, attempt, &visit.asker);
        let (gate, connection) = (Rc::clone(self), Arc::clone(connection));
        Answering::Later(Box::pin(
            async move { gate.forward(departure, &connection, hold, shown, visit).await },
        ))
    }

    async fn forward(
        &self,
        mut departure: Departure,
        connection: &Arc<Connection>,
        hold: Span,
        shown: Option<RateLimitHeaders>,
        Visit { asker, mut exchange, .. }: Visit,
    ) -> Response<ReplyBody> {
        if hold > Span::ZERO {
            exchange.leaves(self.engine.clock().now());
            tokio::time::sleep(hold.to_std()).await;
            exchange.returns(self.engine.clock().now());
            exchange.departs();
        }
        match departure.go(self, connection, &mut exchange).await {
            Ok(mut response) => {
                if let Some(shown) = shown {
                    shown.append_to(response.headers_mut());
                }
                exchange.end_with(response)
            }
            Err(error) => exchange.end_with(apologise(connection, &error, &asker)),
        }
    }

    fn refuse(
        &self,
        connection: &Connection,
        site: &Site,
        refusal: &Refusal,
        request: Request<Arrival>,
        asker: &Asker,
    ) -> Response<ReplyBody> {
        let Rules { generation, policy, .. } = &*site.rules;
        let response = self.said.refusal(*generation, &site.refuse, policy, refusal, &asker.asked());
        let mut response = response.map(ReplyBody::ours);
        let (head, arrival) = request.into_parts();
        let may_be_kept = match arrival {
            Arrival::Streaming(body) => drain::unread(Request::from_parts(head, body), connection),
            Arrival::Whole(_) => true,
            // More than anybody reads for its fields is more than is drained.
            Arrival::Begun(..) => false,
        };
        if !may_be_kept {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

fn attempt<'a, B>(request: &'a Request<B>, host: &'a str, client: Client, body: Body<'a>) -> Attempt<'a> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    Attempt { method, path: uri.path(), query: uri.query(), host, client, headers, body }
}

fn some(bytes: &Bytes) -> Option<Bytes> {
    Some(bytes.clone()).filter(|bytes| !bytes.is_empty())
}
