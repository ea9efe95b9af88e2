//! What would happen to a request, step by step, decided by the gate's own functions.
//!
//! By the rules and buckets of a running gate it takes nothing: every bucket is looked at alone. By a configuration every
//! bucket is new, as for a client that the gate has never seen, and the attempt is made on its own engine. Reading
//! arguments and printing are left to the command line and the admin API.

mod account_fields;
mod describe;

use std::net::SocketAddr;
use std::sync::OnceLock;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use crate::config::Config;
use crate::engine::{Decision, Engine, Rules};
use crate::event::Events;
use crate::net::stream::PeerAddr;
use crate::observe::admin::ExplainRequest;
use crate::observe::admin::pages::{ExplainPage, ExplainPart};
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::network::embedded_ipv4;
use crate::policy::{Charges, Cost, DefenceRefusal, LimitKind, Policy, Route, canonical, path_info};
use crate::proxy::error::MalformedRequest;
use crate::proxy::request::client_addr::ClientSettings;
use crate::proxy::request::shown::{Requester, Shown};
use crate::proxy::request::target;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::store::memory::TooLarge;
use crate::store::shared::Unavailable;
use crate::time::{Clock, Span};

/// The steps of an explanation, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation(Vec<(&'static str, String)>);

/// The settings of a gate that an explanation needs in addition to its rules.
struct GateView<'g> {
    client: &'g ClientSettings,
    /// The status of a refusal.
    status: StatusCode,
    /// The addresses of each group of upstreams.
    upstreams: Vec<String>,
}

/// What became of the attempt.
enum ExplainedDecision {
    /// Refused for this time, or for good.
    Refused(Option<Span>),
    /// Held for this time, then forwarded.
    Forwarded(Span),
    /// Refused by a defence, whatever the limits say.
    RefusedByDefence(&'static DefenceRefusal),
}

impl Explanation {
    /// The steps for programs.
    #[must_use]
    pub fn page(&self) -> ExplainPage {
        let part = |(step, says): &(&'static str, String)| ExplainPart {
            step: step.trim().to_owned(),
            says: says.clone(),
        };
        ExplainPage { steps: self.0.iter().map(part).collect() }
    }

    /// One line for each step.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.iter().map(|(step, says)| format!("{step:<9} {says}\n")).collect()
    }

    /// By this configuration, with new buckets.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space for a bucket of each limit.
    pub fn of_config(config: Config, request: &ExplainRequest) -> Result<Self, TooLarge> {
        let names = config.upstreams.iter().map(|group| joined(group.iter().map(ToString::to_string)));
        let view =
            GateView { client: &config.client, status: config.refuse.status, upstreams: names.collect() };
        let mut steps = Self::default();
        let parts = RequestParts::of(request);
        let Some(attempt) = steps.request(&view, &parts, request, &config.policy) else { return Ok(steps) };
        // The engine keeps nothing, so one bucket for each limit is enough.
        let engine = Engine::new(config.policy, 1, Clock::system(), Events::default())?;
        let (rules, now) = (engine.rules(), engine.clock().now());
        let (found, before) = match engine.peek(&rules, &attempt) {
            Ok(found) => found,
            Err(why) => return Ok(steps.answer(format!("400, because {why}"))),
        };
        // One engine, one thread: the rules are the newest, and nothing is frozen.
        let Ok(decision) = engine.decide_in_memory(&rules, &attempt, now) else { return Ok(steps) };
        let (after, decision) = match &decision {
            Decision::Admitted(admitted) => (&admitted.statuses, ExplainedDecision::Forwarded(admitted.hold)),
            Decision::Refused(refusal) => (&refusal.statuses, ExplainedDecision::Refused(refusal.wait)),
            Decision::RefusedByDefence(refusal) => (&before, ExplainedDecision::RefusedByDefence(refusal)),
            Decision::Uncounted | Decision::Denied => (&before, ExplainedDecision::Forwarded(Span::ZERO)),
        };
        steps.limits(
            &rules,
            &attempt,
            &found,
            before.iter().zip(after).map(|(before, after)| {
                (
                    describe::name(&rules.policy.limits[before.charge.limit]),
                    describe::taken(before),
                    describe::left(after),
                )
            }),
        );
        Ok(steps.decided(&view, &rules, &attempt, &decision))
    }

