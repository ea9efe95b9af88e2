//! Counts calls to a shared store, and what is decided without it.
//!
//! Nothing of it is shown for buckets in memory. The surprising thing: a refusal that the mirror repeats is no question, so the
//! two numbers beside each other say what sharing costs.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Label;
use crate::event::{Event, Fallback, StoreCallResult};
use crate::time::Span;

/// Counts questions and fallbacks.
#[derive(Debug)]
pub(super) struct StoreCounters {
    up: Family<NoLabels, Gauge>,
    requests: Family<Label, Counter>,
    duration: Family<NoLabels, Histogram, fn() -> Histogram>,
    fallbacks: Family<Label, Counter>,
    mirrored: Family<LimitLabel, Counter>,
}

/// So that nothing is shown where nothing was counted.
type NoLabels = [(&'static str, &'static str); 0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: Arc<str>,
}

impl Default for StoreCounters {
    fn default() -> Self {
        Self {
            up: Family::default(),
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            fallbacks: Family::default(),
            mirrored: Family::default(),
        }
    }
}

impl StoreCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("tollgate_store_up", "Whether the shared store is asked", self.up.clone());
        let requests = self.requests.clone();
        registry.register("tollgate_store_requests", "Questions to the shared store", requests);
        let (name, help) =
            ("tollgate_store_request_duration_seconds", "How long the shared store took to answer");
        registry.register(name, help, self.duration.clone());
        let (name, help) = ("tollgate_store_fallbacks", "Attempts decided without the shared store");
        registry.register(name, help, self.fallbacks.clone());
        let (name, help) = ("tollgate_mirror_answers", "Refusals repeated without asking the shared store");
        registry.register(name, help, self.mirrored.clone());
    }

    pub(super) fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Mirrored { limit } => {
                self.mirrored.get_or_create_owned(&LimitLabel { limit: Arc::clone(limit) }).inc();
            }
            Event::FellBack(way) => {
                self.fallbacks.get_or_create_owned(&[("action", fallback_name(way))]).inc();
            }
            Event::StoreCalled { result, took } => {
                if result == StoreCallResult::Ok {
                    // It is asked for the first time before anything is decided, so it is shown as up from then on.
                    self.up.get_or_create_owned(&[]).set(1);
                }
                self.requests.get_or_create_owned(&[("result", result_name(result))]).inc();
                self.duration.get_or_create_owned(&[]).observe(seconds(took));
            }
            Event::StoreUp { up, .. } => {
                self.up.get_or_create_owned(&[]).set(i64::from(up));
            }
            _ => {}
        }
    }
}

fn seconds(span: Span) -> f64 {
    span.to_std().as_secs_f64()
}

fn fallback_name(way: Fallback) -> &'static str {
    match way {
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
        StoreCallResult::Error => "error",
    }
}

/// Around what stores take that are near, and what attempts wait for them at most.
const BOUNDS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
