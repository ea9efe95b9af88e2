//! What it costs to observe a request: metrics, logs, decisions and counts of clients, together and alone.
//!
//! The lines go to `/dev/null`, so the writer's thread takes part but no disk does. Measured is the processor time of
//! the thread that emits: on a shared machine the wall clock says little.

#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderValue, Method, StatusCode, Version};
use prometheus_client::metrics::counter::Counter;
use rustix::time::{ClockId, clock_gettime};
use tollgate::bucket::{Continuous, Spec};
use tollgate::event::{
    AccessLogEntry, AttemptRecord, Event, EventListener, Events, LimitDecision, LimitRecord, SettledAs,
};
use tollgate::observe::access_log::AccessLines;
use tollgate::observe::client_format::ClientFormatter;
use tollgate::observe::decision_log::{DecisionLines, TollgateForm};
use tollgate::observe::heavy_hitters::HeavyHitters;
use tollgate::observe::line_log::LineLog;
use tollgate::observe::metrics::Metrics;
use tollgate::observe::refusal_summary::RefusalSummary;
use tollgate::observe::settings::{AccessLogStyle, ClientsShown, LogTarget};
use tollgate::policy::attempt::Client;
use tollgate::policy::key::PrefixLengths;
use tollgate::policy::outcome::Outcome;
use tollgate::policy::{AttemptFacts, Limit, Policy, Route};
use tollgate::time::{Clock, Span, Time};

fn access_log_entry() -> AccessLogEntry {
    let agent =
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36";
    AccessLogEntry {
        is_request: true,
        signs: Default::default(),
        client: Client::from_ip([203, 0, 113, 9].into()),
        method: Method::POST,
        target: "/wp-login.php?redirect_to=%2Fwp-admin%2F".parse().unwrap(),
        version: Version::HTTP_11,
        host: Some(HeaderValue::from_static("blog.example.org")),
        referer: Some(HeaderValue::from_static("https://blog.example.org/wp-login.php")),
        user_agent: Some(HeaderValue::from_static(agent)),
        request_id: Some(HeaderValue::from_static("0192f0c1a6b07c3e8d5f001122334455")),
        attempt: None,
        span: None,
        status: StatusCode::TOO_MANY_REQUESTS,
        bytes: 512,
        complete: true,
        at: Time::from_nanos(1_795_216_912_043_000_000),
        duration: Span::from_nanos(1_234_567),
        added: Span::from_nanos(4_250),
    }
}

fn policy() -> Policy {
    let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
    let patterns = vec!["POST /wp-login.php".parse().unwrap()];
    let route = Route { limits: vec![0, 1], ..Route::new("blog", patterns) };
    Policy::new(vec![route], vec![Limit::new("address", spec), Limit::new("subnet", spec)])
}

fn metrics() -> Arc<dyn EventListener> {
    let metrics = Metrics::new();
    metrics.on_event(&Event::Rules { generation: 0, policy: &policy() });
    Arc::new(metrics)
}

fn access_log(style: AccessLogStyle, shown: ClientsShown) -> Arc<dyn EventListener> {
    let clients = ClientFormatter::new(shown, PrefixLengths::default());
    let target = LogTarget::File("/dev/null".into());
    let lines = AccessLines::new(style, clients);
    Arc::new(LineLog::open("access log", target, lines, Counter::default(), Clock::system()).unwrap())
}

/// Emits requests, each a millisecond later than the one before.
fn measure(criterion: &mut Criterion, name: &str, listeners: Vec<Arc<dyn EventListener>>) {
    let events = Events::from_iter(listeners);
    let mut entry = access_log_entry();
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            busy(times, || {
                entry.at = entry.at.after(Span::from_millis(1));
                events.emit(black_box(&Event::RequestCompleted(&entry)));
            })
        });
    });
}

fn whole_attempt(criterion: &mut Criterion) {
    let events = Events::from_iter([metrics(), access_log(AccessLogStyle::Combined, ClientsShown::Full)]);
    let entry = access_log_entry();
    criterion.bench_function("a whole attempt: 2 decisions, settled, answered", |bencher| {
        bencher.iter_custom(|times| busy(times, || attempt(&events, &entry)));
    });
}

fn attempt(events: &Events, entry: &AccessLogEntry) {
    for limit in 0..2 {
        let decision = LimitDecision::Admit;
        events.emit(black_box(&Event::Decided { generation: 0, route: 0, limit, decision }));
    }
    events.emit(black_box(&Event::Settled(SettledAs { generation: 0, route: 0, outcome: Outcome::Neutral })));
    events.emit(black_box(&Event::RequestCompleted(entry)));
}

