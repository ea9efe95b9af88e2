//! The limits of a running gate: `/api/v1/limits`.
//!
//! It only reads. Counts of decisions are those of the metrics, since the process began.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::values::LimitKey;
use crate::config::worst_cases;
use crate::engine::{Engine, Rules};
use crate::observe::metrics::Metrics;
use crate::observe::timestamp::rfc3339;
use crate::policy::{Limit, LimitKind, Policy};
use crate::time::Time;

/// Makes the page anew at each call.
pub(super) fn of(engine: &Arc<Engine>, metrics: &Arc<Metrics>) -> impl Fn() -> Value + Send + Sync + 'static {
    let (engine, metrics) = (Arc::clone(engine), Arc::clone(metrics));
    move || {
        let (rules, now) = (engine.rules(), engine.time());
        let words = worst_cases(&rules.policy);
        let limits = rules.policy.limits.iter().enumerate();
        let limits = limits.filter(|(_, limit)| limit.kind == LimitKind::Rate).map(|(at, limit)| {
            let spec = words.iter().find(|(name, _)| **name == *limit.name).map(|(_, words)| words.as_str());
            limit_json(&rules, &metrics, (at, limit), spec.unwrap_or_default(), now)
        });
        json!({"limits": limits.collect::<Vec<_>>()})
    }
}

fn limit_json(
    rules: &Rules,
    metrics: &Metrics,
    (at, limit): (usize, &Limit),
    spec: &str,
    now: Time,
) -> Value {
    let configured = rules.configured.limits.get(at).map_or(limit.mode, |limit| limit.mode);
    let changed = rules.overrides.mode_of(&limit.name, configured);
    let buckets = rules.buckets(&limit.name);
    let prefix = format!("{}: ", limit.name);
    json!({
        "name": &*limit.name,
        "mode": limit.mode.name(),
        "configured_mode": configured.name(),
        "mode_until": changed.and_then(|changed| changed.until).map(rfc3339),
        "key": LimitKey(limit.key.clone()).to_string(),
        "spec": spec.strip_prefix(&prefix).unwrap_or(spec),
        "candidate_of": limit.candidate_of.as_deref(),
        "routes": routes_of(&rules.policy, at),
        "buckets": buckets.map_or(0, |buckets| buckets.live(now)),
        "forgotten": buckets.map_or(0, |buckets| buckets.forgotten()),
        "decisions": decisions(metrics, &limit.name),
    })
}

fn routes_of(policy: &Policy, limit: usize) -> Vec<&str> {
    let routes = policy.routes.iter().filter(|route| route.limits.contains(&limit));
    routes.map(|route| &*route.name).collect()
}

fn decisions(metrics: &Metrics, limit: &str) -> Value {
    let counts = metrics.decisions_of(limit).into_iter();
    Value::Object(counts.map(|(decision, count)| (decision.to_owned(), count.into())).collect())
}
