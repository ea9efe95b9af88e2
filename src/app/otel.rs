//! The export to a collector, if the configuration names one; a build without the feature `otel` has none.

use std::sync::Arc;

use super::AppStartError;
use crate::config::Config;
use crate::event::EventListener;
use crate::observe::client_format::ClientFormatter;
use crate::observe::metrics::Metrics;
#[cfg(feature = "otel")]
use crate::observe::otel::OtelExporter;
use crate::proxy::headers::trace_context::Tracer;
use crate::time::Clock;

/// The exporter, and what the request path needs of `[otel]`.
#[derive(Debug, Default)]
pub(super) struct OtelExport {
    #[cfg(feature = "otel")]
    exporter: Option<Arc<OtelExporter>>,
    /// Continues traces on the request path.
    pub(super) tracer: Option<Tracer>,
}

impl OtelExport {
    /// Starts the exporter's thread.
    #[cfg(feature = "otel")]
    pub(super) fn start(
        config: &Config,
        clients: &ClientFormatter,
        metrics: &Arc<Metrics>,
        clock: &Clock,
    ) -> Result<Self, AppStartError> {
        let Some(settings) = &config.otel else { return Ok(Self::default()) };
        let exporter = OtelExporter::start(settings, clients.clone(), Arc::clone(metrics), clock.clone());
        let exporter = exporter.map_err(AppStartError::Worker)?;
        Ok(Self { exporter: Some(Arc::new(exporter)), tracer: Some(Tracer::new(settings.sample_ppm)) })
    }

    /// Nothing: the check refuses an endpoint.
    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(super) fn start(
        _: &Config,
        _: &ClientFormatter,
        _: &Arc<Metrics>,
        _: &Clock,
    ) -> Result<Self, AppStartError> {
        Ok(Self::default())
    }

    /// What events go to.
    pub(super) fn listener(&self) -> Option<Arc<dyn EventListener>> {
        #[cfg(feature = "otel")]
        return self.exporter.clone().map(|exporter| exporter as _);
        #[cfg(not(feature = "otel"))]
        None
    }

    /// Sends what is left; takes two seconds at most.
    pub(super) fn close(&self) {
        #[cfg(feature = "otel")]
        self.exporter.iter().for_each(|exporter| exporter.close());
    }
}
