//! The concurrency limits of routes, read from the rules at each scrape. Routes without one have no series.

use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::engine::Engine;
use crate::policy::Route;
use crate::policy::slots::ConcurrencyFigures;

/// Reads the concurrency limits of the engine, once there is one.
#[derive(Debug)]
pub(super) struct ConcurrencyMetrics(pub(super) Arc<OnceLock<Weak<Engine>>>);

/// The names of the routes that have one, with its figures.
pub(super) fn limits_of(routes: &[Route]) -> Vec<(&str, ConcurrencyFigures)> {
    routes.iter().filter_map(|route| Some((&*route.name, route.permits.slots()?))).collect()
}

impl Collector for ConcurrencyMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(engine) = self.0.get().and_then(Weak::upgrade) else { return Ok(()) };
        let rules = engine.rules();
        let limits = limits_of(&rules.policy.routes);
        if limits.is_empty() {
            return Ok(());
        }
        let gauges = [
            ("tollgate_in_flight_limit", "Attempts that may be at the application now."),
            ("tollgate_in_flight", "Attempts at the application."),
            ("tollgate_in_flight_waiting", "Attempts that wait for the application."),
        ];
        for (at, (name, help)) in gauges.into_iter().enumerate() {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (route, ConcurrencyFigures { limit, in_flight, waiting, .. }) in &limits {
                let value = [limit, in_flight, waiting][at];
                ConstGauge::new(i64::from(*value)).encode(gauge.encode_family(&[("route", *route)])?)?;
            }
        }
        let (name, help) = ("tollgate_in_flight_refused", "Attempts that found no place at the application.");
        let mut refused = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (route, figures) in &limits {
            ConstCounter::new(figures.refused).encode(refused.encode_family(&[("route", *route)])?)?;
        }
        Ok(())
    }
}
