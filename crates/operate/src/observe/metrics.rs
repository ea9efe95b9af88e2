//! Counts events for Prometheus.
//!
//! It counts and renders; sockets are left to `admin`. No address, account or path is ever a label: the configuration
//! bounds the number of series. Counters of every request exist once per thread, and a scrape sums them up.

mod alarms;
mod buckets;
mod concurrency;
mod exposition;
mod histogram;
mod kernel;
mod process;
mod responses;
mod rules;
mod store;

use std::sync::{Arc, OnceLock, Weak};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use self::alarms::AlarmGauges;
use self::buckets::BucketMetrics;
use self::concurrency::ConcurrencyMetrics;
pub(super) use self::exposition::{CONTENT_TYPE, OPEN_CONTENT_TYPE, accepts_open_metrics};
use self::kernel::KernelCounters;
use self::responses::ResponseMetrics;
pub(super) use self::rules::RoutesPage;
use self::rules::RuleCounters;
use self::store::StoreCounters;
use crate::defences::PARDONS;
use crate::engine::Engine;
use crate::event::{ConnectionEvent, Event, EventListener, Failure, PardonResult, RejectReason, StoreEvent};
use crate::net::tls::Certificate;

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rules: RuleCounters,
    alarms: Arc<AlarmGauges>,
    store: StoreCounters,
    responses: Arc<ResponseMetrics>,
    engine: Arc<OnceLock<Weak<Engine>>>,
    connections: Gauge,
    refused: Family<Label, Counter>,
    pardons: Family<Label, Counter>,
    upstream_up: Family<UpstreamLabels, Gauge>,
    upstream_errors: Family<UpstreamErrorLabels, Counter>,
    upstream_checks: Family<UpstreamCheckLabels, Counter>,
    reloads: Family<Label, Counter>,
    certificates: Family<CertificateLabels, Gauge>,
    policy_version: Gauge,
    policy_refused: Gauge,
    evicted: Counter,
    bodies_refused: Counter,
    bad_signatures: Counter,
    panics: Counter,
    kernel: KernelCounters,
    lines_dropped: Counter,
    decisions_dropped: Counter,
    spans_dropped: Counter,
    log_records_dropped: Counter,
}

