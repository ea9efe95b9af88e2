//! Watches the outcomes of routes with `[route.NAME.attack]`, and begins and ends attack mode.
//!
//! It reads the counters of the engine: only the attempts of a route with the table are counted. When the mode begins and ends is judged by
//! the [`detector`]; what follows for attempts is the engine's; reports are sent by the webhooks.

mod detector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use self::detector::{AttackDetector, Measured};
use super::Parts;
use crate::engine::{OutcomeCounts, Rules};
use crate::event::{AttackChange, Event};
use crate::observe::webhook::Webhooks;
use crate::policy::AttackRule;
use crate::proxy::downstream::heartbeat::until_any_works;
use crate::time::Time;

/// A route that is watched.
struct WatchedRoute {
    rule: AttackRule,
    detector: AttackDetector,
}

type WatchedRoutes = BTreeMap<Arc<str>, WatchedRoute>;

/// Watches until it is dropped.
pub(super) async fn watch(parts: &Parts) {
    let (mut routes, mut webhooks) = (routes_at_start(parts), Webhooks::default());
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let rules = Arc::clone(&parts.engine.rules());
        let now = parts.engine.clock().now();
        check_routes(&rules, &mut routes, parts, &mut webhooks, now);
        webhooks.send_guesses(&parts.observers.guesses, parts.config.load().settings.upstream_trust.as_ref());
        webhooks.forget_finished();
        // Attack mode ends by time alone.
        if !routes.values().any(|watched| watched.detector.is_on()) {
            until_any_works(&parts.serving.heartbeats).await;
        }
    }
}

/// The routes of a process whose counters have begun at zero: attempts that come before the first look are counted, too.
fn routes_at_start(parts: &Parts) -> WatchedRoutes {
    let (rules, now) = (parts.engine.rules(), parts.engine.clock().now());
    let watched = rules.policy.routes.iter().filter_map(|route| {
        let (rule, mut detector) = (route.attack.as_deref()?.clone(), AttackDetector::default());
        detector.measure(OutcomeCounts::default(), now);
        Some((Arc::clone(&route.name), WatchedRoute { rule, detector }))
    });
    watched.collect()
}

fn check_routes(
    rules: &Rules,
    routes: &mut WatchedRoutes,
    parts: &Parts,
    webhooks: &mut Webhooks,
    now: Time,
) {
    let is_left = |name: &Arc<str>| {
        rules.policy.routes.iter().any(|route| route.name == *name && route.attack.is_some())
    };
    routes.retain(|name, watched| {
        let stays = is_left(name);
        if !stays && watched.detector.is_on() {
            let change = Measured::default().change(name, &watched.rule, false, now);
            report(parts, webhooks, &change);
        }
        stays
    });
    for route in &rules.policy.routes {
        let Some(rule) = route.attack.as_deref() else { continue };
        let watched = routes
            .entry(Arc::clone(&route.name))
            .or_insert_with(|| WatchedRoute { rule: rule.clone(), detector: AttackDetector::default() });
        watched.rule.clone_from(rule);
        let measured = watched.detector.measure(parts.engine.outcome_counts(&route.name), now);
        let was_on = watched.detector.is_on();
        let is_on = watched.detector.judge(measured, rule, now);
        // Each time: a reload may have come between.
        parts.engine.set_under_attack(&route.name, is_on);
        if is_on != was_on {
            report(parts, webhooks, &measured.change(&route.name, rule, is_on, now));
        }
    }
}

fn report(parts: &Parts, webhooks: &mut Webhooks, change: &AttackChange<'_>) {
    parts.observers.events.emit(&Event::AttackMode(*change));
    webhooks.send(change, parts.config.load().settings.upstream_trust.as_ref());
}

const PERIOD: Duration = Duration::from_secs(1);
