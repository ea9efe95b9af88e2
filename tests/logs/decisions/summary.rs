//! The summary of refusals under a flood, and in a running gate.

use std::hint::black_box;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use http::{Method, StatusCode, Version};
use serde_json::Value;
use smallvec::smallvec;
use tollgate::bucket::{Continuous, Spec};
use tollgate::event::{AccessLogEntry, AttemptRecord, Event, EventListener, LimitDecision, LimitRecord};
use tollgate::observe::client_format::ClientFormatter;
use tollgate::observe::refusal_summary::RefusalSummary;
use tollgate::observe::settings::ClientsShown;
use tollgate::policy::attempt::Client;
use tollgate::policy::key::PrefixLengths;
use tollgate::policy::{AttemptFacts, Limit, Policy, Route};
use tollgate::time::{Span, Time};

use crate::decisions::end;
use support::decisions::{FILE, attempt};
use support::{Gate, Upstream, in_own_process};

const CLIENTS: u32 = 100_000;
const START: Time = Time::from_nanos(1_795_216_912_000_000_000);

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn refusal() -> AccessLogEntry {
    let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
    let route = Route { limits: vec![0], ..Route::new("login", vec!["POST /login".parse().unwrap()]) };
    let record =
        LimitRecord { limit: 0, decision: LimitDecision::Refuse, left: 0, wait: Some(Span::from_secs(21)) };
    let attempt = AttemptRecord {
        policy: Arc::new(Policy::new(vec![route], vec![Limit::new("address", spec)])),
        route: 0,
        limits: smallvec![record],
        facts: AttemptFacts::default(),
        decided: Time::default(),
        settled: None,
    };
    AccessLogEntry {
        is_request: true,
        signs: Default::default(),
        client: Client::UnixSocket,
        method: Method::POST,
        target: "/login".parse().unwrap(),
        version: Version::HTTP_11,
        host: None,
        referer: None,
        user_agent: None,
        request_id: None,
        attempt: Some(Box::new(attempt)),
        span: None,
        status: StatusCode::TOO_MANY_REQUESTS,
        bytes: 0,
        complete: true,
        at: START,
        duration: Span::ZERO,
        added: Span::ZERO,
    }
}

/// Resident memory in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One refusal of each client, all within a second.
fn wave(summary: &RefusalSummary, entry: &mut AccessLogEntry, second: u64) {
    let start = START.after(Span::from_secs(second));
    for client in 0..CLIENTS {
        entry.client = Client::from_ip(Ipv4Addr::from(0x0B00_0000 + client).into());
        entry.at = start.after(Span::from_nanos(u64::from(client) * 9_000));
        summary.on_event(black_box(&Event::RequestCompleted(entry)));
    }
}

#[test]
fn a_million_refusals_of_a_hundred_thousand_clients_are_a_hundred_and_thirty_nine_lines() {
    in_own_process(|| {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish();
        let summary = RefusalSummary::new(ClientFormatter::new(ClientsShown::Full, PrefixLengths::default()));
        let mut entry = refusal();
        tracing::subscriber::with_default(subscriber, || {
            wave(&summary, &mut entry, 0);
            let before = memory();
            for second in 1..10 {
                wave(&summary, &mut entry, second);
                summary.sweep(entry.at);
            }
            assert!(memory() < before + 512, "{before} KiB became {}", memory());
            summary.sweep(START.after(Span::from_secs(120)));
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let with = |message: &str| lines.iter().filter(|line| line["message"] == message).count();
        // Sixty at once and one with each of nine seconds, each with a line at its end, and one line for all others.
        assert_eq!((with("refuses a client"), with("refused, now quiet"), lines.len()), (69, 69, 139));
        let counted = lines.iter().filter_map(|line| line["refusals"].as_u64()).sum::<u64>();
        assert_eq!(counted, 1_000_000);
        let others = lines.last().unwrap()["message"].as_str().unwrap();
        let clients: u64 = others.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!(others.starts_with("and about") && (98_000..=102_000).contains(&clients), "{others}");
    });
}

#[test]
fn a_gate_tells_of_refusals_out_of_the_box() {
    let application = Upstream::start();
    let mut gate = Gate::start(&application.file(FILE));
    let mut client = gate.connect();
    for number in 0..50 {
        client.send(attempt("198.51.100.7", number, "alice", "wrong"));
        client.answer();
    }
    drop(client);
    let messages = end(&mut gate);
    let lines: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |message: &str| lines.iter().filter(|line| line["message"] == message).collect::<Vec<_>>();
    let (first, last) = (of("refuses a client"), of("refused, now quiet"));
    assert_eq!((first.len(), last.len()), (1, 1), "{messages}");
    assert_eq!((&first[0]["client"], &first[0]["limit"]), (&"198.51.100.7".into(), &"address".into()));
    assert_eq!(last[0]["refusals"], 45);
    assert!(!messages.contains("alice"), "{messages}");
}
