//! How many buckets are in use: asked of the engine when somebody scrapes.
//!
//! Nothing is counted on the request path. The surprising thing: large tables are sampled, so the number of live
//! buckets is an estimate.

use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::engine::Engine;

/// Looks at the buckets of the engine, once there is one.
#[derive(Debug)]
pub(super) struct Buckets(pub(super) Arc<OnceLock<Weak<Engine>>>);

impl Collector for Buckets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(engine) = self.0.get().and_then(Weak::upgrade) else { return Ok(()) };
        let rules = engine.rules();
        let usage: Vec<_> = rules.usage(engine.clock().now()).collect();
        let help = "Buckets that are not full.";
        let mut live = encoder.encode_descriptor("tollgate_buckets", help, None, MetricType::Gauge)?;
        for (limit, buckets, _) in &usage {
            ConstGauge::new(*buckets).encode(live.encode_family(&[("limit", *limit)])?)?;
        }
        let (name, help) = ("tollgate_buckets_forgotten", "Live buckets that gave way to others.");
        let mut forgotten = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (limit, _, buckets) in &usage {
            ConstCounter::new(*buckets).encode(forgotten.encode_family(&[("limit", *limit)])?)?;
        }
        Ok(())
    }
}