    /// By the rules and buckets in force; takes nothing.
    ///
    /// # Errors
    /// [`Unavailable`] if a shared store does not answer.
    pub async fn of_gate(
        engine: &Engine,
        config: &RuntimeConfig,
        request: &ExplainRequest,
    ) -> Result<Self, Unavailable> {
        let names = config.upstreams.iter().map(|group| joined(group.iter().map(|up| up.name().to_owned())));
        let view =
            GateView { client: &config.client, status: config.refuse.status, upstreams: names.collect() };
        let (mut steps, rules) = (Self::default(), &config.rules);
        let parts = RequestParts::of(request);
        let Some(attempt) = steps.request(&view, &parts, request, &rules.policy) else { return Ok(steps) };
        if let Some(refusal) = engine.refusal_by_operator(rules, attempt.client) {
            let decision = ExplainedDecision::RefusedByDefence(refusal);
            return Ok(steps.decided(&view, rules, &attempt, &decision));
        }
        let found = match rules.charges(engine, &attempt) {
            Ok(found) => found,
            Err(why) => return Ok(steps.answer(format!("400, because {why}"))),
        };
        if rules.banned_until(attempt.client, engine.time()).is_some() {
            steps.step("ban", "an operator banned the client's prefix: every limit refuses its attempts");
        }
        let statuses = engine.inspect(rules, &found, attempt.client).await?;
        steps.limits(
            rules,
            &attempt,
            &found,
            statuses.iter().map(|status| {
                let limit = &rules.policy.limits[status.charge.limit];
                (describe::name(limit), describe::would_take(status), describe::would_leave(status))
            }),
        );
        let is_refused = statuses.iter().any(|status| status.refuses());
        let decision = match found.unsettled.notes.refusal() {
            Some(refusal) => ExplainedDecision::RefusedByDefence(refusal),
            None if is_refused => ExplainedDecision::Refused(rules.longest_wait(&statuses)),
            None => ExplainedDecision::Forwarded(Rules::longest_hold(&statuses)),
        };
        Ok(steps.decided(&view, rules, &attempt, &decision))
    }

    fn step(&mut self, name: &'static str, says: impl Into<String>) {
        self.0.push((name, says.into()));
    }

    fn answer(mut self, says: impl Into<String>) -> Self {
        self.step("answer", says);
        self
    }

