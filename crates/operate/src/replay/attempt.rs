//! A line that could be an attempt, as the policy sees requests.
//!
//! The log has no bodies: a request that could have one is taken as one whose body was not read, so a rule about the
//! body may match. A GET has none. An OPTIONS is taken for a pre-flight. The fields of tollgate's own format are
//! trusted.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::line::{DecisionFields, GateFields, LoggedRequest};
use crate::event::AttemptEnd;
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::{Policy, canonical};
use crate::time::Time;

/// A logged request that at least one policy counts as an attempt.
#[derive(Debug)]
pub(super) struct LoggedAttempt {
    /// When the limits decide.
    pub(super) decided: Time,
    pub(super) client: Client,
    pub(super) method: Method,
    target: Box<str>,
    host: Box<str>,
    headers: HeaderMap,
    has_body: bool,
    pub(super) status: StatusCode,
    pub(super) response: HeaderMap,
    pub(super) told: Told,
    /// The request, if the line is one of several that tell its decisions.
    decision: Option<Box<str>>,
}

/// What the log tells of the outcome.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// Nothing but the response.
    Response,
    /// The gate that wrote the log did not count it as an attempt; there is nothing but the response.
    Uncounted,
    /// This limit refused the attempt.
    Refused(Box<str>),
    /// How it was settled.
    Settled(AttemptEnd),
    /// The gate admitted the attempt and could not forward it.
    Undone,
}

impl LoggedAttempt {
    /// `None` if no policy counts the request.
    pub(super) fn of(request: &LoggedRequest<'_>, policies: &[Policy]) -> Option<Self> {
        let method = Method::from_bytes(request.method.as_bytes()).ok()?;
        let (target, authority) = origin_form(&request.target)?;
        let host = request.host.as_deref().or(authority).map(normalize).unwrap_or_default();
        let gate = request.gate.as_ref();
        let is_get = method == Method::GET || method == Method::HEAD;
        let has_body = gate.map_or(!is_get, |gate| gate.is_attempt);
        if method == Method::OPTIONS && !gate.is_some_and(|gate| gate.is_attempt) {
            return None;
        }
        let credentials = request.user.as_deref().and_then(basic);
        // The gate saw some, and its line does not say which.
        let unknown = || gate.is_some_and(|gate| gate.is_attempt).then_some(HeaderValue::from_static("-"));
        let headers = credentials.or_else(unknown).map(|line| (AUTHORIZATION, line));
        let headers: HeaderMap = headers.into_iter().collect();
        let seen = attempt(&method, target, &host, request.client, &headers, has_body);
        let is_counted = policies.iter().any(|policy| !policy.routes_of(&seen).is_empty());
        if !is_counted || canonical::check(seen.path).is_err() {
            return None;
        }
        let location = request.location.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
        Some(Self {
            decided: request.arrived.after(gate.map(|gate| gate.decided).unwrap_or_default()),
            client: request.client,
            target: target.into(),
            host: host.into(),
            method,
            headers,
            has_body,
            status: StatusCode::from_u16(request.status).ok()?,
            response: location.map(|location| (LOCATION, location)).into_iter().collect(),
            told: gate.map_or(Told::Response, told),
            decision: request.decision.as_ref().map(|DecisionFields { route, request_id }| {
                let id = request_id.as_deref().unwrap_or_default();
                format!("{route} {id} {}", request.arrived.as_nanos()).into()
            }),
        })
    }

    /// Takes in another line about the same request: what one limit refuses, is refused. Gives back a line about another one.
    pub(super) fn merge(&mut self, next: Self) -> Option<Self> {
        let is_same = next.decision.is_some() && next.decision == self.decision && next.client == self.client;
        if !is_same {
            return Some(next);
        }
        if matches!(next.told, Told::Refused(_)) && !matches!(self.told, Told::Refused(_)) {
            self.told = next.told;
        }
        None
    }

    /// The request as the policy sees it.
    pub(super) fn request(&self) -> Attempt<'_> {
        attempt(&self.method, &self.target, &self.host, self.client, &self.headers, self.has_body)
    }
}

fn told(gate: &GateFields<'_>) -> Told {
    match (&gate.refused_by, gate.settled) {
        (Some(limit), _) => Told::Refused((&**limit).into()),
        (None, Some(end)) => Told::Settled(end),
        (None, None) if gate.is_attempt => Told::Undone,
        (None, None) => Told::Uncounted,
    }
}

fn attempt<'a>(
    method: &'a Method,
    target: &'a str,
    host: &'a str,
    client: Client,
    headers: &'a HeaderMap,
    has_body: bool,
) -> Attempt<'a> {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let body = if has_body { AttemptBody::Unread } else { AttemptBody::Whole(&[]) };
    Attempt { method, path, query, host, client, headers, body, descriptor: None, tls: None }
}

/// Path and query of a target, and its host if it has one (RFC 9112, section 3.2).
fn origin_form(target: &str) -> Option<(&str, Option<&str>)> {
    if target.starts_with('/') {
        return Some((target, None));
    }
    let rest = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))?;
    let begin = rest.find('/')?;
    Some((&rest[begin..], Some(&rest[..begin])))
}

/// The host in lower case, without port and trailing dot.
pub(super) fn normalize(host: &str) -> Cow<'_, str> {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    }
}

/// `Authorization: Basic` with this user and no password (RFC 7617).
fn basic(user: &str) -> Option<HeaderValue> {
    let credentials = [user.as_bytes(), b":"].concat();
    HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(credentials))).ok()
}

#[cfg(test)]
mod tests;
