//! Logs of JSON objects: tollgate's own, Caddy's, Traefik's, and nginx' with variables by their own names.
//!
//! Fields are known by name, wherever they are; all others are skipped. The schemas of the decision log have some in objects. nginx and Caddy write the time of the end of
//! the response, so the duration is subtracted where the line has it.

mod gate_line;
mod schema_object;
mod value;

use std::borrow::Cow;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

pub use self::gate_line::{AttemptId, GateLine};
use self::schema_object::SchemaObject;
use self::value::JsonValue;
use super::{DecisionFields, GateFields, LineError, LoggedRequest, client, request_line, timestamp};
use crate::defences::OWNERS;
use crate::event::AttemptEnd;
use crate::policy::attempt::Client;
use crate::policy::outcome::Outcome;
use crate::time::{Span, Time};

/// The values of a line, by their meaning.
#[derive(Default)]
pub(super) struct JsonFields<'a> {
    pub(super) time: JsonValue<'a>,
    /// A time with more digits than `time`.
    exact_time: JsonValue<'a>,
    pub(super) client: JsonValue<'a>,
    peer: JsonValue<'a>,
    /// Method, target and version in one text.
    pub(super) request: JsonValue<'a>,
    method: JsonValue<'a>,
    pub(super) target: JsonValue<'a>,
    /// A target that a rewrite may have changed.
    rewritten: JsonValue<'a>,
    host: JsonValue<'a>,
    user: JsonValue<'a>,
    status: JsonValue<'a>,
    location: JsonValue<'a>,
    /// In seconds, in a line whose time is that of the end.
    pub(super) took: JsonValue<'a>,
    route: JsonValue<'a>,
    refused_by: JsonValue<'a>,
    decided_us: JsonValue<'a>,
    outcome: JsonValue<'a>,
    settled_us: JsonValue<'a>,
    verdict: JsonValue<'a>,
    limit: JsonValue<'a>,
    account: JsonValue<'a>,
    request_id: JsonValue<'a>,
    nanoseconds: JsonValue<'a>,
    would_refuse: JsonValue<'a>,
    is_owner: JsonValue<'a>,
    is_alarmed: JsonValue<'a>,
    is_of_gate: bool,
    /// Whether it is an event of OCSF or ECS.
    is_of_schema: bool,
}

pub(super) fn parse(line: &[u8]) -> Result<LoggedRequest<'_>, LineError> {
    JsonFields::read(line)?.into_request()
}

pub(super) fn parse_gate_line(line: &[u8]) -> Result<GateLine<'_>, LineError> {
    JsonFields::read(line)?.into_gate_line()
}

/// Fills fields from an object; Caddy has some in a separate object.
pub(super) struct FieldReader<'f, 'a>(&'f mut JsonFields<'a>);

impl<'de> Visitor<'de> for FieldReader<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<JsonValue<'de>>()? {
            let name = name.text().unwrap_or_default();
            match (name, self.0.slot(name)) {
                ("request", _) => map.next_value_seed(value::RequestSeed(self.0))?,
                ("resp_headers", _) => map.next_value_seed(value::LocationSeed(&mut self.0.location))?,
                (_, Some(slot)) => *slot = map.next_value()?,
                (name, None) => match SchemaObject::of(name).filter(|_| self.0.is_of_schema) {
                    Some(object) => map.next_value_seed(object.reader(self.0))?,
                    None => drop(map.next_value::<IgnoredAny>()?),
                },
            }
        }
        Ok(())
    }
}

impl<'a> JsonFields<'a> {
    fn read(line: &'a [u8]) -> Result<Self, LineError> {
        let mut fields = Self::default();
        // To check a line as a whole is cheaper than each of its texts. A value that is skipped may hold any bytes.
        let read = match str::from_utf8(line) {
            Ok(line) => fields.fill(serde_json::Deserializer::from_str(line)),
            Err(_) => fields.fill(serde_json::Deserializer::from_slice(line)),
        };
        read.map_err(|_| LineError::BadJson)?;
        Ok(fields)
    }

