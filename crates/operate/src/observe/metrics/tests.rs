//! The text that a scraper sees.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use super::*;
use crate::event::{AccessLogEntry, ConnectionEvent, Events, LimitDecision, SettledAs};
use crate::observe::samples::{AT, entry, policy};
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::outcome::Outcome;
use crate::policy::{LimitKind, Policy};
use crate::time::{Clock, Span};

fn value(metrics: &Metrics, series: &str) -> Option<String> {
    let text = metrics.render();
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).map(str::to_owned)
}

#[track_caller]
fn assert_value(metrics: &Metrics, series: &str, expected: &str) {
    assert_eq!(value(metrics, series).as_deref(), Some(expected), "{series} in\n{}", metrics.render());
}

fn decided(generation: u64, route: usize, limit: usize, decision: LimitDecision) -> Event<'static> {
    Event::Decided { generation, route, limit, decision }
}

#[test]
fn decisions_and_attempts_are_counted_by_name() {
    let metrics = Metrics::new();
    metrics.on_event(&Event::Rules {
        generation: 0,
        policy: &policy(&["login", "blog"], &["address", "subnet"]),
    });
    metrics.on_event(&decided(0, 1, 0, LimitDecision::Refuse));
    metrics.on_event(&decided(0, 1, 1, LimitDecision::Admit));
    metrics.on_event(&decided(0, 1, 1, LimitDecision::Admit));
    metrics.on_event(&Event::Settled(SettledAs { generation: 0, route: 0, outcome: Outcome::Error }));
    let series = |name| format!("tollgate_decisions_total{{route=\"blog\",limit={name}}}");
    assert_value(&metrics, &series("\"address\",decision=\"refuse\""), "1");
    assert_value(&metrics, &series("\"subnet\",decision=\"admit\""), "2");
    assert_value(&metrics, &series("\"subnet\",decision=\"exempt\""), "0");
    assert_value(&metrics, "tollgate_attempts_total{route=\"login\",outcome=\"error\"}", "1");
    assert_value(&metrics, "tollgate_attempts_total{route=\"login\",outcome=\"neutral\"}", "0");
}

#[test]
fn an_attempt_of_earlier_rules_is_counted_under_its_own_names() {
    let metrics = Metrics::new();
    metrics.on_event(&Event::Rules { generation: 0, policy: &policy(&["old", "login"], &["address"]) });
    metrics.on_event(&Event::Rules { generation: 1, policy: &policy(&["login"], &["address"]) });
    metrics.on_event(&decided(0, 1, 0, LimitDecision::Admit));
    metrics.on_event(&decided(1, 0, 0, LimitDecision::Admit));
    metrics.on_event(&decided(7, 0, 0, LimitDecision::Admit));
    let series = "tollgate_decisions_total{route=\"login\",limit=\"address\",decision=\"admit\"}";
    assert_value(&metrics, series, "2");
}

#[test]
fn a_limit_of_another_route_is_counted_and_unknown_positions_are_not() {
    let metrics = Metrics::new();
    let mut rules = policy(&["login"], &["address", "subnet"]);
    rules.routes[0].limits = vec![0];
    metrics.on_event(&Event::Rules { generation: 0, policy: &rules });
    let series = "tollgate_decisions_total{route=\"login\",limit=\"subnet\",decision=\"refuse\"}";
    assert_eq!(value(&metrics, series), None);
    metrics.on_event(&decided(0, 0, 1, LimitDecision::Refuse));
    metrics.on_event(&decided(0, 9, 9, LimitDecision::Refuse));
    metrics.on_event(&Event::Settled(SettledAs { generation: 0, route: 9, outcome: Outcome::Neutral }));
    assert_value(&metrics, series, "1");
}

