//! Spans, metrics and decisions reach a receiver that decodes them with OpenTelemetry's own classes; traces go on to the upstream.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::monitoring::python;
use support::servers::{Process, wait_for};
use support::{Gate, Upstream, application, eventually, free_port, new_directory, post_with};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const PATIENCE: Duration = Duration::from_secs(20);

/// A receiver in a process of its own; its file is removed with it.
struct Receiver {
    port: u16,
    directory: PathBuf,
    _process: Process,
}

impl Receiver {
    fn start(port: u16) -> Self {
        let directory = new_directory();
        let mut command = python::script("otlp_receiver.py");
        let process = Process::spawn(command.arg(port.to_string()).arg(directory.join("exports"))).unwrap();
        wait_for(SocketAddr::from(([127, 0, 0, 1], port)));
        Self { port, directory, _process: process }
    }

    /// What came under this name so far, of all exports together; `metrics` come anew with each.
    fn received(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.join("exports")).unwrap_or_default();
        assert!(text.lines().all(|line| !line.starts_with("{\"error\"")), "{text}");
        let exports = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        exports.flat_map(|export| export[name].as_array().cloned().unwrap_or_default()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn gate(upstream: &Upstream, port: u16) -> Gate {
    let tables = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n\
                  [log]\nclients = \"hash\"\n";
    Gate::start(
        &upstream.file(&format!("{tables}[otel]\nendpoint = \"http://127.0.0.1:{port}\"\nsample = 0.0\n")),
    )
}

/// A gate that sends its decisions, too.
fn gate_with_logs(upstream: &Upstream, port: u16, clients: &str) -> Gate {
    let tables = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n[limit.address]\nrate = \"1 per 1h\"\n\
                  [limit.account]\nkey = \"user\"\nrate = \"9 per 1h\"\n";
    let log = format!("[log]\nclients = \"{clients}\"\n");
    let otel = format!("[otel]\nendpoint = \"http://127.0.0.1:{port}\"\nsample = 0.0\nlogs = \"on\"\n");
    Gate::start(&upstream.file(&format!("{tables}{log}{otel}")))
}

fn traced(flags: &str) -> String {
    let lines = format!("traceparent: 00-{TRACE}-{CALLER}-{flags}\r\ntracestate: vendor=1\r\n");
    post_with("/login?token=planted", &lines)
}

#[test]
fn spans_arrive_in_the_official_form_and_the_trace_goes_on_to_the_upstream() {
    let receiver = Receiver::start(free_port());
    let upstream = Upstream::start();
    let gate = gate(&upstream, receiver.port);
    assert_eq!(gate.ask(traced("01")).status, 200);
    assert_eq!(gate.ask(traced("01")).status, 429);
    assert_eq!(gate.ask(traced("00")).status, 429);
    assert!(eventually(PATIENCE, || receiver.received("spans").len() == 2), "two spans were sampled");
    let spans = receiver.received("spans");
    let shown = format!("{spans:?}");
    assert!(!shown.contains("planted") && !shown.contains("client.address"), "{shown}");
    for (span, verdict, status) in [(&spans[0], "admit", 200), (&spans[1], "refuse", 429)] {
        assert_eq!((&span["trace_id"], &span["parent_id"]), (&TRACE.into(), &CALLER.into()), "{span}");
        assert_eq!((&span["service"], &span["name"]), (&"tollgate".into(), &"POST login".into()));
        let attributes = &span["attributes"];
        assert_eq!(attributes["http.response.status_code"], status, "{span}");
        assert_eq!(
            (&attributes["tollgate.limit"], &attributes["tollgate.verdict"]),
            (&"address".into(), &verdict.into())
        );
        assert_eq!((&attributes["url.path"], &attributes["url.scheme"]), (&"/login".into(), &"http".into()));
        assert!(span["took"].as_u64().unwrap() > 0, "{span}");
    }
    let sent = format!("traceparent: 00-{TRACE}-{}-01", spans[0]["span_id"].as_str().unwrap());
    assert!(upstream.saw(&sent), "{sent} is not in {}", String::from_utf8_lossy(&upstream.bytes()));
    assert!(upstream.saw("tracestate: vendor=1") && !upstream.saw(CALLER));
}

#[test]
fn all_metrics_arrive_under_their_names_when_the_gate_ends() {
    let receiver = Receiver::start(free_port());
    let upstream = Upstream::start();
    let mut gate = gate(&upstream, receiver.port);
    assert_eq!(gate.ask(traced("00")).status, 200);
    assert_eq!(gate.ask(traced("00")).status, 429);
    let page = gate.metrics();
    gate.signal("TERM");
    assert!(gate.exit_status(PATIENCE).is_some_and(|status| status.success()));
    let metrics = receiver.received("metrics");
    let names: BTreeSet<&str> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(names, types.collect());
    let find = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let decisions = find("tollgate_decisions_total");
    assert_eq!(decisions["kind"], "sum");
    let points = decisions["points"].as_array().unwrap();
    let refused = points.iter().find(|point| point["attributes"]["decision"] == "refuse").unwrap();
    assert_eq!((&refused["value"], &refused["attributes"]["limit"]), (&1.0.into(), &"address".into()));
    let added = &find("tollgate_added_seconds")["points"][0];
    let buckets: Vec<u64> =
        added["buckets"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
    assert_eq!((buckets.iter().sum::<u64>(), added["value"].as_u64()), (2, Some(2)), "{added}");
    assert_eq!(added["bounds"].as_u64(), Some(buckets.len() as u64 - 1));
}

#[test]
fn every_decision_arrives_as_a_log_record_of_its_trace() {
    let receiver = Receiver::start(free_port());
    let upstream = Upstream::start();
    let gate = gate_with_logs(&upstream, receiver.port, "full");
    let attempt = |flags| {
        let lines = format!("traceparent: 00-{TRACE}-{CALLER}-{flags}\r\n");
        application::post("/login", &lines, "user=anna&password=planted")
    };
    // Also where the span is not sampled.
    assert_eq!((gate.ask(attempt("00")).status, gate.ask(attempt("01")).status), (200, 429));
    // The second attempt is refused before its account is read.
    assert!(eventually(PATIENCE, || receiver.received("logs").len() >= 3));
    let records = receiver.received("logs");
    assert_eq!(records.len(), 3);
    let shown = format!("{records:?}");
    assert!(!shown.contains("planted") && !shown.contains("anna"), "{shown}");
    for record in &records {
        let named = (&record["service"], &record["event"], &record["trace_id"]);
        assert_eq!(named, (&"tollgate".into(), &"tollgate.decision".into(), &TRACE.into()), "{record}");
        assert!(record["took"].as_u64().unwrap() > 0 && record["span_id"] != CALLER, "{record}");
        assert_eq!(record["attributes"]["client.address"], "127.0.0.1", "{record}");
    }
    let refusal = records.iter().find(|record| record["attributes"]["tollgate.verdict"] == "refuse").unwrap();
    assert_eq!(refusal["severity"], serde_json::json!([13, "WARN"]));
    assert_eq!(refusal["body"], "refuse: address");
    assert!(refusal["attributes"]["tollgate.wait"].as_f64().unwrap() > 3_000.0, "{refusal}");
    let admitted = records.iter().find(|record| record["attributes"]["tollgate.limit"] == "account").unwrap();
    assert_eq!(admitted["severity"], serde_json::json!([9, "INFO"]));
    assert_eq!(admitted["attributes"]["tollgate.left"], 8, "{admitted}");
    assert_eq!(admitted["attributes"]["user.hash"].as_str().unwrap().len(), 12);
}

#[test]
fn log_records_that_find_no_collector_are_counted_and_none_is_sent_unless_the_file_says_so() {
    let (upstream, port) = (Upstream::start(), free_port());
    let gate = gate_with_logs(&upstream, port, "hash");
    assert_eq!(gate.ask(traced("00")).status, 200);
    let dropped = || gate.metric("tollgate_log_records_dropped_total", "");
    assert!(eventually(PATIENCE, || dropped() > 0.0), "{} dropped", dropped());
    let lost = dropped();
    let receiver = Receiver::start(port);
    assert_eq!(gate.ask(traced("00")).status, 429);
    assert!(eventually(PATIENCE, || !receiver.received("logs").is_empty()));
    assert!(!format!("{:?}", receiver.received("logs")).contains("127.0.0.1"), "clients are hashes");
    assert_eq!(dropped(), lost);
    let mut silent = self::gate(&upstream, port);
    assert_eq!(silent.ask(traced("01")).status, 200);
    let before = receiver.received("logs").len();
    silent.signal("TERM");
    assert!(silent.exit_status(PATIENCE).is_some());
    assert_eq!((receiver.received("spans").len(), receiver.received("logs").len()), (1, before));
}

#[test]
fn a_collector_that_is_down_costs_spans_and_no_request() {
    let (upstream, port) = (Upstream::start(), free_port());
    let gate = gate(&upstream, port);
    assert_eq!(gate.ask(traced("01")).status, 200);
    let dropped = || gate.metric("tollgate_spans_dropped_total", "");
    assert!(eventually(PATIENCE, || dropped() == 1.0), "{} dropped", dropped());
    assert_eq!(gate.ask(traced("01")).status, 429);
    assert!(eventually(PATIENCE, || dropped() == 2.0), "{} dropped", dropped());
    assert_eq!(gate.messages().matches("took no export: cannot connect").count(), 1, "it is said once");
    let receiver = Receiver::start(port);
    assert_eq!(gate.ask(traced("01")).status, 429);
    assert!(eventually(PATIENCE, || receiver.received("spans").len() == 1));
    assert!(eventually(PATIENCE, || gate.messages().contains("takes exports again")));
    assert_eq!(dropped(), 2.0);
}

#[test]
fn trace_headers_pass_untouched_without_otel() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[route.login]\nmatch = \"POST /login\"\n"));
    assert_eq!(gate.ask(post_with("/", "traceparent: broken\r\ntracestate: a=1\r\n")).status, 200);
    assert!(upstream.saw("traceparent: broken") && upstream.saw("tracestate: a=1"));
}
