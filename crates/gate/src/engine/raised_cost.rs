//! The higher cost of strangers' attempts while an alarm is on.
//!
//! A defence decides when an alarm is on, and how much more an attempt costs then. Instead of smaller buckets there is a
//! higher cost, so a bucket keeps its tokens when an alarm begins and ends, and gates that share a store need not agree about
//! it. Attempts of known owners keep their cost: an owner can only try the account that it is known for.

use super::{Engine, Rules};
use crate::policy::{Alarm, Charges, RouteDefences};
use crate::time::Time;

impl Engine {
    /// Raises the cost of an attempt on a route with an alarm. While `may_be_known`, a stranger's attempt may still turn
    /// out to be one of the owner.
    pub(super) fn raise_cost(rules: &Rules, found: &mut Charges, may_be_known: bool, now: Time) {
        for (route, factor) in found.unsettled.notes.strangers_factors(now) {
            found.facts.is_alarmed = true;
            let Some(route) = rules.policy.routes.get(route) else { continue };
            if found.facts.is_owner || may_be_known {
                continue;
            }
            for charge in found.charges.iter_mut().filter(|charge| route.limits.contains(&charge.limit)) {
                if rules.policy.limits[charge.limit].charges_strangers() {
                    charge.cost = raised(charge.cost, factor, charge.spec.burst());
                }
            }
        }
    }
}

impl Rules {
    /// The names of the routes whose alarm is on.
    pub fn alarmed(&self) -> impl Iterator<Item = &str> {
        let is_on = |defences: &RouteDefences| defences.alarms().any(Alarm::is_on);
        self.policy.routes.iter().filter(move |route| is_on(&route.defences)).map(|route| &*route.name)
    }
}

/// The tokens that an attempt takes from a bucket of this burst, which costs `cost` otherwise. A full bucket is always
/// enough for what it would be enough for otherwise.
fn raised(cost: u32, factor: u32, burst: u32) -> u32 {
    cost.saturating_mul(factor).min(burst).max(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_is_enough_for_an_attempt_that_it_was_enough_for() {
        assert_eq!(
            [(1, 10), (1, 3), (3, 3), (5, 3), (1, 1)].map(|(cost, burst)| raised(cost, 4, burst)),
            [4, 3, 3, 5, 1]
        );
    }
}