/// Processor time of this thread.
fn busy(times: u64, mut act: impl FnMut()) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let start = now();
    (0..times).for_each(|_| act());
    now() - start
}

fn answers(criterion: &mut Criterion) {
    measure(criterion, "answered: metrics", vec![metrics()]);
    measure(criterion, "answered: combined", vec![access_log(AccessLogStyle::Combined, ClientsShown::Full)]);
    measure(
        criterion,
        "answered: combined, hash",
        vec![access_log(AccessLogStyle::Combined, ClientsShown::Hash)],
    );
    measure(criterion, "answered: json", vec![access_log(AccessLogStyle::Json, ClientsShown::Full)]);
    let both = vec![metrics(), access_log(AccessLogStyle::Combined, ClientsShown::Full)];
    measure(criterion, "answered: metrics and combined", both);
}

/// An attempt that the first of two limits refuses.
fn refused_entry() -> AccessLogEntry {
    let record = |limit, decision| LimitRecord { limit, decision, left: 0, wait: Some(Span::from_secs(21)) };
    let attempt = AttemptRecord {
        policy: Arc::new(policy()),
        route: 0,
        limits: [record(0, LimitDecision::Refuse), record(1, LimitDecision::Admit)].into_iter().collect(),
        facts: AttemptFacts::default(),
        decided: Time::default(),
        settled: None,
    };
    AccessLogEntry { attempt: Some(Box::new(attempt)), ..access_log_entry() }
}

fn refusals(criterion: &mut Criterion) {
    let clients = || ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
    let target = LogTarget::File("/dev/null".into());
    let lines = DecisionLines::new(&target, clients(), TollgateForm);
    let log = LineLog::open("decision log", target, lines, Counter::default(), Clock::system()).unwrap();
    let listeners: [(&str, Arc<dyn EventListener>); 2] = [
        ("refused: summary", Arc::new(RefusalSummary::new(clients()))),
        ("refused: every decision, 2 lines", Arc::new(log)),
    ];
    for (name, listener) in listeners {
        // Of 1,000 clients 60 have lines of their own; the others are counted together.
        for (who, clients) in [("one client", 1), ("1,000 clients", 1_000)] {
            let mut entries: Vec<_> = (0..clients).map(|_| refused_entry()).collect();
            for (number, entry) in entries.iter_mut().enumerate() {
                entry.client = Client::from_ip(
                    [10, 0, u8::try_from(number / 250).unwrap(), u8::try_from(number % 250).unwrap()].into(),
                );
            }
            let mut next = (0..entries.len()).cycle();
            criterion.bench_function(&format!("{name}, {who}"), |bencher| {
                bencher.iter_custom(|times| {
                    busy(times, || {
                        let entry = &entries[next.next().unwrap_or_default()];
                        listener.on_event(black_box(&Event::RequestCompleted(entry)));
                    })
                });
            });
        }
    }
}

/// A refusal by one limit, from one of so many clients in turn.
fn counted_refusals(criterion: &mut Criterion) {
    for clients in [1, 100_000] {
        let (hitters, policy) = (HeavyHitters::default(), policy());
        hitters.on_event(&Event::Rules { generation: 0, policy: &policy });
        let mut entry = access_log_entry();
        let record = LimitRecord { limit: 0, decision: LimitDecision::Refuse, left: 0, wait: None };
        let (policy, limits) = (Arc::new(policy), std::iter::once(record).collect());
        let (route, facts) = (0, AttemptFacts::default());
        let (decided, settled) = (Time::default(), None);
        let attempt = AttemptRecord { policy, route, limits, facts, decided, settled };
        entry.attempt = Some(Box::new(attempt));
        let mut number = 0_u32;
        criterion.bench_function(&format!("refused: clients counted, {clients}"), |bencher| {
            bencher.iter_custom(|times| {
                busy(times, || {
                    number = (number + 1) % clients;
                    entry.client = Client::from_ip(Ipv4Addr::from_bits(0x0a00_0000 + number).into());
                    hitters.on_event(black_box(&Event::RequestCompleted(&entry)));
                })
            });
        });
    }
}

criterion_group!(benches, answers, whole_attempt, refusals, counted_refusals);
criterion_main!(benches);
