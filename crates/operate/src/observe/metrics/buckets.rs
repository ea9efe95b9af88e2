//! The number of buckets in use, read from the engine at each scrape.
//!
//! The request path counts nothing for it. Large tables are sampled, so the number of live buckets is an estimate.

use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::engine::Engine;
use crate::policy::ByteLimit;

/// Reads the buckets of the engine, once there is one.
#[derive(Debug)]
pub(super) struct BucketMetrics(pub(super) Arc<OnceLock<Weak<Engine>>>);

/// Sums up the sub-limits of a limit: two series of one name would be invalid.
fn by_name<'u>(usage: &[(&'u str, usize, u64)]) -> Vec<(&'u str, usize, u64)> {
    let limits = usage.chunk_by(|(one, ..), (next, ..)| one == next);
    let add = |(_, live, gone): (&'u str, usize, u64), next: &(&'u str, usize, u64)| {
        (next.0, live + next.1, gone + next.2)
    };
    limits.map(|group| group.iter().fold(("", 0, 0), add)).collect()
}

impl Collector for BucketMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(engine) = self.0.get().and_then(Weak::upgrade) else { return Ok(()) };
        let rules = engine.rules();
        let now = engine.time();
        let usage: Vec<_> = rules.usage(now).collect();
        let mut usage = by_name(&usage);
        let byte_limits = rules.policy.byte_limits();
        usage.extend(byte_limits.iter().map(|limit| {
            let (live, forgotten) = limit.usage(now);
            (&*limit.limit().name, live, forgotten)
        }));
        let help = "Buckets that are not full.";
        let mut live = encoder.encode_descriptor("tollgate_buckets", help, None, MetricType::Gauge)?;
        for (limit, buckets, _) in &usage {
            ConstGauge::new(*buckets).encode(live.encode_family(&[("limit", *limit)])?)?;
        }
        let (name, help) = ("tollgate_buckets_forgotten", "Live buckets that were evicted.");
        let mut forgotten = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (limit, _, buckets) in &usage {
            ConstCounter::new(*buckets).encode(forgotten.encode_family(&[("limit", *limit)])?)?;
        }
        encode_bytes(byte_limits, encoder)
    }
}

/// The bytes of limits that count them; nothing without such a limit.
fn encode_bytes(limits: &[Arc<dyn ByteLimit>], mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
    if limits.is_empty() {
        return Ok(());
    }
    let (name, help) = ("tollgate_answer_bytes", "Bytes of answers under limits that count bytes.");
    let mut bytes = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for limit in limits {
        for (result, passed) in ["passed", "held"].into_iter().zip(limit.passed()) {
            let labels = [("limit", &*limit.limit().name), ("result", result)];
            ConstCounter::new(passed).encode(bytes.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
