//! The result of a check for programs: for `tollgate check --format json` and for the admin API.

use tollgate_grammar::record::Optional;

use super::{CombinedBound, CombinedLimits, Diagnostic, Loaded, combined, worst_cases};
use crate::observe::admin::pages::{BoundPart, CheckPage, RouteBoundsPart, WorstCasePart};

impl Loaded {
    /// Mistakes and warnings, and the worst cases of limits and routes if there is no mistake.
    #[must_use]
    pub fn page(&self) -> CheckPage {
        let policies = || self.config.iter().map(|config| &config.policy);
        let limits = policies().flat_map(worst_cases);
        let limits = limits.map(|(limit, worst_case)| WorstCasePart { limit: limit.to_owned(), worst_case });
        let mode =
            self.config.as_ref().map(|config| if config.process.observes { "observe" } else { "enforce" });
        CheckPage {
            mode: mode.map(str::to_owned),
            ok: self.config.is_some(),
            diagnostics: self.diagnostics.iter().map(Diagnostic::record).collect(),
            left_out: Optional(None),
            limits: limits.collect(),
            routes: policies().flat_map(combined).map(|route| route_part(&route)).collect(),
        }
    }

    /// The page as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self.page()).unwrap_or_default()
    }
}

fn route_part(route: &CombinedLimits) -> RouteBoundsPart {
    let bound = |bound: &CombinedBound| BoundPart {
        who: bound.who.to_string(),
        at_once: bound.at_once,
        in_a_day: bound.in_a_day,
    };
    RouteBoundsPart {
        route: route.route.to_string(),
        worst_case: route.to_string(),
        bounds: route.bounds.iter().map(bound).collect(),
        bounded: route.bounded,
    }
}
