//! A decision as an event of the Elastic Common Schema 9.4 (<https://www.elastic.co/docs/reference/ecs>), with what it has no
//! field for below `tollgate`.
//!
//! Every line is about one limit: `rule` is the limit, `event.action` what it decided, `event.outcome` what came of the
//! attempt. Text of a client comes late, so that a filter that reads from the front finds ours.

use std::io::Write;

use super::super::client_format::ClientFormatter;
use super::super::decision_line::account;
use super::super::json_fields::{member, number, put, quoted, thousandths};
use super::DecisionForm;
use super::security_event::{AttemptStatus, EventIds, own_fields};
use crate::event::{AccessLogEntry, AttemptRecord, LimitDecision, LimitRecord, RequestSpan};

/// `log.schema = "ecs"`.
#[derive(Debug)]
pub struct EcsForm(EventIds);

impl EcsForm {
    /// With new event ids.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        Self(EventIds::new())
    }

    /// The rest of `event`, whose duration lasts until the outcome, or else until the decision.
    fn event(&self, line: &mut Vec<u8>, entry: &AccessLogEntry, attempt: &AttemptRecord) {
        put(line, &[outcome(attempt), ",\"duration\":"]);
        let until = attempt.settled_at().unwrap_or(attempt.decided);
        number(line, until.since(entry.at).as_nanos());
        put(line, &[",\"id\":\""]);
        self.0.write(line);
        put(line, &["\"}"]);
    }
}

impl DecisionForm for EcsForm {
    fn write(
        &self,
        line: &mut Vec<u8>,
        second: &str,
        clients: &ClientFormatter,
        entry: &AccessLogEntry,
        attempt: &AttemptRecord,
        record: &LimitRecord,
    ) {
        put(line, &["{\"@timestamp\":\"", second, "."]);
        thousandths(line, entry.at.as_nanos() / 1_000_000 % 1_000);
        put(line, &[EVENT, kind(record.decision)]);
        self.event(line, entry, attempt);
        member(line, "rule", "name", attempt.limit_name(record).as_bytes());
        clients.write_member(entry.client, line, "source", ["ip", "address"]);
        if attempt.facts.account.is_some() {
            put(line, &[",\"user\":{\"hash\":"]);
            account(line, attempt.facts.account);
            line.push(b'}');
        }
        put(line, &[SERVICE]);
        if let Some(span) = &entry.span {
            trace(line, span);
        }
        if let Some(id) = &entry.request_id {
            put(line, &[",\"http\":{\"request\":{\"id\":"]);
            quoted(line, id.as_bytes());
            put(line, &["}}"]);
        }
        own_fields(line, "tollgate", entry, attempt, record);
        line.push(b'}');
    }
}

/// What the limit decided. An observing limit lets pass what it would refuse.
fn kind(decision: LimitDecision) -> &'static str {
    match decision {
        LimitDecision::Admit => "\"allowed\"],\"action\":\"admit\"",
        LimitDecision::Refuse => "\"denied\"],\"action\":\"refuse\"",
        LimitDecision::Observe => "\"allowed\"],\"action\":\"observe\"",
        LimitDecision::Exempt => "\"allowed\"],\"action\":\"exempt\"",
    }
}

fn outcome(attempt: &AttemptRecord) -> &'static str {
    match AttemptStatus::of(attempt) {
        AttemptStatus::Unknown => ",\"outcome\":\"unknown\"",
        AttemptStatus::Success => ",\"outcome\":\"success\"",
        AttemptStatus::Failure => ",\"outcome\":\"failure\"",
    }
}

fn trace(line: &mut Vec<u8>, span: &RequestSpan) {
    let RequestSpan { trace_id, span_id, .. } = span;
    // Writing to memory cannot fail.
    drop(write!(line, ",\"trace\":{{\"id\":\"{trace_id:032x}\"}},\"span\":{{\"id\":\"{span_id:016x}\"}}"));
}

/// `allowed` and `denied` are types of intrusion detection; an authentication only starts.
const EVENT: &str = "Z\",\"ecs\":{\"version\":\"9.4.0\"},\"event\":{\"kind\":\"event\",\"module\":\"tollgate\",\
                     \"dataset\":\"tollgate.decisions\",\"category\":[\"authentication\",\"intrusion_detection\"],\
                     \"type\":[\"start\",";

const SERVICE: &str =
    concat!(",\"service\":{\"name\":\"tollgate\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::samples::{attempt, entry};
    use crate::observe::settings::ClientsShown;
    use crate::policy::attempt::Client;
    use crate::policy::key::PrefixLengths;

    fn event(entry: &AccessLogEntry, attempt: &AttemptRecord, limit: usize, shown: ClientsShown) -> Value {
        let clients = ClientFormatter::new(shown, PrefixLengths::default());
        let mut line = Vec::new();
        let form = EcsForm::new();
        form.write(&mut line, "2026-11-20T23:21:52", &clients, entry, attempt, &attempt.limits[limit]);
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn a_refusal_is_a_failed_authentication_that_a_rule_denied() {
        let mut event = event(&entry(), &attempt(), 0, ClientsShown::Full);
        assert_eq!(event["event"]["id"].take().as_str().unwrap().len(), 32);
        assert_eq!(
            event,
            json!({
                "@timestamp": "2026-11-20T23:21:52.043Z", "ecs": {"version": "9.4.0"},
                "event": {
                    "kind": "event", "module": "tollgate", "dataset": "tollgate.decisions",
                    "category": ["authentication", "intrusion_detection"], "type": ["start", "denied"],
                    "action": "refuse", "outcome": "failure", "duration": 0, "id": null,
                },
                "rule": {"name": "address"}, "source": {"ip": "203.0.113.9"}, "user": {"hash": "123456789abc"},
                "service": {"name": "tollgate", "version": env!("CARGO_PKG_VERSION")},
                "http": {"request": {"id": "0192f0c1"}},
                "tollgate": {
                    "nanoseconds": 43_000_000, "route": "login", "limit": "address", "verdict": "refuse", "left": 0,
                    "wait": 21.5, "outcome": null, "device": false, "attack": false, "bait": false, "failures": 3,
                    "decided_us": 0.0, "settled_us": null,
                },
            })
        );
    }

    #[test]
    fn what_is_not_known_is_left_out_and_a_trace_is_named() {
        let (mut entry, mut attempt) = (entry(), attempt());
        (entry.client, entry.request_id, attempt.facts.account) = (Client::UnixSocket, None, None);
        let span =
            RequestSpan { trace_id: 5, span_id: 7, parent_id: None, is_sampled: false, is_secure: true };
        entry.span = Some(Box::new(span));
        let event = event(&entry, &attempt, 1, ClientsShown::Full);
        for absent in ["source", "user", "http"] {
            assert_eq!(event.get(absent), None, "{event}");
        }
        assert_eq!(event["trace"]["id"], format!("{:032x}", 5));
        assert_eq!(event["event"]["type"], json!(["start", "allowed"]));
    }

    #[test]
    fn a_hash_is_no_address() {
        let event = event(&entry(), &attempt(), 0, ClientsShown::Hash);
        assert_eq!(event["source"].get("ip"), None);
        assert_eq!(event["source"]["address"].as_str().unwrap().len(), 16);
    }
}
