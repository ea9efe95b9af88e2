//! Attack mode: which routes are under attack, and the higher cost of strangers' attempts there.
//!
//! The layer above decides when a route is under attack. Attempts from known devices keep their cost: such a device can only try the
//! account that it is known for.

mod distinct_outcomes;
mod network_outcomes;

use std::sync::atomic::{AtomicBool, Ordering};

pub use self::distinct_outcomes::OutcomeCounts;

use self::distinct_outcomes::DistinctOutcomes;
use self::network_outcomes::NetworkOutcomes;
use super::{Engine, Rules};
use crate::event::Outcome;
use crate::policy::{AttackRule, AttemptSource, Charges, Policy, Route};

/// What came of attempts, as attack mode asks.
#[derive(Debug, Default)]
pub(super) struct RecentOutcomes {
    of_networks: NetworkOutcomes,
    of_accounts: DistinctOutcomes,
}

/// Which routes are under attack.
#[derive(Debug, Default)]
pub(super) struct AttackModes {
    /// Whether any of them is: the only thing that an attempt reads in peace.
    any: AtomicBool,
    routes: Box<[AtomicBool]>,
}

impl AttackModes {
    /// In peace.
    pub(super) fn of(policy: &Policy) -> Self {
        let routes = policy.routes.iter().map(|_| AtomicBool::new(false)).collect();
        Self { any: AtomicBool::new(false), routes }
    }

    fn is_on(&self, route: usize) -> bool {
        self.routes.get(route).is_some_and(|on| on.load(Ordering::Relaxed))
    }

    fn set(&self, route: usize, on: bool) {
        if let Some(flag) = self.routes.get(route) {
            flag.store(on, Ordering::Relaxed);
        }
        let any = self.routes.iter().any(|flag| flag.load(Ordering::Relaxed));
        self.any.store(any, Ordering::Relaxed);
    }
}

impl Engine {
    /// The outcomes of a route by its name; zero if it has no attack mode.
    #[must_use]
    pub fn outcome_counts(&self, route: &str) -> OutcomeCounts {
        self.outcomes.of_accounts.of_route(route)
    }

    /// Counts what came of an attempt for each of these routes that has attack mode: at this account, and from where.
    pub(super) fn count_outcome<'r>(
        &self,
        routes: impl Iterator<Item = &'r Route>,
        account: Option<u64>,
        source: AttemptSource,
        outcome: Outcome,
    ) {
        let now = self.time();
        for route in routes.filter(|route| route.attack.is_some()) {
            self.outcomes.of_accounts.count(&route.name, account, source.client, outcome, now);
        }
        if let Some(network) = source.network {
            self.outcomes.of_networks.count(network, outcome, now);
        }
    }

    /// Forgets what came of attempts on routes that have no attack mode any more.
    pub(super) fn forget_outcomes(&self, policy: &Policy) {
        let is_watched =
            |name: &str| policy.routes.iter().any(|route| *route.name == *name && route.attack.is_some());
        self.outcomes.of_accounts.retain(is_watched);
    }

    /// Puts a route, by name, under attack or at peace. A route without an [`AttackRule`] is never under attack.
    pub fn set_under_attack(&self, route: &str, on: bool) {
        self.rules.load().set_under_attack(route, on);
    }

    /// Raises the cost of an attempt on a route under attack. While `may_be_known`, an attempt that is not from a known
    /// device may still turn out to be from one.
    pub(super) fn raise_cost_under_attack(&self, rules: &Rules, found: &mut Charges, may_be_known: bool) {
        if !rules.attack_modes.any.load(Ordering::Relaxed) {
            return;
        }
        for &at in &found.routes {
            let route = rules.policy.routes.get(at).filter(|_| rules.attack_modes.is_on(at));
            let Some((route, rule)) = route.and_then(|route| Some((route, route.attack.as_deref()?))) else {
                continue;
            };
            found.facts.is_under_attack = true;
            if found.facts.is_owner || may_be_known {
                continue;
            }
            let of_network = |network| self.outcomes.of_networks.get(network, self.time());
            let network = found.unsettled.source.and_then(|source| source.network);
            let factor = rule.factor(network.map(of_network).unwrap_or_default());
            for charge in found.charges.iter_mut().filter(|charge| route.limits.contains(&charge.limit)) {
                if AttackRule::applies_to(&rules.policy.limits[charge.limit]) {
                    charge.cost = AttackRule::cost(factor, charge.cost, charge.spec.burst());
                }
            }
        }
    }
}

