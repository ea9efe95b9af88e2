//! Attack mode: when a route counts as under attack, and what an attempt of a stranger costs then.
//!
//! It measures nothing and keeps no state. Instead of smaller buckets it gives attempts a higher cost, so a bucket keeps
//! its tokens when the mode begins and ends, and gates that share a store need not agree about it.

use http::Uri;

use tollgate_bucket::Span;

use super::attempt::Client;
use super::geo::Origin;
use super::key::{KeyHasher, KeyPart, PrefixLengths};
use super::{Limit, LimitKind};

/// The rule of a route: `[route.NAME.attack]`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttackRule {
    /// Failures a minute, at least 1: at this number or more the route may be under attack.
    pub failures: u64,
    /// Failed share of the attempts, above 0 and at most 1: the route is under attack if it reaches both.
    pub share: f64,
    /// How many times its cost an attempt of a stranger takes, at least 1.
    pub cost_factor: u32,
    /// The same for a network of which hardly any attempt succeeds, at least `cost_factor`; `None` if networks make no
    /// difference.
    pub worst_factor: Option<u32>,
    /// The time below the thresholds that ends it.
    pub calm: Span,
    /// Where begin and end are reported, by `http` or `https`.
    pub webhook: Option<Uri>,
}

/// The recent outcomes of a network's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkRecord {
    /// Attempts that succeeded.
    pub successes: u32,
    /// Attempts that failed.
    pub failures: u32,
}

/// Where an attempt comes from, as keyed hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptSource {
    /// Its client.
    pub client: u64,
    /// Its client's network, if a rule goes by what succeeds from there.
    pub network: Option<u64>,
}

impl AttackRule {
    /// Where an attempt on its route comes from, and what other routes that count it want to know of that.
    pub(super) fn source_of(
        &self,
        known: Option<AttemptSource>,
        hasher: &KeyHasher,
        origin: Origin,
        client: Client,
    ) -> AttemptSource {
        let network = || hasher.tag_of_network(origin, client);
        AttemptSource {
            client: hasher.tag_of_client(PrefixLengths::default(), client),
            network: known
                .and_then(|known| known.network)
                .or_else(|| self.worst_factor.and_then(|_| network())),
        }
    }

    /// The factor for a `scale` above 0: 1 / scale, rounded up, so that strangers get at most that share of the rate.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    pub fn cost_factor_of(scale: f64) -> u32 {
        // Without the tiny part, 1 / 0.1 or its like could be rounded up by an error of the division alone.
        ((1.0 / scale - 1e-9).ceil() as u32).max(1)
    }

    /// The factor for a stranger from a network with these outcomes: people succeed in more than half of their attempts, and
    /// who tries stolen passwords in less than one of fifty. Between the two it grows evenly.
    #[must_use]
    pub fn factor(&self, seen: NetworkRecord) -> u32 {
        let attempts = seen.successes.saturating_add(seen.failures);
        let Some(worst) = self.worst_factor.filter(|_| attempts >= MIN_ATTEMPTS) else {
            return self.cost_factor;
        };
        let share = u64::from(seen.successes) * 1000 / u64::from(attempts);
        let missing = OF_PEOPLE - share.clamp(OF_STUFFING, OF_PEOPLE);
        let more = u64::from(worst.saturating_sub(self.cost_factor)) * missing / (OF_PEOPLE - OF_STUFFING);
        self.cost_factor.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// The highest factor.
    #[must_use]
    pub fn highest_factor(&self) -> u32 {
        self.worst_factor.unwrap_or(self.cost_factor)
    }

    /// The tokens that an attempt takes from a bucket of this burst, which costs `cost` otherwise. A full bucket is always
    /// enough for what it would be enough for otherwise.
    #[must_use]
    pub fn cost(factor: u32, cost: u32, burst: u32) -> u32 {
        cost.saturating_mul(factor).min(burst).max(cost)
    }

    /// Whether attempts under this limit cost more: limits for known devices and sub-limits stay as they are.
    #[must_use]
    pub fn applies_to(limit: &Limit) -> bool {
        limit.kind == LimitKind::Rate && !limit.key.contains(&KeyPart::Owner)
    }
}

/// Attempts of a network from which on its share says something.
const MIN_ATTEMPTS: u32 = 20;
/// Of a thousand attempts.
const OF_PEOPLE: u64 = 500;
const OF_STUFFING: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> AttackRule {
        let (share, calm) = (0.8, Span::from_secs(600));
        AttackRule { failures: 60, share, cost_factor: 4, worst_factor: Some(10), calm, webhook: None }
    }

    #[test]
    fn the_factor_grows_as_fewer_attempts_of_a_network_succeed_and_stays_within_its_bounds() {
        let factor = |successes, failures| rule().factor(NetworkRecord { successes, failures });
        assert_eq!(factor(0, 19), 4, "too few to tell");
        assert_eq!(
            [(0, 20), (1, 99), (26, 74), (5, 5), (50, 50), (100, 0)].map(|(s, f)| factor(s, f)),
            [10, 10, 7, 4, 4, 4]
        );
        assert_eq!(factor(u32::MAX, u32::MAX), 4);
        let unaware = AttackRule { worst_factor: None, ..rule() };
        assert_eq!(unaware.factor(NetworkRecord { successes: 0, failures: 900 }), 4);
    }

    #[test]
    fn a_scale_becomes_a_factor_that_admits_at_most_that_share() {
        let factors = [1.0, 0.9, 0.5, 0.3, 0.25, 0.2, 0.1, 0.05, 0.001].map(AttackRule::cost_factor_of);
        assert_eq!(factors, [1, 2, 2, 4, 4, 5, 10, 20, 1000]);
    }

    #[test]
    fn a_full_bucket_is_enough_for_an_attempt_that_it_was_enough_for() {
        assert_eq!(
            [(1, 10), (1, 3), (3, 3), (5, 3), (1, 1)].map(|(cost, burst)| AttackRule::cost(4, cost, burst)),
            [4, 3, 3, 5, 1]
        );
    }
}
