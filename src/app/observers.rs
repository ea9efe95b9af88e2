//! Everything that listens to the events of a gate.
//!
//! What only operators see is left out where they cannot ask: requests pay nothing for it.

use std::sync::Arc;

use super::AppStartError;
use super::kernel::DropQueue;
use super::logs::GateLogs;
use super::otel::OtelExport;
use super::sandbox::Broker;
use crate::config::Config;
use crate::event::{EventListener, Events};
use crate::observe::audit::{AuditLog, StoreChanges};
use crate::observe::client_format::ClientFormatter;
use crate::observe::event_feed::EventFeed;
use crate::observe::heavy_hitters::HeavyHitters;
use crate::observe::history::AttemptHistory;
use crate::observe::messages::Messages;
use crate::observe::metrics::Metrics;
use crate::observe::reports::WaitingReports;
use crate::observe::wiring::Wiring;
use crate::time::Clock;

/// The listeners, and the events that they hear.
pub(super) struct Observers {
    pub(super) clients: ClientFormatter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) logs: GateLogs,
    /// The audit log, if there is one.
    pub(super) audit: Option<Arc<AuditLog>>,
    /// When the store was away, for the audit; only where decisions are evidence as well.
    pub(super) store_changes: Option<Arc<StoreChanges>>,
    pub(super) otel: OtelExport,
    /// For viewers of the admin API.
    pub(super) feed: Arc<EventFeed>,
    pub(super) wiring: Arc<Wiring>,
    /// For the operators' web servers.
    pub(super) reports: Arc<WaitingReports>,
    /// Only where operators can see them.
    pub(super) history: Option<Arc<AttemptHistory>>,
    pub(super) hitters: Option<Arc<HeavyHitters>>,
    pub(super) events: Events,
}

impl Observers {
    /// Opens the logs, starts the export and begins to listen.
    pub(super) fn start(
        config: &Config,
        metrics: &Arc<Metrics>,
        clients: ClientFormatter,
        clock: &Clock,
        drops: Option<Arc<DropQueue>>,
    ) -> Result<Self, AppStartError> {
        let logs = GateLogs::open(&config.log, &clients, metrics, clock)?;
        let audit = config.operators.audit.clone().map(|path| AuditLog::open(path, machine())).transpose()?;
        let audit = audit.map(Arc::new);
        let store_changes = audit.is_some() && logs.counted().is_some();
        let store_changes = store_changes.then(|| Arc::new(StoreChanges::new(clock.clone())));
        let otel = OtelExport::start(config, &clients, metrics, clock)?;
        let feed = Arc::new(EventFeed::new(clients.clone(), clock.clone()));
        let wiring = Arc::new(Wiring::new(clients.clone(), clock.clone()));
        let reports = Arc::<WaitingReports>::default();
        let messages = Arc::new(Messages::new(clients.clone(), clock.clone(), Arc::clone(&reports)));
        let has_operators = !config.operators.admin.is_empty();
        let history = has_operators.then(Arc::<AttemptHistory>::default);
        let hitters = has_operators.then(Arc::<HeavyHitters>::default);
        let always: [Arc<dyn EventListener>; 4] =
            [Arc::clone(metrics) as _, messages, Arc::clone(&wiring) as _, Arc::clone(&feed) as _];
        let events = always
            .into_iter()
            .chain(drops.map(|drops| drops as _))
            .chain(history.clone().map(|history| history as _))
            .chain(hitters.clone().map(|hitters| hitters as _))
            .chain(store_changes.clone().map(|changes| changes as _))
            .chain(otel.listener())
            .chain(logs.listeners())
            .collect();
        let metrics = Arc::clone(metrics);
        if audit.is_some() {
            logs.count_lines();
        }
        Ok(Self {
            clients,
            metrics,
            logs,
            audit,
            store_changes,
            otel,
            feed,
            wiring,
            reports,
            history,
            hitters,
            events,
        })
    }
    /// Opens the files of the logs again under their names.
    pub(super) async fn reopen(&self, broker: &Broker, clock: &Clock) {
        self.logs.reopen(broker).await;
        let Some(audit) = self.audit.clone() else { return };
        let at = clock.now();
        let reopened = broker.run(move || audit.reopen(at).map_err(|error| error.to_string())).await;
        if let Err(error) = reopened.unwrap_or_else(|error| Err(error.to_string())) {
            tracing::error!("the audit log cannot be opened again, the old file stays: {error}");
        }
    }
}

/// The name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