impl Rules {
    fn set_under_attack(&self, route: &str, on: bool) {
        let is_it = |known: &Route| *known.name == *route && known.attack.is_some();
        if let Some(at) = self.policy.routes.iter().position(is_it) {
            self.attack_modes.set(at, on);
        }
    }

    /// The names of the routes that are under attack.
    pub fn under_attack(&self) -> impl Iterator<Item = &str> {
        let routes = self.policy.routes.iter().enumerate();
        routes.filter(|(at, _)| self.attack_modes.is_on(*at)).map(|(_, route)| &*route.name)
    }

    /// The same routes are under attack as by the former rules.
    pub(super) fn keep_attack_modes(&self, former: &Self) {
        former.under_attack().for_each(|route| self.set_under_attack(route, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Continuous, Spec};
    use crate::engine::{Decision, Reservation};
    use crate::event::Events;
    use crate::policy::Limit;
    use crate::policy::attempt::{Attempt, AttemptBody, Client};
    use crate::time::{Clock, Span};

    fn policy(rule: Option<AttackRule>) -> Policy {
        let spec = Spec::Continuous(Continuous::new(12, Span::from_secs(3600), 12).unwrap());
        let route = |name: &str| Route {
            limits: vec![0],
            ..Route::new(name, vec![format!("POST /{name}").parse().unwrap()])
        };
        let attacked = Route { attack: rule.map(Box::new), ..route("login") };
        Policy::new(vec![attacked, route("other")], vec![Limit::new("address", spec)])
    }

    fn rule() -> AttackRule {
        AttackRule {
            failures: 60,
            share: 0.8,
            cost_factor: 4,
            worst_factor: None,
            calm: Span::from_secs(600),
            webhook: None,
        }
    }

    fn admitted(engine: &Engine, path: &str, host: u8, times: usize) -> usize {
        let (headers, clock) = (http::HeaderMap::new(), engine.clock().clone());
        let attempt = Attempt {
            method: &http::Method::POST,
            path,
            query: None,
            host: "a",
            client: Client::from_ip([192, 0, 2, host].into()),
            headers: &headers,
            body: AttemptBody::Whole(&[]),
            descriptor: None,
            tls: None,
        };
        let decide = || engine.decide_in_memory(&engine.rules(), &attempt, clock.now()).unwrap();
        let is_admitted = |decision: &Decision| matches!(decision, Decision::Admitted(Reservation { .. }));
        (0..times).filter(|_| is_admitted(&decide())).count()
    }

    fn engine() -> Engine {
        Engine::new(policy(Some(rule())), 1000, Clock::system(), Events::default()).unwrap()
    }

    #[test]
    fn under_attack_a_stranger_gets_a_share_of_the_tokens_that_are_there() {
        let engine = engine();
        assert_eq!(admitted(&engine, "/login", 1, 4), 4, "in peace");
        engine.set_under_attack("login", true);
        assert_eq!((admitted(&engine, "/login", 1, 9), admitted(&engine, "/login", 2, 9)), (2, 3));
        engine.set_under_attack("login", false);
        assert_eq!(admitted(&engine, "/login", 3, 20), 12, "in peace again");
    }

    #[test]
    fn another_route_with_the_same_limit_pays_what_it_always_paid() {
        let engine = engine();
        engine.set_under_attack("login", true);
        engine.set_under_attack("other", true);
        assert_eq!(engine.rules().under_attack().collect::<Vec<_>>(), ["login"], "the other one has no rule");
        assert_eq!(admitted(&engine, "/other", 1, 20), 12);
    }

    #[test]
    fn a_reload_keeps_the_mode_of_a_route_that_keeps_its_rule() {
        let engine = engine();
        engine.set_under_attack("login", true);
        engine.replace(policy(Some(AttackRule { cost_factor: 6, ..rule() }))).unwrap();
        assert_eq!(admitted(&engine, "/login", 1, 9), 2);
        engine.replace(policy(None)).unwrap();
        assert_eq!(engine.rules().under_attack().count(), 0);
    }
}
