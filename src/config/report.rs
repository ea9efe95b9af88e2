//! The result of a check as JSON, for `tollgate check --format json` and for the admin API.

use serde_json::{Value, json};

use super::{CombinedBound, CombinedLimits, Diagnostic, Loaded, combined, worst_cases};

impl Loaded {
    /// `ok`, `diagnostics`, and the worst cases of `limits` and `routes` if there is no mistake.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let policies = || self.config.iter().map(|config| &config.policy);
        let limits = policies().flat_map(worst_cases);
        let limits = limits.map(|(limit, words)| json!({"limit": limit, "worst_case": words}));
        let routes = policies().flat_map(combined).map(|route| route_json(&route));
        json!({
            "mode": self.config.as_ref().map(|config| if config.observes { "observe" } else { "enforce" }),
            "ok": self.config.is_some(),
            "diagnostics": self.diagnostics.iter().map(Diagnostic::to_json).collect::<Vec<_>>(),
            "limits": limits.collect::<Vec<_>>(),
            "routes": routes.collect::<Vec<_>>(),
        })
    }
}

fn route_json(route: &CombinedLimits) -> Value {
    let bound = |bound: &CombinedBound| {
        let CombinedBound { who, at_once, in_a_day } = bound;
        json!({"who": who, "at_once": at_once, "in_a_day": in_a_day})
    };
    json!({
        "route": &*route.route,
        "worst_case": route.to_string(),
        "bounds": route.bounds.iter().map(bound).collect::<Vec<_>>(),
        "bounded": route.bounded,
    })
}
