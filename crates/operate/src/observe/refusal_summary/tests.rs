//! The lines as a reader of the messages sees them.

use std::net::Ipv4Addr;

use smallvec::smallvec;

use super::*;
use crate::observe::messages::tests::written;
use crate::observe::samples::{AT, attempt, entry, policy};
use crate::observe::settings::{ClientsShown, LogLevel};
use crate::policy::key::{KeyPart, PrefixLengths};

fn summary() -> RefusalSummary {
    RefusalSummary::new(ClientFormatter::new(ClientsShown::Full, PrefixLengths::default()))
}

fn after(seconds: u64) -> Time {
    AT.after(Span::from_secs(seconds))
}

fn refusal(client: u32, at: Time, wait: Option<Span>) -> AccessLogEntry {
    let client = Client::from_ip(Ipv4Addr::from(0xCB00_7100 + client).into());
    let record = LimitRecord { wait, ..attempt().limits[0] };
    let attempt = AttemptRecord { limits: smallvec![record], ..attempt() };
    AccessLogEntry { client, at, attempt: Some(Box::new(attempt)), ..entry() }
}

fn refuse(summary: &RefusalSummary, client: u32, at: Time) {
    summary.on_event(&Event::RequestCompleted(&refusal(client, at, Some(Span::from_secs(30)))));
}

fn objects(act: impl FnOnce()) -> Vec<serde_json::Value> {
    let lines = written(LogLevel::Info, true, act);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_flood_from_one_client_is_a_line_at_its_beginning_and_one_at_its_end() {
    let summary = summary();
    let lines = objects(|| {
        (0..1_000).for_each(|second| refuse(&summary, 9, after(second / 100)));
        summary.on_event(&Event::RequestCompleted(&refusal(9, after(10), Some(Span::from_millis(90_100)))));
        summary.sweep(after(69));
        summary.sweep(after(70));
        summary.sweep(after(200));
    });
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let (first, last) = (&lines[0], &lines[1]);
    assert_eq!((&first["message"], &first["limit"]), (&"refuses a client".into(), &"address".into()));
    assert_eq!((&first["client"], &last["client"]), (&"203.0.113.9".into(), &"203.0.113.9".into()));
    assert_eq!((&last["message"], &last["refusals"]), (&"refused, now quiet".into(), &1_001.into()));
    assert_eq!(last["first"], "2026-11-20T23:21:52.043Z");
    assert_eq!(last["last"], "2026-11-20T23:22:02.043Z");
    assert_eq!(last["longest_wait"], "91s");
}

#[test]
fn an_account_is_named_by_its_hash_and_an_observed_refusal_as_one_that_would_be() {
    let summary = summary();
    let mut rules = policy(&["login"], &["account"]);
    rules.limits[0].key = vec![KeyPart::User];
    let record = LimitRecord { decision: LimitDecision::Observe, wait: None, ..attempt().limits[0] };
    let attempt = AttemptRecord { policy: Arc::new(rules), limits: smallvec![record], ..attempt() };
    let observed = AccessLogEntry { attempt: Some(Box::new(attempt)), ..entry() };
    let lines = objects(|| {
        summary.on_event(&Event::RequestCompleted(&observed));
        summary.finish();
    });
    assert_eq!(lines[0]["message"], "would refuse an account");
    assert_eq!(
        (&lines[0]["account"], &lines[0]["client"]),
        (&"#123456789abc".into(), &serde_json::Value::Null)
    );
    assert_eq!(lines[1]["message"], "would have refused, now quiet");
    assert_eq!(lines[1]["longest_wait"], "until an operator or a success ends it");
}

#[test]
fn candidates_admitted_and_exempt_attempts_are_left_out() {
    let summary = summary();
    let mut rules = policy(&["login"], &["address", "candidate"]);
    rules.limits[1].candidate_of = Some("address".into());
    let of = |limit, decision| LimitRecord { limit, decision, ..attempt().limits[0] };
    let limits =
        smallvec![of(0, LimitDecision::Admit), of(1, LimitDecision::Observe), of(0, LimitDecision::Exempt)];
    let attempt = AttemptRecord { policy: Arc::new(rules), limits, ..attempt() };
    let entry = AccessLogEntry { attempt: Some(Box::new(attempt)), ..entry() };
    let lines = objects(|| {
        summary.on_event(&Event::RequestCompleted(&entry));
        summary.finish();
    });
    assert_eq!(lines, [serde_json::Value::Null; 0]);
}

#[test]
fn clients_of_one_prefix_are_one_line_for_a_limit_by_prefix() {
    let summary = summary();
    let mut rules = policy(&["login"], &["subnet"]);
    rules.limits[0].prefixes = PrefixLengths { ipv4: 24, ipv6: 48 };
    let rules = Arc::new(rules);
    let lines = objects(|| {
        for client in 1..=50 {
            let mut neighbour = refusal(client, AT, Some(Span::ZERO));
            neighbour.attempt.as_mut().unwrap().policy = Arc::clone(&rules);
            summary.on_event(&Event::RequestCompleted(&neighbour));
        }
        summary.finish();
    });
    assert_eq!((lines.len(), &lines[1]["refusals"]), (2, &50.into()));
}

#[test]
fn many_clients_at_once_are_told_together() {
    let summary = summary();
    let lines = objects(|| {
        for round in 0..10 {
            (0..1_000).for_each(|client| refuse(&summary, client, after(round)));
        }
        summary.sweep(after(59));
        summary.sweep(after(60));
        summary.sweep(after(75));
    });
    let with = |message: &str| lines.iter().filter(|line| line["message"] == message).count();
    // Sixty at once, and one more with each of the next nine seconds.
    assert_eq!((with("refuses a client"), with("refused, now quiet")), (69, 69));
    let others: Vec<_> =
        lines.iter().filter(|line| line["message"].as_str().unwrap().starts_with("and about")).collect();
    assert_eq!((others.len(), lines.len()), (1, 139));
    let own = lines.iter().filter_map(|line| line["refusals"].as_u64()).sum::<u64>();
    assert_eq!(own, 10_000, "every refusal is counted once");
}

#[test]
fn no_more_pairs_are_kept_than_there_is_room_for() {
    let summary = summary();
    let lines = objects(|| {
        for second in 0..2_000_u32 {
            // All earlier ones go on.
            refuse(&summary, second, after(second.into()));
        }
    });
    assert_eq!((lines.len(), summary.ongoing.load().len()), (MAX_ONGOING, MAX_ONGOING));
}

#[test]
fn threads_that_meet_a_new_client_at_once_tell_of_it_once() {
    let summary = summary();
    let lines = objects(|| {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (summary, dispatch) = (&summary, &dispatch);
                scope.spawn(move || {
                    tracing::dispatcher::with_default(dispatch, || {
                        (0..20).for_each(|client| refuse(summary, client, AT));
                    });
                });
            }
        });
        summary.finish();
    });
    let told = lines.iter().filter(|line| line["message"] == "refuses a client").count();
    let counted = lines.iter().filter_map(|line| line["refusals"].as_u64()).sum::<u64>();
    assert_eq!(counted, 160);
    assert!(told <= 20, "{told}");
}
