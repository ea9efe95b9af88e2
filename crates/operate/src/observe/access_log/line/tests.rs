//! The exact lines.

use http::StatusCode;
use proptest::prelude::*;

use super::*;
use crate::event::{AttemptEnd, LimitDecision, LimitRecord};
use crate::observe::samples::{AT, attempt, entry, policy};
use crate::observe::settings::ClientsShown;
use crate::policy::attempt::Client;
use crate::policy::key::PrefixLengths;
use crate::time::Span;

fn written(
    write: fn(&mut Vec<u8>, &str, &ClientFormatter, &AccessLogEntry),
    second: &str,
    entry: &AccessLogEntry,
) -> String {
    let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
    let mut line = Vec::new();
    write(&mut line, second, &clients, entry);
    String::from_utf8(line).unwrap()
}

fn as_combined(entry: &AccessLogEntry) -> String {
    written(combined, "20/Nov/2026:23:21:52 +0000", entry)
}

fn as_json(entry: &AccessLogEntry) -> String {
    written(json, "2026-11-20T23:21:52", entry)
}

/// The entry of a request with no optional field.
fn bare() -> AccessLogEntry {
    AccessLogEntry {
        client: Client::UnixSocket,
        version: Version::HTTP_10,
        host: None,
        referer: None,
        user_agent: None,
        request_id: None,
        attempt: None,
        status: StatusCode::OK,
        bytes: 0,
        complete: false,
        at: AT.after(Span::from_millis(900)),
        duration: Span::ZERO,
        added: Span::from_nanos(999),
        ..entry()
    }
}

#[test]
fn the_combined_format_is_the_one_that_every_tool_reads() {
    assert_eq!(
        as_combined(&entry()),
        "203.0.113.9 - - [20/Nov/2026:23:21:52 +0000] \"POST /login?next=%2F HTTP/1.1\" 429 512 \
         \"https://intranet.example.org/login\" \"Mozilla/5.0 (X11; Linux x86_64)\" refused_by=\"address\"\n"
    );
    assert_eq!(
        as_combined(&bare()),
        "- - - [20/Nov/2026:23:21:52 +0000] \"POST /login?next=%2F HTTP/1.0\" 200 0 \"-\" \"-\"\n"
    );
}

#[test]
fn the_json_format_says_everything_in_one_line() {
    assert_eq!(
        as_json(&entry()),
        "{\"time\":\"2026-11-20T23:21:52.043000000Z\",\"client\":\"203.0.113.9\",\"method\":\"POST\",\
         \"target\":\"/login?next=%2F\",\"protocol\":\"HTTP/1.1\",\"host\":\"intranet.example.org\",\
         \"status\":429,\"bytes\":512,\"duration_ms\":1.234,\"added_us\":4.250,\"route\":\"login\",\
         \"refused_by\":\"address\",\"limit\":\"address\",\"wait\":21.500,\"left\":0,\"outcome\":null,\
         \"would_refuse\":null,\"request_id\":\"0192f0c1\",\
         \"referer\":\"https://intranet.example.org/login\",\
         \"user_agent\":\"Mozilla/5.0 (X11; Linux x86_64)\",\"decided_us\":0.000,\
         \"settled_us\":null,\"complete\":true}\n"
    );
    assert_eq!(
        as_json(&bare()),
        "{\"time\":\"2026-11-20T23:21:52.943000000Z\",\"client\":\"-\",\"method\":\"POST\",\
         \"target\":\"/login?next=%2F\",\"protocol\":\"HTTP/1.0\",\"host\":null,\"status\":200,\"bytes\":0,\
         \"duration_ms\":0.000,\"added_us\":0.999,\"route\":null,\"refused_by\":null,\"limit\":null,\
         \"wait\":null,\"left\":null,\"outcome\":null,\"would_refuse\":null,\"request_id\":null,\
         \"referer\":null,\"user_agent\":null,\"decided_us\":null,\"settled_us\":null,\"complete\":false}\n"
    );
}

#[test]
fn an_admitted_attempt_says_what_is_left_what_came_of_it_and_what_would_have_refused() {
    let mut admitted = attempt();
    admitted.limits[0] = LimitRecord { decision: LimitDecision::Observe, ..admitted.limits[0] };
    admitted.limits[1].left = 4;
    admitted.settled = Some(AttemptEnd::dropped(AT));
    let entry = AccessLogEntry { attempt: Some(Box::new(admitted)), ..entry() };
    let object: serde_json::Value = serde_json::from_str(&as_json(&entry)).unwrap();
    assert_eq!((&object["limit"], &object["wait"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!((&object["outcome"], &object["would_refuse"]), (&"failure".into(), &"address".into()));
    assert_eq!(object["left"], 0);
    assert!(as_combined(&entry).ends_with("x86_64)\" would_refuse=\"address\"\n"));
}

#[test]
fn candidates_and_exemptions_do_not_count() {
    let mut candidate = attempt();
    let mut rules = policy(&["login"], &["address", "account"]);
    rules.limits[0].candidate_of = Some("account".into());
    candidate.policy = rules.into();
    candidate.limits[0] = LimitRecord { decision: LimitDecision::Observe, ..candidate.limits[0] };
    let of = |attempt| AccessLogEntry { attempt: Some(Box::new(attempt)), ..entry() };
    let object: serde_json::Value = serde_json::from_str(&as_json(&of(candidate.clone()))).unwrap();
    assert_eq!((&object["would_refuse"], &object["left"]), (&serde_json::Value::Null, &4.into()));
    candidate.limits[1].decision = LimitDecision::Exempt;
    let object: serde_json::Value = serde_json::from_str(&as_json(&of(candidate))).unwrap();
    assert_eq!(object["left"], serde_json::Value::Null);
}

#[test]
fn other_forms_of_a_target_are_written_as_sent() {
    for target in ["*", "http://example.org/a?b", "example.org:443"] {
        let entry = AccessLogEntry { target: target.parse().unwrap(), ..entry() };
        assert!(as_combined(&entry).contains(&format!("\"POST {target} HTTP/1.1\"")), "{target}");
    }
}

proptest! {
    #[test]
    fn whatever_is_sent_is_one_line_of_printable_ascii(
        path in proptest::collection::vec(any::<u8>(), 0..60),
        sent in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let target = [b"/", path.as_slice()].concat();
        let mut entry = entry();
        if let Ok(target) = Uri::try_from(target) {
            entry.target = target;
        }
        let header = HeaderValue::from_bytes(&sent).ok();
        entry.referer = header.clone();
        entry.host = header.clone();
        entry.request_id = header.clone();
        entry.user_agent = header;
        for line in [as_combined(&entry), as_json(&entry)] {
            prop_assert!(line.ends_with('\n'));
            prop_assert!(line.trim_end_matches('\n').bytes().all(|b| (0x20..0x7f).contains(&b)), "{:?}", line);
            prop_assert_eq!(line.bytes().filter(|&b| b == b'\n').count(), 1);
        }
        prop_assert_eq!(as_combined(&entry).matches('"').count(), 8);
        let parsed: serde_json::Value = serde_json::from_str(&as_json(&entry)).unwrap();
        prop_assert_eq!(parsed.as_object().unwrap().len(), 23);
    }
}
