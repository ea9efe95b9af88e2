//! A decision as an event of OCSF 1.8 (<https://schema.ocsf.io>): class Authentication, profiles `datetime` and
//! `security_control`.
//!
//! Every line is about one limit: `policy` is the limit, `disposition_id` what it did, `status_id` what came of the attempt.
//! Lines of one attempt share `metadata.correlation_uid`. Text of a client comes last, so that a filter that reads from
//! the front finds ours.

use super::super::client_format::ClientFormatter;
use super::super::decision_line::account;
use super::super::json_fields::{member, number, put, text, thousandths};
use super::DecisionForm;
use super::security_event::{AttemptStatus, EventIds, own_fields};
use crate::event::{AccessLogEntry, AttemptRecord, LimitDecision, LimitRecord};

/// `log.schema = "ocsf"`.
#[derive(Debug)]
pub struct OcsfForm(EventIds);

impl OcsfForm {
    /// With new event ids.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        Self(EventIds::new())
    }

    fn metadata(&self, line: &mut Vec<u8>, request_id: Option<&[u8]>) {
        put(line, &[METADATA]);
        self.0.write(line);
        line.push(b'"');
        if request_id.is_some() {
            text(line, "correlation_uid", request_id);
        }
        line.push(b'}');
    }
}

impl DecisionForm for OcsfForm {
    fn write(
        &self,
        line: &mut Vec<u8>,
        second: &str,
        clients: &ClientFormatter,
        entry: &AccessLogEntry,
        attempt: &AttemptRecord,
        record: &LimitRecord,
    ) {
        let millis = entry.at.as_nanos() / 1_000_000;
        put(line, &["{\"time_dt\":\"", second, "."]);
        thousandths(line, millis % 1_000);
        put(line, &["Z\",\"time\":"]);
        number(line, millis);
        put(line, &[CLASS, control(record.decision), status(attempt)]);
        member(line, "service", "name", attempt.route_name().as_bytes());
        member(line, "policy", "name", attempt.limit_name(record).as_bytes());
        clients.write_member(entry.client, line, "src_endpoint", ["ip", "uid"]);
        match attempt.facts.account {
            Some(_) => {
                put(line, &[",\"user\":{\"uid\":"]);
                account(line, attempt.facts.account);
                line.push(b'}');
            }
            None => put(line, &[",\"user\":{\"name\":\"Unknown\"}"]),
        }
        let request_id = entry.request_id.as_ref().map(|id| id.as_bytes());
        if let Some(id) = request_id {
            member(line, "http_request", "uid", id);
        }
        self.metadata(line, request_id);
        own_fields(line, "unmapped", entry, attempt, record);
        line.push(b'}');
    }
}

/// What the limit did: severity, action, disposition.
fn control(decision: LimitDecision) -> &'static str {
    match decision {
        // Low, denied, blocked.
        LimitDecision::Refuse => ",\"severity_id\":2,\"action_id\":2,\"disposition_id\":2",
        // Informational, observed, detected.
        LimitDecision::Observe => ",\"severity_id\":1,\"action_id\":3,\"disposition_id\":15",
        // Informational, allowed, allowed.
        LimitDecision::Admit | LimitDecision::Exempt => {
            ",\"severity_id\":1,\"action_id\":1,\"disposition_id\":1"
        }
    }
}

fn status(attempt: &AttemptRecord) -> &'static str {
    match AttemptStatus::of(attempt) {
        AttemptStatus::Unknown => ",\"status_id\":0",
        AttemptStatus::Success => ",\"status_id\":1",
        AttemptStatus::Failure => ",\"status_id\":2",
    }
}

/// Authentication, of the category Identity & Access Management: a logon from elsewhere.
const CLASS: &str =
    ",\"class_uid\":3002,\"category_uid\":3,\"activity_id\":1,\"type_uid\":300201,\"is_remote\":true";

const METADATA: &str = concat!(
    ",\"metadata\":{\"version\":\"1.8.0\",\"product\":{\"name\":\"tollgate\",\"vendor_name\":\"tollgate\",\"version\":\"",
    env!("CARGO_PKG_VERSION"),
    "\"},\"profiles\":[\"datetime\",\"security_control\"],\"uid\":\""
);

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
        let form = OcsfForm::new();
        form.write(&mut line, "2026-11-20T23:21:52", &clients, entry, attempt, &attempt.limits[limit]);
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn a_refusal_is_a_failed_logon_that_a_policy_blocked() {
        let mut event = event(&entry(), &attempt(), 0, ClientsShown::Full);
        assert_eq!(event["metadata"]["uid"].take().as_str().unwrap().len(), 32);
        assert_eq!(
            event,
            json!({
                "time_dt": "2026-11-20T23:21:52.043Z", "time": 1_795_216_912_043_u64,
                "class_uid": 3002, "category_uid": 3, "activity_id": 1, "type_uid": 300_201, "is_remote": true,
                "severity_id": 2, "action_id": 2, "disposition_id": 2, "status_id": 2,
                "service": {"name": "login"}, "policy": {"name": "address"},
                "src_endpoint": {"ip": "203.0.113.9"}, "user": {"uid": "123456789abc"},
                "http_request": {"uid": "0192f0c1"},
                "metadata": {
                    "version": "1.8.0", "uid": null, "correlation_uid": "0192f0c1",
                    "product": {"name": "tollgate", "vendor_name": "tollgate", "version": env!("CARGO_PKG_VERSION")},
                    "profiles": ["datetime", "security_control"],
                },
                "unmapped": {
                    "nanoseconds": 43_000_000, "route": "login", "limit": "address", "verdict": "refuse", "left": 0,
                    "wait": 21.5, "outcome": null, "device": false, "attack": false, "bait": false, "failures": 3,
                    "decided_us": 0.0, "settled_us": null,
                },
            })
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let (mut entry, mut attempt) = (entry(), attempt());
        (entry.client, entry.request_id, attempt.facts.account) = (Client::UnixSocket, None, None);
        let event = event(&entry, &attempt, 1, ClientsShown::Full);
        for absent in ["src_endpoint", "http_request"] {
            assert_eq!(event.get(absent), None, "{event}");
        }
        assert_eq!(event["metadata"].get("correlation_uid"), None);
        assert_eq!(event["user"], json!({"name": "Unknown"}));
        assert_eq!(
            (&event["disposition_id"], &event["status_id"]),
            (&1.into(), &2.into()),
            "another limit refused"
        );
    }

    #[test]
    fn a_hash_is_no_address() {
        let event = event(&entry(), &attempt(), 0, ClientsShown::Hash);
        assert_eq!(event["src_endpoint"].get("ip"), None);
        assert_eq!(event["src_endpoint"]["uid"].as_str().unwrap().len(), 16);
    }
}