#[test]
fn answers_are_counted_by_status_and_time() {
    let metrics = Metrics::new();
    metrics.on_event(&Event::RequestCompleted(&entry()));
    metrics.on_event(&Event::RequestCompleted(&AccessLogEntry {
        status: StatusCode::from_u16(799).unwrap(),
        duration: Span::from_secs(61),
        ..entry()
    }));
    assert_value(&metrics, "tollgate_requests_total{code=\"429\"}", "1");
    assert_value(&metrics, "tollgate_requests_total{code=\"other\"}", "1");
    assert_eq!(value(&metrics, "tollgate_requests_total{code=\"200\"}"), None);
    assert_value(&metrics, "tollgate_request_duration_seconds_bucket{le=\"0.001\"}", "0");
    assert_value(&metrics, "tollgate_request_duration_seconds_bucket{le=\"0.0025\"}", "1");
    assert_value(&metrics, "tollgate_request_duration_seconds_bucket{le=\"60.0\"}", "1");
    assert_value(&metrics, "tollgate_request_duration_seconds_bucket{le=\"+Inf\"}", "2");
    assert_value(&metrics, "tollgate_request_duration_seconds_count", "2");
    assert_value(&metrics, "tollgate_added_seconds_bucket{le=\"0.000005\"}", "2");
    assert_value(&metrics, "tollgate_added_seconds_sum", "0.0000085");
}

#[test]
fn connections_upstreams_reloads_and_panics_are_counted() {
    let metrics = Metrics::new();
    metrics.expect_upstream("http://127.0.0.1:8081");
    assert_value(&metrics, "tollgate_upstream_up{upstream=\"http://127.0.0.1:8081\"}", "1");
    let upstream = "http://127.0.0.1:8081";
    for event in [
        Event::Connection(ConnectionEvent::Opened),
        Event::Connection(ConnectionEvent::Opened),
        Event::Connection(ConnectionEvent::Closed),
        Event::Connection(ConnectionEvent::Rejected { peer: None, reason: RejectReason::ClientMax }),
        Event::UpstreamFailed { upstream, reason: Failure::Timeout },
        Event::UpstreamUp { upstream, up: false },
        Event::UpstreamChecked { upstream, passed: false },
        Event::Reloaded { taken: true, changes: "nothing" },
        Event::Panicked,
    ] {
        metrics.on_event(&event);
    }
    metrics.lines_dropped().inc_by(3);
    assert_value(&metrics, "tollgate_connections", "1");
    assert_value(&metrics, "tollgate_connections_refused_total{reason=\"client_max\"}", "1");
    assert_value(&metrics, "tollgate_connections_refused_total{reason=\"client_rate\"}", "0");
    let errors = format!("tollgate_upstream_errors_total{{upstream=\"{upstream}\",reason=\"timeout\"}}");
    assert_value(&metrics, &errors, "1");
    assert_value(&metrics, "tollgate_upstream_up{upstream=\"http://127.0.0.1:8081\"}", "0");
    assert_value(&metrics, "tollgate_config_reloads_total{result=\"ok\"}", "1");
    assert_value(&metrics, "tollgate_config_reloads_total{result=\"refused\"}", "0");
    assert_value(&metrics, "tollgate_panics_total", "1");
    assert_value(&metrics, "tollgate_access_log_dropped_total", "3");
}

#[test]
fn buckets_are_read_from_the_engine_when_metrics_are_read() {
    let metrics = Arc::new(Metrics::new());
    let events = Events::from_iter([Arc::clone(&metrics) as Arc<dyn EventListener>]);
    let clock = Clock::manual(AT);
    let engine = Arc::new(Engine::new(policy(&["login"], &["address"]), 100, clock, events).unwrap());
    assert_eq!(value(&metrics, "tollgate_buckets{limit=\"address\"}"), None);
    metrics.watch(&engine);
    assert_value(&metrics, "tollgate_buckets{limit=\"address\"}", "0");
    let attempt = Attempt {
        method: &Method::POST,
        path: "/login",
        query: None,
        host: "",
        client: Client::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        headers: &HeaderMap::new(),
        body: AttemptBody::Unread,
        descriptor: None,
        tls: None,
    };
    drop(engine.decide_in_memory(&engine.rules(), &attempt, engine.clock().now()).unwrap());
    assert_value(&metrics, "tollgate_buckets{limit=\"address\"}", "1");
    assert_value(&metrics, "tollgate_buckets_forgotten_total{limit=\"address\"}", "0");
    let series = "tollgate_decisions_total{route=\"login\",limit=\"address\",decision=\"admit\"}";
    assert_value(&metrics, series, "1");
    assert_eq!(Arc::strong_count(&engine), 1, "the metrics do not keep an engine alive");
}

