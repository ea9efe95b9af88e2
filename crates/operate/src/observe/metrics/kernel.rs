//! Counts what the kernel is told to drop in the gate's place.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::event::KernelDrops;

/// What it drops now, and what it was told.
#[derive(Debug, Default)]
pub(super) struct KernelCounters {
    elements: Gauge,
    added: Counter,
    failures: Counter,
}

impl KernelCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let (name, help) = ("tollgate_kernel_elements", "Addresses and prefixes that the kernel drops now");
        registry.register(name, help, self.elements.clone());
        for (name, help, metric) in [
            (
                "tollgate_kernel_elements_added",
                "Addresses and prefixes that the kernel was told to drop",
                &self.added,
            ),
            (
                "tollgate_kernel_failures",
                "Changes that the kernel did not take, and clients that it had no room for",
                &self.failures,
            ),
        ] {
            registry.register(name, help, metric.clone());
        }
    }

    pub(super) fn changed(&self, drops: KernelDrops) {
        self.elements.set(i64::try_from(drops.elements).unwrap_or(i64::MAX));
        self.added.inc_by(drops.added as u64);
    }

    pub(super) fn refused(&self) {
        self.failures.inc();
    }
}
