//! One decision of one limit as a JSON object: for the decision log and for viewers of a running gate.
//!
//! It holds no name, password, cookie, path or header of a client: addresses are written as `log.clients` says, accounts
//! as keyed hashes. Where the objects go is left to others.

use std::io::Write;

use super::attempt_fields::{facts, of_decision};
use super::client_format::ClientFormatter;
use super::json_fields::{fields, key, moment, number, put, text, thousandths};
use crate::event::{AccessLogEntry, AttemptRecord, LimitRecord};

/// Appends the decision as an object, without a line feed. `second` is the request's second, by RFC 3339 without its
/// zone. `wait` is in seconds, `null` if time does not help; `outcome` is `null` before the attempt is settled. `nanoseconds`
/// are those of the second of `time`: `replay` repeats decisions from them, and programs read no more than six digits.
pub(super) fn write(
    line: &mut Vec<u8>,
    second: &str,
    clients: &ClientFormatter,
    entry: &AccessLogEntry,
    attempt: &AttemptRecord,
    record: &LimitRecord,
) {
    put(line, &["{\"time\":\"", second, "."]);
    thousandths(line, entry.at.as_nanos() / 1_000_000 % 1_000);
    line.extend_from_slice(b"Z\"");
    text(line, "request_id", entry.request_id.as_ref().map(|id| id.as_bytes()));
    fields(line, &of_decision(attempt, record));
    line.extend_from_slice(b",\"client\":\"");
    clients.write(entry.client, line);
    line.push(b'"');
    key(line, "account");
    account(line, attempt.facts.account);
    fields(line, &facts(attempt, record));
    key(line, "nanoseconds");
    number(line, entry.at.as_nanos() % 1_000_000_000);
    moment(line, "decided_us", entry.at, Some(attempt.decided));
    moment(line, "settled_us", entry.at, attempt.settled_at());
    line.push(b'}');
}

/// The hash of an account as twelve digits; `null` without one.
pub(super) fn account(line: &mut Vec<u8>, account: Option<u64>) {
    match account {
        // Writing to memory cannot fail.
        Some(account) => drop(write!(line, "\"{account:012x}\"")),
        None => put(line, &["null"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::AttemptEnd;
    use crate::observe::samples::{AT, attempt, entry};
    use crate::observe::settings::ClientsShown;
    use crate::policy::key::PrefixLengths;

    fn line(attempt: &AttemptRecord, limit: usize) -> String {
        let (mut line, entry) = (Vec::new(), entry());
        let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
        write(&mut line, "2026-11-20T23:21:52", &clients, &entry, attempt, &attempt.limits[limit]);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_decision_names_its_limit_its_client_and_its_wait() {
        assert_eq!(
            line(&attempt(), 0),
            "{\"time\":\"2026-11-20T23:21:52.043Z\",\"request_id\":\"0192f0c1\",\"route\":\"login\",\
             \"limit\":\"address\",\"verdict\":\"refuse\",\"client\":\"203.0.113.9\",\
             \"account\":\"123456789abc\",\"left\":0,\"wait\":21.500,\"outcome\":null,\"device\":false,\"attack\":false,\"bait\":false,\"failures\":3,\
             \"nanoseconds\":43000000,\"decided_us\":0.000,\"settled_us\":null}"
        );
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut unknown = attempt();
        (unknown.facts.account, unknown.settled) = (None, Some(AttemptEnd::dropped(AT)));
        unknown.limits[1].wait = None;
        let parsed: serde_json::Value = serde_json::from_str(&line(&unknown, 1)).unwrap();
        assert!(parsed["account"].is_null() && parsed["wait"].is_null(), "{parsed}");
        assert_eq!((&parsed["verdict"], &parsed["outcome"]), (&"admit".into(), &"failure".into()));
    }
}
