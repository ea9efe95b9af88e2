//! Watches the alarms of all routes, tells when one begins and ends, and has reports sent.
//!
//! When an alarm begins and ends, its defence knows, and what follows for attempts, the engine.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::time::{MissedTickBehavior, interval};

use super::Parts;
use crate::event::{AlarmChange, Event};
use crate::observe::webhook::Webhooks;
use crate::policy::{AlarmFigures, AlarmWords};
use crate::proxy::downstream::heartbeat::until_any_works;

/// An alarm that is on, and how its end is told if a reload ends it.
struct RaisedAlarm {
    route: Arc<str>,
    words: &'static AlarmWords,
    report_to: Option<Uri>,
}

/// Watches until it is dropped.
pub(super) async fn watch(parts: &Parts) {
    let (mut raised, mut webhooks) = (Vec::new(), Webhooks::default());
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        raised = check_routes(&raised, parts);
        webhooks.send(&parts.observers.reports, parts.config.load().settings.upstream_trust.as_ref());
        webhooks.forget_finished();
        // An alarm ends by time alone.
        if raised.is_empty() {
            tokio::select! {
                () = until_any_works(&parts.serving.heartbeats) => {}
                () = parts.observers.reports.added() => {}
            }
        }
    }
}

/// Looks at all routes, and returns the alarms that are on. `raised` are those of the last look.
fn check_routes(raised: &[RaisedAlarm], parts: &Parts) -> Vec<RaisedAlarm> {
    let (rules, at) = (Arc::clone(&parts.engine.rules()), parts.engine.clock().now());
    let emit = |change| parts.observers.events.emit(&Event::Alarm(change));
    for RaisedAlarm { route, words, report_to } in raised {
        let mut alarms = rules.policy.alarms();
        if !alarms.any(|(name, alarm)| name == route && alarm.words() == *words && alarm.is_on()) {
            let (report_to, figures) = (report_to.as_ref(), AlarmFigures::default());
            emit(AlarmChange { route, words, report_to, begins: false, figures, at });
        }
    }
    let mut now_raised = Vec::new();
    for (route, alarm) in rules.policy.alarms() {
        let (words, report_to) = (alarm.words(), alarm.report_to());
        let figures = alarm.watch(at);
        if let Some(figures) = figures {
            emit(AlarmChange { route, words, report_to, begins: alarm.is_on(), figures, at });
        }
        if alarm.is_on() {
            now_raised.push(RaisedAlarm { route: Arc::clone(route), words, report_to: report_to.cloned() });
        }
    }
    now_raised
}

const PERIOD: Duration = Duration::from_secs(1);