    /// The steps before the decision; `None` if there is no decision.
    fn request<'r>(
        &mut self,
        view: &GateView<'_>,
        parts: &'r RequestParts,
        asked: &'r ExplainRequest,
        policy: &Policy,
    ) -> Option<Attempt<'r>> {
        let attempt = match parts.attempt(view.client, asked) {
            Ok(attempt) => attempt,
            Err(answer) => {
                self.step("answer", answer);
                return None;
            }
        };
        self.client(&attempt, asked);
        self.readings(&attempt);
        if policy.could_be_a_write(&attempt) {
            self.step("method", format!("{}, which an application could take for a write", attempt.method));
        }
        if let Some(answer) = too_long(policy, &attempt) {
            self.step("answer", answer);
            return None;
        }
        Some(attempt)
    }

    fn client(&mut self, attempt: &Attempt<'_>, asked: &ExplainRequest) {
        let client = attempt.client.ip().map_or_else(|| "a Unix socket".to_owned(), |ip| ip.to_string());
        let why = match attempt.client {
            _ if asked.from.is_some() => "as told".into(),
            Client::BehindProxy(_) => {
                "a proxy that does not say who its client is: of no network of the file".into()
            }
            _ => format!("connected from {}", asked.peer),
        };
        self.step("client", format!("{client}, {why}"));
        if let Some(inside) = attempt.client.ip().and_then(embedded_ipv4) {
            self.step("  as", format!("{inside}, which it carries inside"));
        }
        self.step("host", attempt.host);
    }

    fn readings(&mut self, attempt: &Attempt<'_>) {
        // Readings that look the same are shown once, as an encoded slash that stays encoded.
        let mut shown: Vec<String> = Vec::new();
        let mut show = |reading: &[u8]| {
            let text = canonical::display(reading);
            if !shown.contains(&text) {
                shown.push(text);
            }
        };
        let readings = canonical::readings(attempt.path);
        readings.iter().for_each(|reading| show(reading));
        for reading in &readings {
            path_info::for_each(&canonical::split(reading), |behind| show(&canonical::joined(behind)));
        }
        for (at, text) in shown.into_iter().enumerate() {
            self.step(if at == 0 { "path" } else { "  or" }, text);
        }
    }

    /// The routes, and for each limit its name, what is taken and what is left.
    fn limits(
        &mut self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        found: &Charges,
        limits: impl Iterator<Item = (String, String, String)>,
    ) {
        let routes: Vec<&Route> = found.routes.iter().map(|&route| &rules.policy.routes[route]).collect();
        let Some(first) = routes.first() else {
            return self.step("route", "none: forwarded and never counted");
        };
        self.step("route", &*first.name);
        if attempt.body == AttemptBody::Unread {
            self.unread(&rules.policy, attempt, &routes);
        }
        match found.accounts {
            Some(0) if first.step.is_some() => {
                self.step(
                    "account",
                    "that of the sign-in before it, if the gate saw it; else its client pays",
                );
            }
            Some(0) => self.step("account", no_account(&account_fields::configured(&routes))),
            Some(count) => {
                let fields = account_fields::naming(&routes, attempt);
                let by =
                    if fields.is_empty() { String::new() } else { format!(" by {}", fields.join(" and ")) };
                self.step("account", format!("{count} named{by}"));
            }
            None => {}
        }
        for (step, says) in found.unsettled.notes.explain() {
            self.step(step, says);
        }
        for slots in routes.iter().filter_map(|route| route.permits.slots()) {
            self.step("in flight", slots.describe());
        }
        let exempt = found.exempt.iter().map(|&limit| &rules.policy.limits[limit]);
        for limit in exempt.filter(|limit| limit.kind == LimitKind::Rate) {
            self.step("limit", format!("{}: does not see this client", limit.name));
        }
        for (name, taken, left) in limits {
            self.step("limit", format!("{name}: {taken}"));
            self.step("", left);
        }
    }

    /// Names what the decision needs from a body that was not given.
    fn unread(&mut self, policy: &Policy, attempt: &Attempt<'_>, routes: &[&Route]) {
        if routes.iter().any(|route| matches!(route.reading.cost, Cost::Counted(_))) {
            self.step("cost", "counted in the body, at least 1: give it with --data");
        } else if matches!(policy.body_requirement(attempt, &policy.routes_of(attempt)), Ok(Some(_))) {
            let says = "decides whether it is an attempt, or names the account: give it with --data";
            self.step("body", says);
        }
    }

    fn decided(
        self,
        view: &GateView<'_>,
        rules: &Rules,
        attempt: &Attempt<'_>,
        decision: &ExplainedDecision,
    ) -> Self {
        let group = rules.policy.upstream_of(attempt).and_then(|group| view.upstreams.get(group));
        let group = group.or(view.upstreams.first());
        let forwarded = format!("forwarded to {}", group.map_or("", String::as_str));
        self.answer(match *decision {
            ExplainedDecision::Refused(Some(wait)) => {
                format!("{}: try again in {}", view.status, describe::time(wait))
            }
            ExplainedDecision::RefusedByDefence(DefenceRefusal { status, why, .. }) => {
                format!("{}: {why}", status.as_u16())
            }
            ExplainedDecision::Refused(None) => {
                "refused: the attempt costs more than a bucket holds".to_owned()
            }
            ExplainedDecision::Forwarded(hold) if hold > Span::ZERO => {
                format!("held for {}, then {forwarded}", describe::time(hold))
            }
            ExplainedDecision::Forwarded(_) => forwarded,
        })
    }
}