/// A cap on the limit of the same name, and a route that has both.
fn capped() -> Policy {
    let mut rules = policy(&["login"], &["address", "address"]);
    rules.limits[1].kind = LimitKind::Cap;
    rules
}

#[test]
fn a_limit_with_a_cap_says_once_what_it_admits_and_counts_whatever_refuses() {
    let metrics = Metrics::new();
    metrics.on_event(&Event::Rules { generation: 0, policy: &capped() });
    for decision in
        [LimitDecision::Admit, LimitDecision::Exempt, LimitDecision::Refuse, LimitDecision::Observe]
    {
        metrics.on_event(&decided(0, 0, 0, decision));
        metrics.on_event(&decided(0, 0, 1, decision));
    }
    for (decision, count) in [("admit", "1"), ("exempt", "1"), ("refuse", "2"), ("observe", "2")] {
        let labels = format!("{{route=\"login\",limit=\"address\",decision=\"{decision}\"}}");
        assert_value(&metrics, &format!("tollgate_decisions_total{labels}"), count);
    }
}

#[test]
fn buckets_of_one_name_are_one_series() {
    let metrics = Metrics::new();
    let engine = Engine::new(capped(), 100, Clock::manual(AT), Events::default()).unwrap();
    let engine = Arc::new(engine);
    metrics.watch(&engine);
    let (client, headers) = (Client::from_ip(IpAddr::V4(Ipv4Addr::LOCALHOST)), HeaderMap::new());
    let (path, body) = ("/login", AttemptBody::Unread);
    let attempt = Attempt {
        method: &Method::POST,
        path,
        query: None,
        host: "a",
        client,
        headers: &headers,
        body,
        descriptor: None,
        tls: None,
    };
    drop(engine.decide_in_memory(&engine.rules(), &attempt, engine.clock().now()).unwrap());
    let text = metrics.render();
    let series = text.lines().filter(|line| line.starts_with("tollgate_buckets")).collect::<Vec<_>>();
    let of = |name: &str, value: &str| format!("{name}{{limit=\"address\"}} {value}");
    assert_eq!(series, [of("tollgate_buckets", "2"), of("tollgate_buckets_forgotten_total", "0")]);
}

#[test]
fn the_process_shows_its_memory_time_and_descriptors() {
    let metrics = Metrics::new();
    for series in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        let shown: f64 = value(&metrics, series).unwrap().parse().unwrap();
        assert!(shown >= 0.0, "{series} {shown}");
    }
    let started: f64 = value(&metrics, "process_start_time_seconds").unwrap().parse().unwrap();
    assert!(started > 1.5e9, "{started}");
    assert_value(&metrics, &format!("tollgate_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), "1");
}

#[test]
fn every_family_is_described_once_under_the_name_of_its_samples() {
    let metrics = Metrics::new();
    metrics.on_event(&Event::Rules { generation: 0, policy: &policy(&["login"], &["address"]) });
    metrics.on_event(&Event::RequestCompleted(&entry()));
    let text = metrics.render();
    let described: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut names: Vec<_> = described.iter().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let name = sample.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
            let family = name.strip_suffix(suffix)?;
            described.contains(&&*format!("{family} histogram")).then_some(family)
        });
        assert!(names.contains(&family.unwrap_or(name)), "{sample}");
        assert_eq!(name.ends_with("_total"), described.contains(&&*format!("{name} counter")), "{sample}");
    }
}

#[test]
fn both_formats_have_the_same_samples() {
    let metrics = Metrics::new();
    metrics.on_event(&Event::Rules { generation: 0, policy: &policy(&["login"], &["address"]) });
    metrics.on_event(&Event::RequestCompleted(&entry()));
    // The process's own time and memory change between two scrapes.
    let samples = |text: String| -> Vec<String> {
        let samples = text.lines().filter(|line| !line.starts_with(['#', 'p']));
        samples.map(str::to_owned).collect()
    };
    let open = metrics.render_open();
    assert!(open.ends_with("\n# EOF\n") && open.contains("\n# TYPE tollgate_decisions counter\n"), "{open}");
    assert_eq!(samples(open), samples(metrics.render()));
}