type Label = [(&'static str, &'static str); 1];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamErrorLabels {
    upstream: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamCheckLabels {
    upstream: String,
    result: &'static str,
}

impl Metrics {
    /// With all counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            rules: RuleCounters::default(),
            alarms: Arc::default(),
            store: StoreCounters::default(),
            responses: Arc::default(),
            engine: Arc::default(),
            connections: Gauge::default(),
            refused: Family::default(),
            pardons: Family::default(),
            upstream_up: Family::default(),
            upstream_errors: Family::default(),
            upstream_checks: Family::default(),
            reloads: Family::default(),
            certificates: Family::default(),
            policy_version: Gauge::default(),
            policy_refused: Gauge::default(),
            evicted: Counter::default(),
            bodies_refused: Counter::default(),
            bad_signatures: Counter::default(),
            panics: Counter::default(),
            kernel: KernelCounters::default(),
            lines_dropped: Counter::default(),
            decisions_dropped: Counter::default(),
            spans_dropped: Counter::default(),
            log_records_dropped: Counter::default(),
        };
        metrics.register();
        for reason in REASONS {
            drop(metrics.refused.get_or_create_owned(&[("reason", reason_name(reason))]));
        }
        for result in [PardonResult::Offered, PardonResult::Redeemed, PardonResult::Refused] {
            drop(metrics.pardons.get_or_create_owned(&[("result", pardon_name(result))]));
        }
        for taken in [true, false] {
            drop(metrics.reloads.get_or_create_owned(&[("result", result_name(taken))]));
        }
        metrics
    }

    /// Sets the engine whose buckets are shown. The reference is weak, because the engine's events refer to these
    /// metrics.
    pub fn watch(&self, engine: &Arc<Engine>) {
        // A second engine is not expected; the first one stays.
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// The decisions of a limit so far: admitted, refused, observed and exempt attempts.
    #[must_use]
    pub fn decisions_of(&self, limit: &str) -> [u64; 4] {
        self.rules.totals(limit)
    }

    /// Shows an upstream as up before its first event; `name` is its address as configured.
    pub fn expect_upstream(&self, name: &str) {
        self.upstream_up.get_or_create_owned(&upstream_labels(name)).set(1);
    }

    /// Removes an upstream that the file no longer names.
    pub fn forget_upstream(&self, name: &str) {
        self.upstream_up.remove(&upstream_labels(name));
    }

    /// Shows when these certificates expire, and no others. If several have one name, it shows the first to expire.
    pub fn show_certificates(&self, certificates: &[Certificate]) {
        self.certificates.clear();
        for certificate in certificates {
            let labels = CertificateLabels { name: certificate.name().to_owned() };
            let expires = certificate.expires().as_nanos() / 1_000_000_000;
            let expires = i64::try_from(expires).unwrap_or(i64::MAX);
            let shown = self.certificates.get_or_create_owned(&labels);
            let other = shown.get();
            shown.set(if other == 0 { expires } else { other.min(expires) });
        }
    }

    /// Shows which policy of the store is in force, 0 for one of a file, and whether a newer one is refused.
    pub fn show_policy(&self, version: u64, is_refused: bool) {
        self.policy_version.set(i64::try_from(version).unwrap_or(i64::MAX));
        self.policy_refused.set(i64::from(is_refused));
    }

    /// The counter of dropped access-log lines, for the log to increment.
    #[must_use]
    pub fn lines_dropped(&self) -> Counter {
        self.lines_dropped.clone()
    }

    /// The counter of spans that were not exported, for the exporter to increment.
    #[must_use]
    pub fn spans_dropped(&self) -> Counter {
        self.spans_dropped.clone()
    }

    /// The counter of log records that were not exported, for the exporter to increment.
    #[must_use]
    pub fn log_records_dropped(&self) -> Counter {
        self.log_records_dropped.clone()
    }

    /// The routes in force, and what came of their attempts since the start.
    pub(super) fn routes_page(&self) -> RoutesPage {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let rules = engine.as_ref().map(|engine| engine.rules());
        let routes = rules.as_ref().map_or(&[][..], |rules| &rules.policy.routes);
        let limits = concurrency::limits_of(routes);
        self.rules.routes_page(|route| limits.iter().find(|(name, _)| *name == route).map(|(_, of)| *of))
    }

    /// The counter of dropped decision-log lines, for the log to increment.
    #[must_use]
    pub fn decisions_dropped(&self) -> Counter {
        self.decisions_dropped.clone()
    }

    /// All metrics, in Prometheus' text format 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        exposition::render(&self.registry)
    }

    /// All metrics, in the text format of OpenMetrics 1.0.
    #[must_use]
    pub fn render_open(&self) -> String {
        exposition::render_open(&self.registry)
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        self.rules.register(registry);
        self.store.register(registry);
        self.kernel.register(registry);
        registry.register_collector(Box::new(Arc::clone(&self.alarms)));
        registry.register_collector(Box::new(Arc::clone(&self.responses)));
        registry.register_collector(Box::new(BucketMetrics(Arc::clone(&self.engine))));
        registry.register_collector(Box::new(ConcurrencyMetrics(Arc::clone(&self.engine))));
        registry.register_collector(Box::new(process::ProcessMetrics));
        let build = Family::<Label, Gauge>::default();
        build.get_or_create_owned(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("tollgate_build_info", "The version of this gate", build);
        let connections = self.connections.clone();
        registry.register("tollgate_connections", "Clients that are connected now", connections);
        for (name, help, metric) in [
            ("tollgate_connections_refused", "Connections that were refused", &self.refused),
            (PARDONS.name, PARDONS.help, &self.pardons),
            ("tollgate_config_reloads", "How often the configuration was read again", &self.reloads),
        ] {
            registry.register(name, help, metric.clone());
        }
        for (name, help, metric) in [
            (
                "tollgate_connections_evicted",
                "Idle connections that were closed for other clients",
                &self.evicted,
            ),
            ("tollgate_bodies_refused", "Bodies refused for lack of body_memory", &self.bodies_refused),
            ("tollgate_bad_signatures", "Invalid signatures of monitors", &self.bad_signatures),
            ("tollgate_panics", "Tasks that panicked", &self.panics),
            ("tollgate_access_log_dropped", "Lines of the access log that were lost", &self.lines_dropped),
            (
                "tollgate_decision_log_dropped",
                "Lines of the decision log that were lost",
                &self.decisions_dropped,
            ),
            ("tollgate_spans_dropped", "Spans that were not exported", &self.spans_dropped),
            ("tollgate_log_records_dropped", "Decisions that were not exported", &self.log_records_dropped),
        ] {
            registry.register(name, help, metric.clone());
        }
        self.register_policy();
        let registry = &mut self.registry;
        let (name, help) =
            ("tollgate_certificate_expiry_seconds", "When a certificate expires, in seconds since 1970");
        registry.register(name, help, self.certificates.clone());
        self.register_upstreams();
    }

    fn register_policy(&mut self) {
        let in_force = self.policy_version.clone();
        let help = "The policy of the store that is in force, 0 without one";
        self.registry.register("tollgate_policy_version", help, in_force);
        let refused = self.policy_refused.clone();
        let help = "Whether the newest policy of the store is refused";
        self.registry.register("tollgate_policy_refused", help, refused);
    }

    fn register_upstreams(&mut self) {
        let registry = &mut self.registry;
        registry.register("tollgate_upstream_up", "Whether an upstream is up", self.upstream_up.clone());
        let errors = self.upstream_errors.clone();
        registry.register("tollgate_upstream_errors", "Requests that an upstream failed", errors);
        let checks = self.upstream_checks.clone();
        registry.register("tollgate_upstream_checks", "Health checks of an upstream", checks);
    }
}

