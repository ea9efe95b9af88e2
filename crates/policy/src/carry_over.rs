//! What new rules take over from the former ones, by the names of routes and limits.

use std::collections::HashMap;

use super::{Limit, Policy, Route, RouteDefences, permits};

impl Policy {
    /// Takes over what the defences of former rules know: of each route that keeps its name, and of all routes.
    pub fn carry_over(&mut self, former: &Self) {
        let known = former.routes.iter().filter(|route| !route.defences.is_empty());
        let all: Vec<&RouteDefences> = known.map(|route| &route.defences).collect();
        let by_name: HashMap<&str, &Route> =
            former.routes.iter().rev().map(|route| (&*route.name, route)).collect();
        for route in &mut self.routes {
            let same = by_name.get(&*route.name);
            route.defences.carry_over(same.map(|same| &same.defences), &all);
            if let Some(same) = same {
                route.permits.carry_over(&same.permits);
            }
        }
        let counted = former.limits.iter().filter(|limit| limit.permits.is_some());
        let by_name: HashMap<&str, &Limit> = counted.map(|limit| (&*limit.name, limit)).collect();
        for limit in &mut self.limits {
            let same = by_name.get(&*limit.name);
            permits::carry_over(&mut limit.permits, same.and_then(|same| same.permits.as_ref()));
        }
    }
}
