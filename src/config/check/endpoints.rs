//! `[endpoint.NAME]`: where other proxies ask before they forward.
//!
//! A proxy that asks shows the head of a request, and of the answer if it reports that. Where no client connects to the gate
//! itself, a route that needs more would protect nothing, so it is a mistake.

use std::sync::Arc;

use http::StatusCode;
use tollgate_grammar::kind::{Checked as _, Key, Switch};
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located, RawNamed, StringList, Syntax as _, name};

use super::super::raw;
use super::super::values::{FieldValue, ListenUrl};
use super::context::CheckContext;
use super::trust::trusted;
use crate::net::listener::ListenAddress;
use crate::policy::matcher::Pattern;
use crate::policy::{Cost, Route};
use crate::proxy::endpoint::{Endpoint, EndpointKind};
use crate::proxy::respond::RefuseSettings;
use crate::time::Span;

/// The endpoints by name.
pub(super) fn check(cx: &CheckContext<'_>, f: &mut Findings) -> Vec<Endpoint> {
    let (raw, refuse) = (cx.raw, &cx.refuse);
    let mut taken = [&cx.listen[..], &cx.admin].concat();
    let mut found = Vec::new();
    for RawNamed { name: called, value } in &raw.endpoints {
        name::check(called, f);
        let kind = check_kind(called, value, f);
        let (trust, trusts_anybody) =
            (trusted(value.trust.as_deref(), "trust", &cx.networks, &cx.services, f), value.trust.is_none());
        let listen = listen(called, value, trusts_anybody, &mut taken, f);
        let status = value.refused_status.checked(f);
        let status = status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(refuse.status);
        let timeout = value.outcome_timeout.checked(f);
        found.push(Endpoint {
            name: called.value.as_str().into(),
            listen,
            kind,
            trust,
            refuse: Arc::new(RefuseSettings { status, ..refuse.clone() }),
            shows_bodies: is_on(&value.bodies),
            reports_answers: is_on(&value.answers),
            report_timeout: timeout.unwrap_or(Span::from_secs(60)),
        });
    }
    if !cx.forwards() {
        report_unseen(cx, f);
    }
    for kind in [RLS, POLICY] {
        if !raw.endpoints.iter().any(|endpoint| is_of(&endpoint.value, kind)) {
            warn_of_descriptors(cx, kind, f);
        }
    }
    warn_of_hosts(cx, f);
    // A reload finds them by their numbers, whatever their order in the file.
    found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    found
}

impl CheckContext<'_> {
    /// Where clients connect and proxies ask.
    pub(super) fn listens(&self) -> impl Iterator<Item = &ListenAddress> {
        self.listen.iter().chain(self.endpoints.iter().flat_map(|endpoint| &endpoint.listen))
    }

    /// The same and where operators connect, as the file writes it.
    pub(super) fn listens_as_written(&self) -> impl Iterator<Item = &Located<String>> {
        let asked = self.raw.endpoints.iter().map(|endpoint| &endpoint.value.listen);
        let lists = [&self.raw.listen, &self.raw.admin.listen].into_iter().chain(asked);
        lists.flatten().flat_map(|list| &list.value)
    }

    /// The name of the first endpoint behind which applications report outcomes, as its proxy reports no answers.
    pub(super) fn first_without_answers(&self) -> Option<&str> {
        let is_blind = |raw: &raw::RawEndpoint| !is_asked_by_descriptors(raw) && !sees_answers(raw);
        let blind = self.raw.endpoints.iter().find(|endpoint| is_blind(&endpoint.value));
        blind.map(|endpoint| &*endpoint.name.value)
    }
}

fn check_kind(name: &Located<String>, raw: &raw::RawEndpoint, f: &mut Findings) -> EndpointKind {
    if raw.kind.is_none() {
        let message = format!("endpoint `{}` has no `kind`", name.value);
        let hint = "kind = \"forward-auth\", \"envoy-rls\", \"ext-authz\", \"ext-proc\" or \"auth-policy\"";
        f.error(&name.spot, message, hint);
    }
    let kind = raw.kind.checked(f).unwrap_or(EndpointKind::ForwardAuth);
    match kind {
        EndpointKind::EnvoyRls => {
            let (status, bodies) =
                ("set Envoy's `rate_limited_status` instead", "Envoy's descriptors have no bodies");
            let receipts = Some("there are no receipts");
            warn_of_other_kind(raw, [Some(status), receipts, Some(bodies), receipts], f);
        }
        EndpointKind::AuthPolicy => {
            let (status, bodies) = ("Dovecot is refused in the body", "Dovecot sends no bodies");
            let outcomes = "Dovecot reports outcomes anyway";
            warn_of_other_kind(raw, [Some(status), None, Some(bodies), Some(outcomes)], f);
        }
        EndpointKind::ExtProc => {
            if let Some(answers) = &raw.answers {
                let message = format!("`answers` is for kind = {THAT_REPORT}");
                f.warning(&answers.spot, message, "Envoy's external processing shows answers always");
            }
        }
        EndpointKind::ForwardAuth | EndpointKind::ExtAuthz => {}
    }
    kind
}

