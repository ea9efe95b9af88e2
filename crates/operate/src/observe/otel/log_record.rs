//! The log record of one decision of a limit: an event by OpenTelemetry's data model for logs.
//!
//! It has the fields of a line of the decision log, under names of the semantic conventions where they have one.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};

use super::resource::{boolean, double, number, text};
use crate::event::{AccessLogEntry, AttemptRecord, LimitDecision, LimitRecord};
use crate::observe::attempt_fields::{facts, of_decision};
use crate::observe::client_format::ClientFormatter;
use crate::observe::json_fields::FieldText;

/// The record of a decision on a request that has ended.
pub(super) fn record_of(
    entry: &AccessLogEntry,
    attempt: &AttemptRecord,
    record: &LimitRecord,
    clients: &ClientFormatter,
) -> LogRecord {
    let fields = of_decision(attempt, record).into_iter().chain(facts(attempt, record));
    let mut attributes: Vec<KeyValue> = fields.filter_map(|(name, value)| attribute(name, value)).collect();
    attributes.push(client(entry, clients));
    attributes.extend(attempt.facts.account.map(|account| text("user.hash", &format!("{account:012x}"))));
    let id = entry.request_id.as_ref().and_then(|id| id.to_str().ok());
    attributes.extend(id.map(|id| text("tollgate.request_id", id)));
    let (severity, severity_text) = match record.decision {
        LimitDecision::Refuse => (SeverityNumber::Warn, "WARN"),
        LimitDecision::Admit | LimitDecision::Observe | LimitDecision::Exempt => {
            (SeverityNumber::Info, "INFO")
        }
    };
    let (trace_id, span_id, flags) = entry.span.as_deref().map_or_else(Default::default, |span| {
        let (trace, id) = (span.trace_id.to_be_bytes(), span.span_id.to_be_bytes());
        (trace.to_vec(), id.to_vec(), u32::from(span.is_sampled))
    });
    let words = format!("{}: {}", record.decision.name(), attempt.limit_name(record));
    LogRecord {
        time_unix_nano: entry.at.as_nanos(),
        observed_time_unix_nano: entry.at.after(entry.duration).as_nanos(),
        severity_number: severity as i32,
        severity_text: severity_text.to_owned(),
        event_name: "tollgate.decision".to_owned(),
        body: text("", &words).value,
        attributes,
        trace_id,
        span_id,
        flags,
        ..LogRecord::default()
    }
}

/// One of our own fields; `None` for `null`.
fn attribute(name: &str, value: FieldText<'_>) -> Option<KeyValue> {
    let key = format!("tollgate.{name}");
    match value {
        FieldText::Word(word) => word.map(|word| text(&key, word)),
        FieldText::Count(count) => count.map(|count| number(&key, i64::from(count))),
        FieldText::Seconds(span) => span.map(|span| double(&key, span.to_std().as_secs_f64())),
        FieldText::Is(is) => Some(boolean(&key, is)),
    }
}

/// An address only where logs may hold whole ones; else what they hold instead.
fn client(entry: &AccessLogEntry, clients: &ClientFormatter) -> KeyValue {
    match clients.whole_address(entry.client) {
        Some(address) => text("client.address", &address.to_string()),
        None => text("tollgate.client", &clients.show(entry.client)),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;
    use crate::event::RequestSpan;
    use crate::observe::samples::{attempt, entry};
    use crate::observe::settings::ClientsShown;
    use crate::policy::key::PrefixLengths;

    fn record(limit: usize, shown: ClientsShown) -> LogRecord {
        let (attempt, mut entry) = (attempt(), entry());
        let span =
            RequestSpan { trace_id: 5, span_id: 7, parent_id: None, is_sampled: true, is_secure: true };
        entry.span = Some(Box::new(span));
        record_of(
            &entry,
            &attempt,
            &attempt.limits[limit],
            &ClientFormatter::new(shown, PrefixLengths::default()),
        )
    }

    fn value(record: &LogRecord, key: &str) -> Option<Value> {
        record.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
    }

    #[test]
    fn a_refusal_is_a_warning_with_the_fields_of_the_decision_log() {
        let record = record(0, ClientsShown::Full);
        let severity = (record.severity_number, &*record.severity_text, &*record.event_name);
        assert_eq!(severity, (13, "WARN", "tollgate.decision"));
        let word = |text: &str| Some(Value::StringValue(text.to_owned()));
        for (key, expected) in [
            ("tollgate.route", word("login")),
            ("tollgate.limit", word("address")),
            ("tollgate.verdict", word("refuse")),
            ("tollgate.request_id", word("0192f0c1")),
            ("tollgate.left", Some(Value::IntValue(0))),
            ("tollgate.wait", Some(Value::DoubleValue(21.5))),
            ("tollgate.device", Some(Value::BoolValue(false))),
            ("client.address", word("203.0.113.9")),
            ("user.hash", word("123456789abc")),
            ("tollgate.outcome", None),
        ] {
            assert_eq!(value(&record, key), expected, "{key}");
        }
        assert_eq!((record.trace_id.len(), record.span_id.last(), record.flags), (16, Some(&7), 1));
        assert_eq!(record.observed_time_unix_nano - record.time_unix_nano, 1_234_567);
        assert_eq!(self::record(1, ClientsShown::Full).severity_number, 9);
    }

    #[test]
    fn a_record_has_no_address_where_logs_have_none() {
        for shown in [ClientsShown::Prefix, ClientsShown::Hash] {
            let record = format!("{:?}", record(0, shown));
            assert!(!record.contains("client.address"), "{record}");
            assert!(shown == ClientsShown::Prefix || !record.contains("203.0.113"), "{record}");
        }
    }
}
