//! Counts calls to a shared store, and what is decided without it.
//!
//! Nothing is shown for buckets in memory. A refusal repeated from the mirror and an admission by a lease are not
//! requests, so these numbers side by side show what sharing costs.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Label;
use crate::event::{Event, Fallback, StoreCallResult, StoreChange, StoreEvent};
use crate::time::Span;

/// Counts requests and fallbacks.
#[derive(Debug)]
pub(super) struct StoreCounters {
    up: Family<NoLabels, Gauge>,
    /// Shown for stores of several servers.
    server_up: Family<ServerLabel, Gauge>,
    requests: Family<Label, Counter>,
    duration: Family<NoLabels, Histogram, fn() -> Histogram>,
    fallbacks: Family<Label, Counter>,
    mirrored: Family<LimitLabel, Counter>,
    leased: Family<LimitLabel, Counter>,
    races_lost: Family<LimitLabel, Counter>,
}

/// A family without labels, which shows nothing before its first value.
type NoLabels = [(&'static str, &'static str); 0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabel {
    server: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: Arc<str>,
}

impl Default for StoreCounters {
    fn default() -> Self {
        Self {
            up: Family::default(),
            server_up: Family::default(),
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            fallbacks: Family::default(),
            mirrored: Family::default(),
            leased: Family::default(),
            races_lost: Family::default(),
        }
    }
}

impl StoreCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Whether all servers of the shared store are available";
        registry.register("tollgate_store_up", help, self.up.clone());
        let help = "Whether a server of the shared store is available";
        registry.register("tollgate_store_server_up", help, self.server_up.clone());
        let requests = self.requests.clone();
        registry.register("tollgate_store_requests", "Requests to the shared store", requests);
        let (name, help) =
            ("tollgate_store_request_duration_seconds", "How long the shared store took to answer");
        registry.register(name, help, self.duration.clone());
        let (name, help) = ("tollgate_store_fallbacks", "Attempts decided without the shared store");
        registry.register(name, help, self.fallbacks.clone());
        let (name, help) = ("tollgate_mirror_answers", "Refusals repeated without asking the shared store");
        registry.register(name, help, self.mirrored.clone());
        let (name, help) = ("tollgate_lease_answers", "Attempts admitted without asking the shared store");
        registry.register(name, help, self.leased.clone());
        let (name, help) =
            ("tollgate_store_races_lost", "Operations that ran out of time because of other gates' writes");
        registry.register(name, help, self.races_lost.clone());
    }

    pub(super) fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Store(StoreEvent::Mirrored { limit }) => {
                self.mirrored.get_or_create_owned(&LimitLabel { limit: Arc::clone(limit) }).inc();
            }
            Event::Store(StoreEvent::Leased(limit)) => {
                self.leased.get_or_create_owned(&LimitLabel { limit: Arc::clone(limit) }).inc();
            }
            Event::Store(StoreEvent::RaceLost(limit)) => {
                self.races_lost.get_or_create_owned(&LimitLabel { limit: Arc::clone(limit) }).inc();
            }
            Event::Store(StoreEvent::FellBack(fallback)) => {
                self.fallbacks.get_or_create_owned(&[("action", fallback_name(fallback))]).inc();
            }
            Event::Store(StoreEvent::Called { result, took }) => {
                self.requests.get_or_create_owned(&[("result", result_name(result))]).inc();
                self.duration.get_or_create_owned(&[]).observe(seconds(took));
            }
            Event::Store(StoreEvent::Up(StoreChange { server, up, is_store_up, .. })) => {
                self.up.get_or_create_owned(&[]).set(i64::from(is_store_up));
                if !server.is_empty() {
                    let label = ServerLabel { server: server.to_owned() };
                    self.server_up.get_or_create_owned(&label).set(i64::from(up));
                }
            }
            Event::Store(StoreEvent::ServerLeft { server, is_store_up }) => {
                self.up.get_or_create_owned(&[]).set(i64::from(is_store_up));
                self.server_up.remove(&ServerLabel { server: server.to_owned() });
            }
            _ => {}
        }
    }
}

fn seconds(span: Span) -> f64 {
    span.to_std().as_secs_f64()
}

fn fallback_name(fallback: Fallback) -> &'static str {
    match fallback {
        Fallback::Local => "local",
        Fallback::Allow => "allow",
        Fallback::Deny => "deny",
    }
}

fn result_name(result: StoreCallResult) -> &'static str {
    match result {
        StoreCallResult::Ok => "ok",
        StoreCallResult::Conflict => "lost",
        StoreCallResult::Timeout => "timeout",
        StoreCallResult::Throttled => "throttled",
        StoreCallResult::Error => "error",
    }
}

/// From the usual latency of a nearby store to the longest wait of an attempt.
const BOUNDS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
