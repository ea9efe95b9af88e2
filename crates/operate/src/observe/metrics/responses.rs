//! Metrics of every request: status, duration, and the time that the gate added.
//!
//! It uses no label but the status, no lock and no allocation. Each thread has its own counters, because two cores that
//! add to one number cost each other more than everything else here.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::histogram::{AtomicHistogram, HistogramTotal};
use crate::event::AccessLogEntry;
use crate::observe::shards::Shards;
use crate::time::Span;

/// Counts responses.
#[derive(Debug, Default)]
pub(super) struct ResponseMetrics(Shards<ResponseCounts>);

#[derive(Debug)]
struct ResponseCounts {
    /// By status from 100; the last one is for any other status.
    codes: [AtomicU64; CODES],
    duration: AtomicHistogram<{ DURATIONS.len() + 1 }>,
    added: AtomicHistogram<{ ADDED.len() + 1 }>,
}

impl Default for ResponseCounts {
    fn default() -> Self {
        let codes = std::array::from_fn(|_| AtomicU64::new(0));
        Self { codes, duration: AtomicHistogram::default(), added: AtomicHistogram::default() }
    }
}

impl ResponseMetrics {
    pub(super) fn count(&self, entry: &AccessLogEntry) {
        let counts = self.0.current();
        let code = usize::from(entry.status.as_u16()).saturating_sub(100).min(CODES - 1);
        counts.codes[code].fetch_add(1, Ordering::Relaxed);
        counts.duration.observe(&DURATIONS, entry.duration);
        counts.added.observe(&ADDED, entry.added);
    }

    fn encode_codes(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let help = "Requests by the status of their answer.";
        let mut family = encoder.encode_descriptor("tollgate_requests", help, None, MetricType::Counter)?;
        for index in 0..CODES {
            let count = self.0.iter().map(|counts| counts.codes[index].load(Ordering::Relaxed)).sum::<u64>();
            if count > 0 {
                let name = if index == CODES - 1 { "other".to_owned() } else { (index + 100).to_string() };
                ConstCounter::new(count).encode(family.encode_family(&[("code", name)])?)?;
            }
        }
        Ok(())
    }
}

impl Collector for ResponseMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        self.encode_codes(&mut encoder)?;
        let duration = AtomicHistogram::total(self.0.iter().map(|counts| &counts.duration), &DURATIONS);
        let help = "From the head of a request to the end of its answer.";
        encode_total(&mut encoder, "tollgate_request_duration_seconds", help, &duration)?;
        let added = AtomicHistogram::total(self.0.iter().map(|counts| &counts.added), &ADDED);
        encode_total(&mut encoder, "tollgate_added_seconds", "Time that the gate itself took.", &added)
    }
}

fn encode_total(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    total: &HistogramTotal,
) -> std::fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Histogram)?.encode_histogram::<NoLabelSet>(
        total.sum,
        total.count,
        &total.buckets,
        None,
    )
}

/// 100 to 599, and one for all others.
const CODES: usize = 501;

/// The buckets of Prometheus' own clients, extended to the longest usual wait for an application.
const DURATIONS: [Span; 13] = [
    Span::from_millis(1),
    Span::from_nanos(2_500_000),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(25),
    Span::from_millis(50),
    Span::from_millis(100),
    Span::from_millis(250),
    Span::from_millis(500),
    Span::from_secs(1),
    Span::from_nanos(2_500_000_000),
    Span::from_secs(10),
    Span::from_secs(60),
];

/// From a microsecond, about what the gate takes, to a second.
const ADDED: [Span; 12] = [
    Span::from_nanos(1_000),
    Span::from_nanos(2_500),
    Span::from_nanos(5_000),
    Span::from_nanos(10_000),
    Span::from_nanos(25_000),
    Span::from_nanos(50_000),
    Span::from_nanos(100_000),
    Span::from_nanos(250_000),
    Span::from_millis(1),
    Span::from_millis(10),
    Span::from_millis(100),
    Span::from_secs(1),
];