/// Warns of what says nothing where the gate is asked by descriptors. `hints` tell why.
fn warn_of_other_kind(raw: &raw::RawEndpoint, hints: [Option<&str>; 4], f: &mut Findings) {
    let settings = [
        ("refused_status", THAT_SHOW_REQUESTS, raw.refused_status.as_ref().map(|it| &it.spot)),
        ("outcome_timeout", THAT_WAIT, raw.outcome_timeout.as_ref().map(|it| &it.spot)),
        ("bodies", THAT_SHOW_REQUESTS, raw.bodies.as_ref().map(|it| &it.spot)),
        ("answers", THAT_REPORT, raw.answers.as_ref().map(|it| &it.spot)),
    ];
    for ((key, kinds, spot), hint) in settings.into_iter().zip(hints) {
        if let Some((spot, hint)) = spot.zip(hint) {
            f.warning(spot, format!("`{key}` is for kind = {kinds}"), hint);
        }
    }
}

fn listen(
    name: &Located<String>,
    raw: &raw::RawEndpoint,
    trusts_anybody: bool,
    taken: &mut Vec<ListenAddress>,
    f: &mut Findings,
) -> Vec<ListenAddress> {
    let hint = "listen = \"http://127.0.0.1:9181\"";
    match &raw.listen {
        None => f.error(&name.spot, format!("endpoint `{}` has no `listen`", name.value), hint),
        Some(list) if list.is_empty => f.error(&list.spot, "`listen` is empty", hint),
        Some(_) => {}
    }
    let mut addresses = Vec::new();
    for item in distinct(raw.listen.as_deref(), f) {
        let Some(ListenUrl(address)) = ListenUrl::read(item, f) else { continue };
        if trusts_anybody && !is_near(&address) {
            let message = format!("any machine could ask at `{}`", item.value);
            f.error(&item.spot, message, "trust = [\"10.0.0.5\"] names the proxies that may ask");
        }
        if taken.contains(&address) {
            f.error(&item.spot, format!("`{}` is another address of the gate as well", item.value), "");
        }
        taken.push(address.clone());
        addresses.push(address);
    }
    addresses
}

fn is_of(raw: &raw::RawEndpoint, word: &str) -> bool {
    raw.kind.as_ref().is_some_and(|kind| kind.value == word)
}

/// Whether those who ask tell of an attempt, and send no request.
fn is_asked_by_descriptors(raw: &raw::RawEndpoint) -> bool {
    [RLS, POLICY].iter().any(|word| is_of(raw, word))
}

/// Whether the heads of answers are seen.
fn sees_answers(raw: &raw::RawEndpoint) -> bool {
    is_on(&raw.answers) || raw.kind.as_ref().is_some_and(|kind| kind.value == PROC)
}

fn is_on(switch: &Key<Switch>) -> bool {
    switch.as_ref().is_some_and(|switch| switch.value)
}

/// Warns of patterns of descriptors where nobody asks by them: there is no endpoint of this kind.
fn warn_of_descriptors(cx: &CheckContext<'_>, kind: &str, f: &mut Findings) {
    let (name, is_one): (_, fn(&Pattern) -> bool) = match kind {
        POLICY => ("dovecot", Pattern::is_of_protocols),
        _ => ("envoy", |pattern| pattern.is_of_descriptors() && !pattern.is_of_protocols()),
    };
    for (RawNamed { value, .. }, route) in cx.raw.routes.iter().zip(&cx.routes) {
        let is_one = route.iter().flat_map(|route| &route.matching.patterns).any(is_one);
        if let Some(list) = value.patterns.as_ref().filter(|_| is_one) {
            let hint = format!("add [endpoint.{name}] with kind = \"{kind}\"");
            f.warning(&list.spot, "no endpoint is asked by descriptors", hint);
        }
    }
}

/// Warns of routes that Dovecot's questions never match, because these name no host.
fn warn_of_hosts(cx: &CheckContext<'_>, f: &mut Findings) {
    for (RawNamed { value, .. }, route) in cx.raw.routes.iter().zip(&cx.routes) {
        let is_one = route.iter().flat_map(|route| &route.matching.patterns).any(Pattern::is_of_protocols);
        if let Some(host) = value.host.as_ref().filter(|_| is_one) {
            let hint = "a separate route for \"policy:*\", without `host`; limits are shared by name";
            f.warning(&host.spot, "Dovecot's questions name no host", hint);
        }
    }
}

/// Whether only this machine can connect.
fn is_near(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp(at) | ListenAddress::Tls(at) => at.ip().to_canonical().is_loopback(),
        ListenAddress::Unix(_) => true,
        ListenAddress::Systemd { .. } => false,
    }
}

