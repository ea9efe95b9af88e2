//! The limits of a running gate: `/api/v1/limits`.
//!
//! It only reads. Counts of decisions are those of the metrics, since the process began.

use std::sync::Arc;

use crate::config::values::LimitKey;
use crate::config::worst_cases;
use crate::engine::{Engine, Rules};
use crate::observe::admin::pages::{DecisionCounts, LimitPart, LimitsPage};
use crate::observe::metrics::Metrics;
use crate::observe::timestamp::rfc3339;
use crate::policy::{ByteLimit, Limit, LimitKind, Policy, Route};
use crate::time::Time;

/// Makes the page again at each call.
pub(super) fn of(
    engine: &Arc<Engine>,
    metrics: &Arc<Metrics>,
) -> impl Fn() -> LimitsPage + Send + Sync + 'static {
    let (engine, metrics) = (Arc::clone(engine), Arc::clone(metrics));
    move || {
        let (rules, now) = (engine.rules(), engine.time());
        let words = worst_cases(&rules.policy);
        let limits = rules.policy.limits.iter().enumerate();
        let limits = limits.filter(|(_, limit)| limit.kind == LimitKind::Rate).map(|(at, limit)| {
            let spec = words.iter().find(|(name, _)| **name == *limit.name).map(|(_, words)| words.as_str());
            limit_part(&rules, &metrics, at, limit, spec.unwrap_or_default(), now)
        });
        let of_bytes = rules.policy.byte_limits().iter().map(|limit| {
            let spec = words.iter().find(|(name, _)| **name == *limit.limit().name);
            byte_limit_part(&rules, &**limit, spec.map_or("", |(_, words)| words), now)
        });
        LimitsPage { limits: limits.chain(of_bytes).collect() }
    }
}

fn limit_part(
    rules: &Rules,
    metrics: &Metrics,
    at: usize,
    limit: &Limit,
    spec: &str,
    now: Time,
) -> LimitPart {
    let buckets = rules.buckets(&limit.name);
    let [admit, refuse, observe, exempt] = metrics.decisions_of(&limit.name);
    LimitPart {
        candidate_of: limit.candidate_of.as_deref().map(str::to_owned),
        routes: routes_of(&rules.policy, at),
        buckets: buckets.map_or(0, |buckets| buckets.live(now) as u64),
        forgotten: buckets.map_or(0, |buckets| buckets.forgotten()),
        decisions: DecisionCounts { admit, refuse, observe, exempt },
        ..settings(rules, limit, rules.configured.limits.get(at), spec)
    }
}

/// A limit that counts bytes: it decides nothing.
fn byte_limit_part(rules: &Rules, of_bytes: &dyn ByteLimit, spec: &str, now: Time) -> LimitPart {
    let (limit, (buckets, forgotten)) = (of_bytes.limit(), of_bytes.usage(now));
    let applies = |route: &&Route| route.defences.byte_limits_here().any(|here| here.name == limit.name);
    let mut configured = rules.configured.byte_limits().iter().map(|other| other.limit());
    LimitPart {
        routes: rules.policy.routes.iter().filter(applies).map(|route| route.name.to_string()).collect(),
        buckets: buckets as u64,
        forgotten,
        ..settings(rules, limit, configured.find(|other| other.name == limit.name), spec)
    }
}

/// What a limit is set to, now and by the file. All that was counted is left at 0.
fn settings(rules: &Rules, limit: &Limit, configured: Option<&Limit>, spec: &str) -> LimitPart {
    let configured = configured.map_or(limit.mode, |limit| limit.mode);
    let prefix = format!("{}: ", limit.name);
    LimitPart {
        name: limit.name.to_string(),
        mode: limit.mode.name().to_owned(),
        configured_mode: configured.name().to_owned(),
        mode_until: rules.mode_until(&limit.name, configured).map(rfc3339),
        key: LimitKey(limit.key.clone()).to_string(),
        spec: spec.strip_prefix(&prefix).unwrap_or(spec).to_owned(),
        candidate_of: None,
        routes: Vec::new(),
        buckets: 0,
        forgotten: 0,
        decisions: DecisionCounts { admit: 0, refuse: 0, observe: 0, exempt: 0 },
    }
}

fn routes_of(policy: &Policy, limit: usize) -> Vec<String> {
    let routes = policy.routes.iter().filter(|route| route.limits.contains(&limit));
    routes.map(|route| route.name.to_string()).collect()
}
