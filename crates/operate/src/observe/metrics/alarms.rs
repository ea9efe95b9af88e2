//! For each kind of alarm a gauge, which is 1 while it is on at a route.
//!
//! The defences of the rules in force name the gauges. A route that had an alarm keeps its series.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::policy::{AlarmWords, Policy};

/// The gauges, by their names.
#[derive(Debug, Default)]
pub(super) struct AlarmGauges(Mutex<BTreeMap<&'static str, AlarmGauge>>);

/// One gauge: its help text and its values.
#[derive(Debug)]
struct AlarmGauge {
    help: &'static str,
    routes: Family<RouteLabel, Gauge>,
}

type RouteLabel = [(&'static str, String); 1];

impl AlarmGauges {
    /// The alarms of new rules: their series exist from now on.
    pub(super) fn add_rules(&self, policy: &Policy) {
        policy.alarms().for_each(|(route, alarm)| self.with(alarm.words(), route, |_| {}));
    }

    /// An alarm began or ended on a route.
    pub(super) fn set(&self, words: &AlarmWords, route: &str, is_on: bool) {
        self.with(words, route, |gauge| _ = gauge.set(is_on.into()));
    }

    fn with(&self, words: &AlarmWords, route: &str, act: impl FnOnce(&Gauge)) {
        let mut gauges = self.gauges();
        let new = || AlarmGauge { help: words.help, routes: Family::default() };
        let AlarmGauge { routes, .. } = gauges.entry(words.gauge).or_insert_with(new);
        act(&routes.get_or_create_owned(&[("route", route.to_owned())]));
    }

    fn gauges(&self) -> MutexGuard<'_, BTreeMap<&'static str, AlarmGauge>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for AlarmGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, AlarmGauge { help, routes }) in &*self.gauges() {
            routes.encode(encoder.encode_descriptor(name, help, None, routes.metric_type())?)?;
        }
        Ok(())
    }
}
