//! The rate at which each client prefix may open connections.
//!
//! `governor` decides, with our clock and a bounded table of our own, because its stock keyed store grows with the number
//! of attackers. These limits are apart from the policy's buckets.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::Reference;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};

use crate::time::{Clock, Span, Time};

/// The rate of new connections from one prefix: one each `replenish`, `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionQuota {
    /// At least one nanosecond.
    pub replenish: Span,
    /// At least 1.
    pub burst: u32,
}

/// A limit on the rate of something that each client prefix does.
pub struct ClientRateLimiter {
    pub(super) quota: ConnectionQuota,
    limiter: KeyedRateLimiter,
    /// Reads the same states, and writes none.
    reader: KeyedRateLimiter,
    clock: GovernorClock,
}

type KeyedRateLimiter = RateLimiter<IpAddr, SharedStates, GovernorClock, NoOpMiddleware<GovernorInstant>>;

impl ClientRateLimiter {
    /// `None` if the quota is not valid.
    #[must_use]
    pub fn new(quota: ConnectionQuota, clock: &Clock) -> Option<Self> {
        let limit = Quota::with_period(quota.replenish.to_std())?.allow_burst(NonZeroU32::new(quota.burst)?);
        let (states, clock) = (Arc::<PrefixStateStore>::default(), GovernorClock(clock.clone()));
        let limiter = |is_read_only| {
            let states = SharedStates { states: Arc::clone(&states), is_read_only };
            KeyedRateLimiter::new(limit, states, clock.clone())
        };
        Some(Self { quota, limiter: limiter(false), reader: limiter(true), clock: clock.clone() })
    }

    /// Counts one of this prefix. Returns whether it is within the rate.
    pub fn allows(&self, prefix: IpAddr) -> bool {
        self.limiter.check_key(&prefix).is_ok()
    }

    /// The time until one more of this prefix is within the rate, zero if it is now; counts nothing.
    #[must_use]
    pub fn wait(&self, prefix: IpAddr) -> Span {
        let now = governor::clock::Clock::now(&self.clock);
        let until = self.reader.check_key(&prefix).err();
        until.map_or(Span::ZERO, |until| {
            Span::from_nanos(until.wait_time_from(now).as_nanos().try_into().unwrap_or(u64::MAX))
        })
    }
}

/// governor's states of the prefixes that connected lately, in bounded space: the state nearest to a full bucket is
/// evicted, as in the memory store.
struct PrefixStateStore {
    sets: Box<[Mutex<StateSet>]>,
    hasher: RandomState,
}

type StateSet = [(Option<IpAddr>, u64); WAYS];

impl Default for PrefixStateStore {
    fn default() -> Self {
        Self { sets: (0..SETS).map(|_| Mutex::new([(None, 0); WAYS])).collect(), hasher: RandomState::new() }
    }
}

/// The states, for a limiter that counts or for one that only reads.
struct SharedStates {
    states: Arc<PrefixStateStore>,
    is_read_only: bool,
}

impl StateStore for SharedStates {
    type Key = IpAddr;

    fn measure_and_replace<T, F, E>(&self, prefix: &IpAddr, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let states = &self.states;
        let set = usize::try_from(states.hasher.hash_one(prefix) % SETS as u64).unwrap_or(0);
        let mut slots = states.sets[set].lock().unwrap_or_else(PoisonError::into_inner);
        let own = slots.iter().position(|(key, _)| *key == Some(*prefix));
        let (verdict, next) = decide(own.map(|slot| slots[slot].1.into()))?;
        if self.is_read_only {
            return Ok(verdict);
        }
        let nearest_to_full = || (0..WAYS).min_by_key(|&slot| slots[slot].1).unwrap_or(0);
        let slot = own.unwrap_or_else(nearest_to_full);
        slots[slot] = (Some(*prefix), next.into());
        Ok(verdict)
    }
}

/// A [`Clock`] for governor.
#[derive(Debug, Clone)]
struct GovernorClock(Clock);

impl governor::clock::Clock for GovernorClock {
    type Instant = GovernorInstant;

    fn now(&self) -> GovernorInstant {
        GovernorInstant(self.0.now())
    }
}

/// A [`Time`] as governor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GovernorInstant(Time);

impl Reference for GovernorInstant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.since(earlier.0).as_nanos().into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.before(Span::from_nanos(duration.into())))
    }
}

impl Add<Nanos> for GovernorInstant {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self(
            self.0
                .after(Span::from_nanos(Duration::from(duration).as_nanos().try_into().unwrap_or(u64::MAX))),
        )
    }
}

const SETS: usize = 2048;
const WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_told_without_counting() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let quota = ConnectionQuota { replenish: Span::from_secs(60), burst: 2 };
        let rate = ClientRateLimiter::new(quota, &clock).unwrap();
        let guesser = IpAddr::from([203, 0, 113, 7]);
        assert!((0..9).all(|_| rate.wait(guesser) == Span::ZERO));
        assert!(rate.allows(guesser) && rate.wait(guesser) == Span::ZERO && rate.allows(guesser));
        assert_eq!(rate.wait(guesser), Span::from_secs(60));
        assert_eq!(rate.wait(IpAddr::from([203, 0, 113, 8])), Span::ZERO);
    }

    #[test]
    fn a_flood_of_prefixes_does_not_give_a_spent_one_a_fresh_burst() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let quota = ConnectionQuota { replenish: Span::from_secs(60), burst: 10 };
        let rate = ClientRateLimiter::new(quota, &clock).unwrap();
        let spent = IpAddr::from([203, 0, 113, 7]);
        (0..10).for_each(|_| assert!(rate.allows(spent)));
        for other in 0..100_000_u32 {
            assert!(rate.allows(IpAddr::from((0x0A00_0000 + other).to_be_bytes())));
        }
        assert!(!rate.allows(spent));
    }
}