impl Metrics {
    fn count_check(&self, upstream: &str, passed: bool) {
        let result = if passed { "passed" } else { "failed" };
        let labels = UpstreamCheckLabels { upstream: upstream.to_owned(), result };
        self.upstream_checks.get_or_create_owned(&labels).inc();
    }

    fn show_upstream(&self, upstream: &str, up: bool) {
        // A late event of a removed upstream does not bring it back.
        if let Some(shown) = self.upstream_up.get(&upstream_labels(upstream)) {
            shown.set(i64::from(up));
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl EventListener for Metrics {
    fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Rules { generation, policy } => {
                self.rules.add_generation(generation, policy);
                self.alarms.add_rules(policy);
            }
            Event::Decided { generation, route, limit, decision } => {
                self.rules.decided(generation, route, limit, decision);
            }
            Event::Settled(settled) => self.rules.settled(settled),
            Event::Noted { counter, route } => self.rules.count_noted(counter, route),
            Event::RequestCompleted(entry) => self.responses.count(entry),
            Event::Connection(ConnectionEvent::Opened) => drop(self.connections.inc()),
            Event::Connection(ConnectionEvent::Closed) => drop(self.connections.dec()),
            Event::Connection(ConnectionEvent::Rejected { reason, .. }) => {
                self.refused.get_or_create_owned(&[("reason", reason_name(reason))]).inc();
            }
            Event::UpstreamFailed { upstream, reason } => {
                let labels =
                    UpstreamErrorLabels { upstream: upstream.to_owned(), reason: failure_name(reason) };
                self.upstream_errors.get_or_create_owned(&labels).inc();
            }
            Event::UpstreamChecked { upstream, passed } => self.count_check(upstream, passed),
            Event::UpstreamUp { upstream, up } => self.show_upstream(upstream, up),
            Event::Reloaded { taken, .. } => {
                self.reloads.get_or_create_owned(&[("result", result_name(taken))]).inc();
            }
            Event::Connection(ConnectionEvent::Evicted) => drop(self.evicted.inc()),
            Event::Pardon(result) => {
                self.pardons.get_or_create_owned(&[("result", pardon_name(result))]).inc();
            }
            Event::Alarm(change) => self.alarms.set(change.words, change.route, change.begins),
            Event::GuessWorked(guess) => self.rules.guess_worked(&guess.route.name),
            Event::BodyRefused => drop(self.bodies_refused.inc()),
            Event::BadSignature => drop(self.bad_signatures.inc()),
            Event::Panicked => drop(self.panics.inc()),
            Event::KernelDrops(drops) => self.kernel.changed(drops),
            Event::KernelRefused { .. } => self.kernel.refused(),
            Event::Store(StoreEvent::Mirrored { .. })
            | Event::Store(StoreEvent::Leased(_))
            | Event::Store(StoreEvent::RaceLost(_))
            | Event::Store(StoreEvent::FellBack(_))
            | Event::Store(StoreEvent::Called { .. })
            | Event::Store(StoreEvent::Up(_))
            | Event::Store(StoreEvent::ServerLeft { .. }) => self.store.on_event(event),
            Event::Connection(ConnectionEvent::AcceptFailed(_))
            | Event::Store(StoreEvent::Warning(_))
            | Event::Store(StoreEvent::Report(_))
            | Event::Store(StoreEvent::Failed(_))
            | Event::Trouble(_)
            | Event::Miswired { .. }
            | Event::CommandReceived { .. }
            | Event::BucketsChanged(_)
            | Event::AdminTokenRejected { .. } => {}
        }
    }
}

fn upstream_labels(name: &str) -> UpstreamLabels {
    UpstreamLabels { upstream: name.to_owned() }
}

fn reason_name(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::Connections => "connections",
        RejectReason::ClientMax => "client_max",
        RejectReason::ClientRate => "client_rate",
        RejectReason::Handshake => "tls",
        RejectReason::UntrustedProxy => "untrusted",
        RejectReason::ProxyHeader => "proxy_protocol",
        RejectReason::Memory => "memory",
        RejectReason::Descriptors => "descriptors",
    }
}

const REASONS: [RejectReason; 8] = [
    RejectReason::Connections,
    RejectReason::ClientMax,
    RejectReason::ClientRate,
    RejectReason::Handshake,
    RejectReason::UntrustedProxy,
    RejectReason::ProxyHeader,
    RejectReason::Memory,
    RejectReason::Descriptors,
];

fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::Connect => "connect",
        Failure::Timeout => "timeout",
        Failure::Broken(_) => "broken",
        Failure::Busy => "busy",
        Failure::ConnectTimeout => "connect_timeout",
        Failure::Certificate => "certificate",
        Failure::Tls => "tls",
        Failure::Exhausted => "exhausted",
    }
}

fn pardon_name(result: PardonResult) -> &'static str {
    match result {
        PardonResult::Offered => "offered",
        PardonResult::Redeemed => "solved",
        PardonResult::Refused => "refused",
    }
}

fn result_name(taken: bool) -> &'static str {
    if taken { "ok" } else { "refused" }
}

#[cfg(test)]
mod tests;
