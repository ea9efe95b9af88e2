//! Exports spans and metrics to an OpenTelemetry collector: OTLP over HTTP, in protobuf.
//!
//! A sampled request builds its span and goes on; its own thread sends them, once a second, and all metrics four
//! times a minute. What the collector does not take is dropped and counted: nothing is sent twice, and no request
//! waits. Reading and writing `traceparent` is left to the proxy.

mod connection;
mod metrics;
mod resource;
mod span;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtelSpan};
use prometheus_client::metrics::counter::Counter;
use prost::Message;

use self::connection::Collector;
use super::client_format::ClientFormatter;
use super::metrics::Metrics;
use super::settings::OtelSettings;
use crate::event::{Event, EventListener};
use crate::time::{Clock, Span, Time};

/// Exports spans and metrics.
#[derive(Debug)]
pub struct OtelExporter {
    spans: SyncSender<OtelSpan>,
    clients: ClientFormatter,
    dropped: Counter,
    /// Told once that the gate ends.
    stop: SyncSender<()>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// The thread that sends.
struct ExportLoop {
    collector: Collector,
    resource: Resource,
    spans: Receiver<OtelSpan>,
    metrics: Arc<Metrics>,
    dropped: Counter,
    clock: Clock,
    started: Time,
    is_failing: bool,
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
        let (spans, queued) = sync_channel(MAX_QUEUED);
        let (stop, stopped) = sync_channel(1);
        let (alive, ended) = sync_channel(0);
        let dropped = metrics.spans_dropped();
        let mut export = ExportLoop {
            collector: Collector::new(settings)?,
            resource: resource::resource(),
            spans: queued,
            metrics,
            dropped: dropped.clone(),
            started: clock.now(),
            clock,
            is_failing: false,
        };
        std::thread::Builder::new().name("otel".to_owned()).spawn(move || {
            export.run(&stopped);
            drop(alive);
        })?;
        Ok(Self { spans, clients, dropped, stop, ended: Mutex::new(ended) })
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
        let Some(request) = entry.span.as_deref().filter(|span| span.is_sampled) else { return };
        if self.spans.try_send(span::span_of(entry, request, &self.clients)).is_err() {
            self.dropped.inc();
        }
    }
}

impl ExportLoop {
    fn run(&mut self, stopped: &Receiver<()>) {
        for period in 1_u64.. {
            let ends = stopped.recv_timeout(PERIOD.to_std()) != Err(RecvTimeoutError::Timeout);
            self.export_spans();
            if ends {
                self.export_spans();
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
        let spans: Vec<_> = self.spans.try_iter().take(MAX_BATCH).collect();
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
            self.dropped.inc_by(count);
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

    /// Whether the collector took it. Says when it stops and when it begins again to do so.
    fn send(&mut self, path: &'static str, body: Vec<u8>) -> bool {
        let result = self.collector.post(path, body);
        match &result {
            Err(error) if !self.is_failing => {
                tracing::warn!("the collector of otel.endpoint took no export: {error}");
            }
            Ok(()) if self.is_failing => tracing::info!("the collector of otel.endpoint takes exports again"),
            _ => {}
        }
        self.is_failing = result.is_err();
        result.is_ok()
    }
}

/// Between two batches of spans.
const PERIOD: Span = Span::from_secs(1);
/// Periods between two exports of metrics.
const METRICS_PERIODS: u64 = 15;
/// Spans that wait for the next batch.
const MAX_QUEUED: usize = 2_048;
/// Spans of one batch.
const MAX_BATCH: usize = 1_024;
const CLOSE_TIMEOUT: Span = Span::from_secs(2);