    fn fill<R: serde_json::de::Read<'a>>(
        &mut self,
        mut reader: serde_json::Deserializer<R>,
    ) -> serde_json::Result<()> {
        reader.deserialize_map(FieldReader(self))?;
        reader.end()
    }

    /// Where the value of this name belongs.
    pub(super) fn slot(&mut self, name: &str) -> Option<&mut JsonValue<'a>> {
        Some(match name {
            "time" | "time_local" | "time_iso8601" | "timestamp" | "@timestamp" | "StartLocal" => {
                &mut self.time
            }
            "msec" | "ts" | "StartUTC" => &mut self.exact_time,
            "client" | "client_ip" | "ClientHost" | "remote_addr" => &mut self.client,
            "remote_ip" | "ClientAddr" => &mut self.peer,
            "method" | "request_method" | "RequestMethod" => &mut self.method,
            "target" | "request_uri" | "RequestPath" => &mut self.target,
            "uri" => &mut self.rewritten,
            "host" | "http_host" | "RequestHost" => &mut self.host,
            "remote_user" | "user_id" | "ClientUsername" => &mut self.user,
            "status" | "DownstreamStatus" => &mut self.status,
            "sent_http_location" | "downstream_Location" => &mut self.location,
            "request_time" | "duration" => &mut self.took,
            "route" => &mut self.route,
            "refused_by" => &mut self.refused_by,
            "decided_us" => &mut self.decided_us,
            "outcome" => &mut self.outcome,
            "settled_us" => &mut self.settled_us,
            "verdict" => &mut self.verdict,
            "limit" => &mut self.limit,
            "account" => &mut self.account,
            "request_id" => &mut self.request_id,
            "nanoseconds" => &mut self.nanoseconds,
            "would_refuse" => &mut self.would_refuse,
            "attack" => &mut self.is_alarmed,
            name if name == OWNERS.key => &mut self.is_owner,
            "added_us" => {
                self.is_of_gate = true;
                return None;
            }
            // Before any of the objects, also in a line whose names are sorted.
            "class_uid" | "ecs" => {
                self.is_of_schema = true;
                return None;
            }
            _ => return None,
        })
    }

    /// The client as the line names it. A decision in OCSF or ECS has no object for one without an address, and
    /// `tollgate forget` takes it out of lines of a person: this is what `-` is in the gate's own schema.
    fn client_text(&self) -> Option<&str> {
        let is_unnamed = self.is_of_schema && !self.verdict.is_absent() && self.client.is_absent();
        if is_unnamed { Some("-") } else { self.client.text() }
    }

    pub(super) fn into_request(self) -> Result<LoggedRequest<'a>, LineError> {
        let logged = self.exact_time.time().or_else(|| self.time.time()).ok_or(LineError::NoTime)?;
        let took = self.took.number().filter(|seconds| *seconds > 0.0).map_or(Span::ZERO, span_of_seconds);
        let address = self.client_text().or_else(|| self.peer.text()).ok_or(LineError::NoClient)?;
        let client = client(address)?;
        if !self.verdict.is_absent() && self.status.is_absent() {
            return self.into_decision(logged, client);
        }
        let status = self.status.number().and_then(status).ok_or(LineError::NoStatus)?;
        let arrived = logged.before(took);
        let gate = self.is_of_gate.then(|| self.gate_fields(arrived));
        let target = self.target.into_text().or_else(|| self.rewritten.into_text());
        let (method, target) = match (self.method.into_text(), target) {
            (Some(method), Some(target)) => (method, target),
            (None, None) if self.is_of_gate => (Cow::Borrowed(""), Cow::Borrowed("")),
            _ => request_line(self.request.into_text().ok_or(LineError::NoRequest)?),
        };
        Ok(LoggedRequest {
            arrived,
            client,
            method,
            target,
            host: self.host.into_text(),
            user: self.user.into_text().filter(|user| !matches!(&**user, "" | "-")),
            status,
            location: self.location.into_text().filter(|location| !matches!(&**location, "" | "-")),
            gate,
            decision: None,
        })
    }

    /// A line of the decision log.
    fn into_decision(mut self, arrived: Time, client: Client) -> Result<LoggedRequest<'a>, LineError> {
        let is_refused = self.verdict.text() == Some("refuse");
        if is_refused {
            self.refused_by = std::mem::take(&mut self.limit);
        }
        let arrived = exact_time(arrived, self.nanoseconds.number().unwrap_or_default());
        let gate = Some(self.gate_fields(arrived));
        let route = self.route.into_text().ok_or(LineError::NoRequest)?;
        Ok(LoggedRequest {
            arrived,
            client,
            method: Cow::Borrowed("POST"),
            target: Cow::Owned(format!("/{route}")),
            host: None,
            user: self.account.into_text(),
            status: if is_refused { 429 } else { 200 },
            location: None,
            gate,
            decision: Some(DecisionFields { route, request_id: self.request_id.into_text() }),
        })
    }

    fn gate_fields(&self, arrived: Time) -> GateFields<'a> {
        let owned = |value: &JsonValue<'_>| value.text().map(|text| Cow::Owned(text.to_owned()));
        let span = |value: &JsonValue<'_>| value.number().map(span_of_micros);
        let outcome = self.outcome.text().and_then(Outcome::of_name);
        let settled = outcome.zip(span(&self.settled_us));
        GateFields {
            is_attempt: self.route.text().is_some(),
            refused_by: owned(&self.refused_by),
            decided: span(&self.decided_us).unwrap_or_default(),
            settled: settled.map(|(outcome, after)| AttemptEnd { outcome, at: arrived.after(after) }),
        }
    }
}

impl JsonValue<'_> {
    fn time(&self) -> Option<Time> {
        match self {
            Self::Number(number) => timestamp::epoch(*number),
            value => timestamp::any(value.text()?),
        }
    }
}

/// The time with these nanoseconds of its second, if there are any.
fn exact_time(time: Time, nanoseconds: f64) -> Time {
    let nanos = span_of_micros(nanoseconds / 1e3);
    let second = time.as_nanos() / 1_000_000_000 * 1_000_000_000;
    if nanos == Span::ZERO { time } else { Time::from_nanos(second).after(nanos) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn span_of_seconds(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e6).round() as u64).times(1_000)
}

/// To the nanosecond, which a double holds for spans of up to 104 days.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn span_of_micros(micros: f64) -> Span {
    Span::from_nanos((micros * 1e3).round() as u64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn status(number: f64) -> Option<u16> {
    if number == 0.0 {
        // Of Caddy, for a client that left before its answer.
        return Some(499);
    }
    (100.0..1000.0).contains(&number).then_some(number as u16)
}
