//! Attack mode: when a route counts as under attack, and what an attempt of a stranger costs then.
//!
//! It measures nothing and keeps no state. Instead of smaller buckets it gives attempts a higher cost, so a bucket keeps
//! its tokens when the mode begins and ends, and gates that share a store need not agree about it.

use http::Uri;

use tollgate_bucket::Span;

use super::{Limit, LimitKind};
use crate::key::KeyPart;

/// The rule of a route: `[route.NAME.attack]`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttackRule {
    /// Failures a minute, at least 1: at this number or more the route may be under attack.
    pub failures: u64,
    /// Failed share of the attempts, above 0 and at most 1: the route is under attack if it reaches both.
    pub share: f64,
    /// How many times its cost an attempt of a stranger takes, at least 1.
    pub cost_factor: u32,
    /// The time below the thresholds that ends it.
    pub calm: Span,
    /// Where begin and end are reported, by `http` or `https`.
    pub webhook: Option<Uri>,
}

impl AttackRule {
    /// The factor for a `scale` above 0: 1 / scale, rounded up, so that strangers get at most that share of the rate.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    pub fn cost_factor_of(scale: f64) -> u32 {
        // Without the tiny part, 1 / 0.1 or its like could be rounded up by an error of the division alone.
        ((1.0 / scale - 1e-9).ceil() as u32).max(1)
    }

    /// The tokens that an attempt of a stranger takes from a bucket of this burst, which costs `cost` otherwise. A full
    /// bucket is always enough for what it would be enough for otherwise.
    #[must_use]
    pub fn cost(&self, cost: u32, burst: u32) -> u32 {
        cost.saturating_mul(self.cost_factor).min(burst).max(cost)
    }

    /// Whether attempts under this limit cost more: limits for known devices and sub-limits stay as they are.
    #[must_use]
    pub fn applies_to(limit: &Limit) -> bool {
        limit.kind == LimitKind::Rate && !limit.key.contains(&KeyPart::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_becomes_a_factor_that_admits_at_most_that_share() {
        let factors = [1.0, 0.9, 0.5, 0.3, 0.25, 0.2, 0.1, 0.05, 0.001].map(AttackRule::cost_factor_of);
        assert_eq!(factors, [1, 2, 2, 4, 4, 5, 10, 20, 1000]);
    }

    #[test]
    fn a_full_bucket_is_enough_for_an_attempt_that_it_was_enough_for() {
        let rule = AttackRule {
            failures: 60,
            share: 0.8,
            cost_factor: 4,
            calm: Span::from_secs(600),
            webhook: None,
        };
        assert_eq!(
            [(1, 10), (1, 3), (3, 3), (5, 3), (1, 1)].map(|(cost, burst)| rule.cost(cost, burst)),
            [4, 3, 3, 5, 1]
        );
    }
}
