//! Exports spans, metrics and decisions to an OpenTelemetry collector: OTLP over HTTP, in protobuf.
//!
//! A sampled request builds its span and goes on, an attempt the log records of its decisions; a thread sends them, once a
//! second, and all metrics four times a minute. What the collector does not take is dropped and counted: nothing is sent twice, and no request
//! waits. Reading and writing `traceparent` is left to the proxy.

mod connection;
mod log_record;
mod metrics;
mod queue;
mod resource;
mod span;

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtelSpan};
use prost::Message;

use self::connection::Collector;
use self::queue::{ExportQueue, QueuedExports};
use super::client_format::ClientFormatter;
use super::metrics::Metrics;
use super::settings::OtelSettings;
use crate::event::{Event, EventListener};
use crate::time::{Clock, Span, Time};

/// Exports spans, metrics and decisions.
#[derive(Debug)]
pub struct OtelExporter {
    spans: ExportQueue<OtelSpan>,
    /// Unless `otel.logs` is off.
    logs: Option<ExportQueue<LogRecord>>,
    clients: ClientFormatter,
    /// Told once that the gate ends.
    stop: SyncSender<()>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// The thread that sends.
struct ExportLoop {
    collector: Collector,
    resource: Resource,
    spans: QueuedExports<OtelSpan>,
    logs: QueuedExports<LogRecord>,
    metrics: Arc<Metrics>,
    clock: Clock,
    started: Time,
    /// The paths whose last export was not taken.
    failing: BTreeSet<&'static str>,
}

impl OtelExporter {
    /// Starts the thread. A collector that cannot be reached is not an error: the gate asks again each second.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        settings: &OtelSettings,
        clients: ClientFormatter,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> io::Result<Self> {
        let (spans, queued) = ExportQueue::new(metrics.spans_dropped());
        let (logs, queued_logs) = ExportQueue::new(metrics.log_records_dropped());
        let (stop, stopped) = sync_channel(1);
        let (alive, ended) = sync_channel(0);
        let mut export = ExportLoop {
            collector: Collector::new(settings)?,
            resource: resource::resource(),
            spans: queued,
            logs: queued_logs,
            metrics,
            started: clock.now(),
            clock,
            failing: BTreeSet::new(),
        };
        std::thread::Builder::new().name("otel".to_owned()).spawn(move || {
            export.run(&stopped);
            drop(alive);
        })?;
        let logs = settings.logs.then_some(logs);
        Ok(Self { spans, logs, clients, stop, ended: Mutex::new(ended) })
    }

    /// Sends what is left and ends the thread; waits at most two seconds. Later spans are lost.
    pub fn close(&self) {
        let _ = self.stop.try_send(());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // The end of the wait is an error: the thread drops its end of the channel.
        let _ = ended.recv_timeout(CLOSE_TIMEOUT.to_std());
    }
}

impl EventListener for OtelExporter {
    fn on_event(&self, event: &Event<'_>) {
        let Event::RequestCompleted(entry) = event else { return };
        if let (Some(logs), Some(attempt)) = (&self.logs, entry.attempt.as_deref()) {
            for record in &attempt.limits {
                logs.push(|| log_record::record_of(entry, attempt, record, &self.clients));
            }
        }
        if let Some(request) = entry.span.as_deref().filter(|span| span.is_sampled) {
            self.spans.push(|| span::span_of(entry, request, &self.clients));
        }
    }
}

impl ExportLoop {
    fn run(&mut self, stopped: &Receiver<()>) {
        for period in 1_u64.. {
            let ends = stopped.recv_timeout(PERIOD.to_std()) != Err(RecvTimeoutError::Timeout);
            self.export_spans();
            self.export_logs();
            if ends {
                self.export_spans();
                self.export_logs();
            }
            if ends || period % METRICS_PERIODS == 0 {
                self.export_metrics();
            }
            if ends {
                return;
            }
        }
    }

    /// Sends one batch: a flood of sampled requests costs the collector no more than one each second.
    fn export_spans(&mut self) {
        let spans = self.spans.batch();
        if spans.is_empty() {
            return;
        }
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let scope_spans = vec![ScopeSpans { scope: Some(resource::scope()), spans, ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans,
            ..ResourceSpans::default()
        }];
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        if !self.send("/v1/traces", body) {
            self.metrics.spans_dropped().inc_by(count);
        }
    }

    /// Sends one batch, as of spans.
    fn export_logs(&mut self) {
        let log_records = self.logs.batch();
        if log_records.is_empty() {
            return;
        }
        let count = u64::try_from(log_records.len()).unwrap_or(u64::MAX);
        let scope_logs =
            vec![ScopeLogs { scope: Some(resource::scope()), log_records, ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs {
            resource: Some(self.resource.clone()),
            scope_logs,
            ..ResourceLogs::default()
        }];
        let body = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
        if !self.send("/v1/logs", body) {
            self.metrics.log_records_dropped().inc_by(count);
        }
    }

    /// Sends all metrics. They are totals, so the next ones make up for those that are lost.
    fn export_metrics(&mut self) {
        let metrics = metrics::metrics_of(&self.metrics.render(), self.started, self.clock.now());
        let scope_metrics =
            vec![ScopeMetrics { scope: Some(resource::scope()), metrics, ..ScopeMetrics::default() }];
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics,
            ..ResourceMetrics::default()
        }];
        self.send("/v1/metrics", ExportMetricsServiceRequest { resource_metrics }.encode_to_vec());
    }

    /// Whether the collector took it. Says when it stops and when it takes all exports again: one that has no use for logs
    /// is told of once.
    fn send(&mut self, path: &'static str, body: Vec<u8>) -> bool {
        let was_failing = !self.failing.is_empty();
        match self.collector.post(path, body) {
            Err(error) => {
                self.failing.insert(path);
                if !was_failing {
                    tracing::warn!(path, "the collector of otel.endpoint took no export: {error}");
                }
                false
            }
            Ok(()) => {
                self.failing.remove(path);
                if was_failing && self.failing.is_empty() {
                    tracing::info!("the collector of otel.endpoint takes exports again");
                }
                true
            }
        }
    }
}

/// Between two batches.
const PERIOD: Span = Span::from_secs(1);
/// Periods between two exports of metrics.
const METRICS_PERIODS: u64 = 15;
const CLOSE_TIMEOUT: Span = Span::from_secs(2);