/// Reports what a route needs and no endpoint sees, where there is nothing but endpoints.
fn report_unseen(cx: &CheckContext<'_>, f: &mut Findings) {
    let raw = cx.raw;
    if let Some(upstream) = &raw.upstream {
        f.warning(&upstream.spot, "nothing is forwarded: there is no `listen`", LISTEN_TOO);
    }
    let asked_by_requests =
        || raw.endpoints.iter().map(|it| &it.value).filter(|it| !is_asked_by_descriptors(it));
    let bodies_are_sent = asked_by_requests().any(|endpoint| is_on(&endpoint.bodies));
    let answers_are_reported = asked_by_requests().any(sees_answers);
    let is_described = raw.endpoints.iter().all(|endpoint| is_asked_by_descriptors(&endpoint.value));
    for (named, route) in raw.routes.iter().zip(&cx.routes) {
        if !bodies_are_sent {
            report_body(named, route.as_ref(), is_described, f);
        }
        if answers_are_reported {
            warn_of_body_rules(&named.value, f);
        } else {
            report_answer(&named.value, f);
        }
        warn_of_upstream(&named.value, f);
    }
}

/// `is_described`: a descriptor says who the user is, wherever the route looks for it.
fn report_body(
    RawNamed { name, value: raw }: &RawNamed<raw::RawRoute>,
    route: Option<&Route>,
    is_described: bool,
    f: &mut Findings,
) {
    let user = raw.user.as_deref().filter(|_| !is_described);
    for (key, list) in [("user", user), ("password", raw.password.as_deref()), ("when", raw.when.as_deref())]
    {
        if let Some(list) = list.filter(|list| is_in_body(list)) {
            f.error(&list.spot, format!("no endpoint sees the body, where `{key}` is"), SEND_BODIES);
        }
    }
    if route.is_some_and(|route| matches!(route.reading.cost, Cost::Counted(_))) {
        let spot = raw.cost.as_ref().map_or(&name.spot, |cost| &cost.spot);
        f.error(spot, "no endpoint sees the body, where `cost` is counted", SEND_BODIES);
    }
}

fn is_in_body(list: &StringList) -> bool {
    let fields = list.value.iter().filter_map(|text| text.value.parse::<FieldValue>().ok());
    fields.into_iter().any(|FieldValue(field)| field.is_in_body())
}

fn report_answer(raw: &raw::RawRoute, f: &mut Findings) {
    let of = &raw.rules;
    for (key, rules) in [("success", &of.success), ("failure", &of.failure), ("neutral", &of.neutral)] {
        if let Some(rule) = rules.first() {
            f.error(&rule.spot, format!("no endpoint sees the answer, which `{key}` judges"), REPORT);
        }
    }
    if let Some(header) = &of.outcome_header {
        f.error(&header.spot, "no endpoint sees the answer with this header", REPORT);
    }
    if let Some(otherwise) = &of.otherwise {
        let hint = "an attempt without a report is a failure";
        f.warning(&otherwise.spot, "no endpoint sees the answer, which `otherwise` judges", hint);
    }
}

/// Proxies report heads.
fn warn_of_body_rules(raw: &raw::RawRoute, f: &mut Findings) {
    for (key, rules) in [("success", &raw.rules.success), ("failure", &raw.rules.failure)] {
        for rule in rules {
            let (json, body) = (rule.value.json.as_ref(), rule.value.body.as_ref());
            if let Some(spot) = json.map(|it| &it.spot).or(body.map(|it| &it.spot)) {
                let message = format!("no endpoint sees the body of the answer, which `{key}` judges");
                f.warning(
                    spot,
                    message,
                    "what depends on it is a failure: judge by status, location or cookies",
                );
            }
        }
    }
}

fn warn_of_upstream(raw: &raw::RawRoute, f: &mut Findings) {
    let (upstream, host) = (raw.upstream.as_ref(), raw.upstream_host.as_ref());
    for spot in upstream.map(|list| &list.spot).into_iter().chain(host.map(|text| &text.spot)) {
        f.warning(spot, "nothing is forwarded: there is no `listen`", LISTEN_TOO);
    }
}

const RLS: &str = "envoy-rls";
const POLICY: &str = "auth-policy";
const PROC: &str = "ext-proc";
/// Kinds that take a key, by what it is about.
const THAT_SHOW_REQUESTS: &str = "\"forward-auth\", \"ext-authz\" and \"ext-proc\"";
const THAT_WAIT: &str = "\"forward-auth\", \"ext-authz\", \"ext-proc\" and \"auth-policy\"";
const THAT_REPORT: &str = "\"forward-auth\" and \"ext-authz\"";
const REPORT: &str = "`answers = true` at an endpoint whose proxy reports them, kind = \"ext-proc\", or the application reports \
                      outcomes by POST /outcome; or `listen` as well";
const LISTEN_TOO: &str = "listen = \"http://[::]:8080\" as well, or leave it out";
const SEND_BODIES: &str = "a field of the head, as \"basic\" or \"header:NAME\"; `bodies = true` at an endpoint whose proxy \
                           sends them; or `listen` as well";