/// The request as the gate would read it.
pub(super) struct RequestParts {
    request: Request<()>,
    host: Result<String, MalformedRequest>,
    /// Empty until the client is known.
    shown: OnceLock<Shown<'static>>,
}

impl RequestParts {
    pub(super) fn of(asked: &ExplainRequest) -> Self {
        let mut request = Request::new(());
        *request.method_mut() = asked.method.clone();
        *request.uri_mut() = asked.url.clone();
        let authority = asked.url.authority().map_or("localhost", http::uri::Authority::as_str);
        add_headers(request.headers_mut(), authority, asked);
        let host = target::check(&request).map(|host| host.to_string());
        Self { request, host, shown: OnceLock::new() }
    }

    /// The attempt, or the answer of a gate that cannot read the request.
    pub(super) fn attempt<'r>(
        &'r self,
        client: &ClientSettings,
        asked: &'r ExplainRequest,
    ) -> Result<Attempt<'r>, String> {
        let because = |why: &dyn std::fmt::Display| format!("400, because {why}");
        let host = self.host.as_ref().map_err(|why| because(why))?;
        let (method, uri, headers) = (self.request.method(), self.request.uri(), self.request.headers());
        let peer = PeerAddr::Ip(SocketAddr::new(asked.peer, 0));
        let (names_scheme, is_secure) = (client.trusts(peer), asked.url.scheme_str() == Some("https"));
        let requester = Requester { peer, source: peer, names_scheme, is_secure, tls: None };
        let shown = client.shown_by(requester, &self.request, Clock::system().now(), || true);
        let shown = shown.map_err(|why| because(&why))?;
        let tls = self.shown.get_or_init(|| shown).client();
        let client = match asked.from {
            Some(ip) => Client::from_ip(ip),
            None => client.client_of(peer, headers).map_err(|why| because(&why))?,
        };
        let (path, query, body) = (uri.path(), uri.query(), body_of(asked));
        Ok(Attempt { method, path, query, host, client, headers, body, descriptor: None, tls })
    }
}

/// The answer to a body that is longer than its route reads.
pub(super) fn too_long(policy: &Policy, attempt: &Attempt<'_>) -> Option<String> {
    let (Ok(Some(to_read)), AttemptBody::Whole(body)) =
        (policy.body_requirement(attempt, &policy.routes_of(attempt)), attempt.body)
    else {
        return None;
    };
    let is_too_long = body.len() > to_read.max_bytes && to_read.is_needed;
    is_too_long.then(|| format!("413, because the route reads {} bytes of a body", to_read.max_bytes))
}

fn add_headers(headers: &mut HeaderMap, authority: &str, asked: &ExplainRequest) {
    if let Ok(host) = HeaderValue::from_str(authority) {
        headers.insert(http::header::HOST, host);
    }
    for (name, value) in &asked.headers {
        if name == http::header::HOST {
            headers.remove(name);
        }
        headers.append(name, value.clone());
    }
}

/// Without `data` a request by GET, HEAD or OPTIONS has no body.
fn body_of(asked: &ExplainRequest) -> AttemptBody<'_> {
    match &asked.data {
        Some(data) => AttemptBody::Whole(data.as_bytes()),
        None if matches!(asked.method, Method::GET | Method::HEAD | Method::OPTIONS) => {
            AttemptBody::Whole(&[])
        }
        None => AttemptBody::Unread,
    }
}

fn no_account(fields: &[String]) -> String {
    let client_pays = "the attempt pays for its client";
    match fields {
        [] => format!("none: the route has no `user`, so {client_pays}"),
        fields => format!("none can be read in {}: {client_pays}", fields.join(" or ")),
    }
}

fn joined(addresses: impl Iterator<Item = String>) -> String {
    addresses.collect::<Vec<_>>().join(" or ")
}
