//! Limits connections: how many there may be in all and per prefix, and how fast new ones may come.
//!
//! It decides before a byte is read. `governor` decides on the rate, with our clock and a bounded table of our own,
//! because its stock keyed store grows with the number of attackers. These limits are apart from the policy's buckets.
//! The machine's resources are left to [`overload`](super::overload).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::ops::Add;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use governor::clock::Reference;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};
use tokio::time::sleep;

use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::eviction::{EvictOutcome, EvictionEntry, EvictionRequest, Evictions};
pub use super::overload::AdmitError;
use super::overload::OverloadManager;
use super::stream::NetStream;
use crate::time::{Clock, Span, Time};

/// The limits on connections.
pub struct ConnectionLimit {
    connections: Arc<ConnectionSlots>,
    per_client: AtomicUsize,
    prefixes: Arc<PrefixTable>,
    evictions: Arc<Evictions>,
    rate: ArcSwapOption<ClientRateLimiter>,
    overload: OverloadManager,
    clock: Clock,
}

/// The limit on the rate of new connections.
struct ClientRateLimiter {
    quota: ConnectionQuota,
    limiter: KeyedRateLimiter,
}

type KeyedRateLimiter = RateLimiter<IpAddr, PrefixStateStore, GovernorClock, NoOpMiddleware<GovernorInstant>>;

/// An admitted connection; dropping it frees its slot.
#[derive(Debug)]
pub struct Permit {
    _slot: ConnectionSlot,
    entry: EvictionEntry,
    prefix_entry: Option<PrefixEntry>,
}

impl Permit {
    /// Reports since when the connection is idle; `None` while it serves. Returns whether it is to close, as long as it
    /// stays idle. To be called by the connection's own task, which is woken when the result changes.
    pub fn poll_evicted(&self, idle_since: Option<Time>, cx: &Context<'_>) -> bool {
        self.entry.poll_evicted(idle_since, cx)
    }

    /// Counts a request of this client's prefix at an upstream. Returns their number; `None` if they are not counted.
    pub fn request_begins(&self) -> Option<usize> {
        let entry = self.prefix_entry.as_ref()?;
        Some(entry.counters.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Counts the end of such a request.
    pub fn request_ends(&self) {
        if let Some(entry) = &self.prefix_entry {
            entry.counters.requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The rate of new connections from one prefix: one each `replenish`, `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionQuota {
    /// At least one nanosecond.
    pub replenish: Span,
    /// At least 1.
    pub burst: u32,
}

impl ConnectionLimit {
    /// Limits of `connections` in all, `per_client` from one prefix, and new ones at this rate.
    #[must_use]
    pub fn new(connections: usize, per_client: usize, rate: Option<ConnectionQuota>, clock: &Clock) -> Self {
        Self {
            connections: ConnectionSlots::new(connections),
            per_client: AtomicUsize::new(per_client),
            prefixes: Arc::default(),
            evictions: Evictions::new(clock),
            rate: ArcSwapOption::new(rate.and_then(|rate| ClientRateLimiter::new(rate, clock))),
            overload: OverloadManager::from_rlimit(),
            clock: clock.clone(),
        }
    }

    /// Changes the limits. Open connections stay. If the rate changes, each prefix has its whole burst again.
    pub fn reconfigure(&self, connections: usize, per_client: usize, rate: Option<ConnectionQuota>) {
        self.connections.resize(connections);
        self.per_client.store(per_client, Ordering::Relaxed);
        if self.rate.load().as_ref().map(|limiter| limiter.quota) != rate {
            self.rate.store(rate.and_then(|rate| ClientRateLimiter::new(rate, &self.clock)));
        }
    }

    /// Takes a slot for a client of this prefix. If none is free, an idle connection is evicted; if none is idle, this
    /// waits. Meanwhile each listener holds back at most one client, and the listen backlog the others.
    ///
    /// # Errors
    /// [`AdmitError::Connections`] if all idle connections belong to prefixes that hold fewer than this one.
    pub async fn acquire_slot(&self, prefix: Option<IpAddr>) -> Result<ConnectionSlot, AdmitError> {
        if let Some(slot) = self.connections.try_take() {
            return Ok(slot);
        }
        let mut slot = pin!(self.connections.take());
        loop {
            if let EvictOutcome::Denied = self.evict_for(prefix) {
                return Err(AdmitError::Connections);
            }
            tokio::select! {
                biased;
                slot = &mut slot => return Ok(slot),
                () = sleep(EVICT_RETRY) => {}
            }
        }
    }

    /// Checks that the machine has the resources for this connection, which has its slot already; an idle connection
    /// may be evicted for it.
    ///
    /// # Errors
    /// The resource that is short.
    pub async fn check_resources(
        &self,
        stream: &NetStream,
        prefix: Option<IpAddr>,
    ) -> Result<(), AdmitError> {
        let Err(short) = self.overload.admit(stream, &self.connections) else { return Ok(()) };
        match self.evict_for(prefix) {
            EvictOutcome::Requested(leaving) if has_gone(&leaving).await => match short {
                // This connection keeps its high descriptor, and the next one gets the freed one.
                AdmitError::Descriptors => Ok(()),
                _ => self.overload.admit(stream, &self.connections),
            },
            _ => Err(short),
        }
    }

    fn evict_for(&self, prefix: Option<IpAddr>) -> EvictOutcome {
        self.evictions.evict(prefix.map_or(0, |prefix| self.prefixes.connections_of(prefix)))
    }

    /// Open connections, and those that are being admitted.
    #[must_use]
    pub fn active(&self) -> usize {
        self.connections.taken()
    }

    /// Limits the connections while memory is short; `None` leaves only `proxy.connections`. Open connections stay.
    pub fn set_ceiling(&self, ceiling: Option<usize>) {
        self.overload.set_ceiling(ceiling);
    }

    /// Admits a client or rejects it. The limits apply per `prefix`; `None` is a client without limits: one on a Unix
    /// socket, or a proxy in front of us that speaks for many.
    ///
    /// # Errors
    /// Why it is rejected.
    pub fn admit(&self, slot: ConnectionSlot, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        let Some(prefix) = prefix else {
            return Ok(Permit { _slot: slot, entry: self.evictions.register(None), prefix_entry: None });
        };
        if self.rate.load().as_ref().is_some_and(|rate| rate.limiter.check_key(&prefix).is_err()) {
            return Err(AdmitError::ClientRate);
        }
        let max = self.per_client.load(Ordering::Relaxed);
        let prefix_entry = PrefixTable::enter(&self.prefixes, prefix, max).ok_or(AdmitError::ClientMax)?;
        let entry = self.evictions.register(Some(Arc::clone(&prefix_entry.counters.connections)));
        Ok(Permit { _slot: slot, entry, prefix_entry: Some(prefix_entry) })
    }
}

impl std::fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionLimit").field("free", &self.connections.free()).finish_non_exhaustive()
    }
}

impl ClientRateLimiter {
    fn new(wanted: ConnectionQuota, clock: &Clock) -> Option<Arc<Self>> {
        let quota = Quota::with_period(wanted.replenish.to_std())?;
        let quota = quota.allow_burst(NonZeroU32::new(wanted.burst)?);
        Some(Arc::new(Self {
            quota: wanted,
            limiter: KeyedRateLimiter::new(quota, PrefixStateStore::default(), GovernorClock(clock.clone())),
        }))
    }
}

/// The counters of each prefix with open connections; bounded by the connections in all.
#[derive(Debug, Default)]
struct PrefixTable(Mutex<HashMap<IpAddr, Arc<PrefixCounters>>>);

/// The counters of one prefix.
#[derive(Debug, Default)]
struct PrefixCounters {
    /// Changed only while the table is locked.
    connections: Arc<AtomicUsize>,
    /// Requests at upstreams.
    requests: AtomicUsize,
}

#[derive(Debug)]
struct PrefixEntry {
    prefixes: Arc<PrefixTable>,
    prefix: IpAddr,
    counters: Arc<PrefixCounters>,
}

impl PrefixTable {
    /// The number of connections of this prefix.
    fn connections_of(&self, prefix: IpAddr) -> usize {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.get(&prefix).map_or(0, |counters| counters.connections.load(Ordering::Relaxed))
    }

    fn enter(prefixes: &Arc<Self>, prefix: IpAddr, max: usize) -> Option<PrefixEntry> {
        let mut table = prefixes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = table.entry(prefix).or_default();
        if counters.connections.load(Ordering::Relaxed) >= max {
            return None;
        }
        counters.connections.fetch_add(1, Ordering::Relaxed);
        let counters = Arc::clone(counters);
        drop(table);
        Some(PrefixEntry { prefixes: Arc::clone(prefixes), prefix, counters })
    }
}

impl Drop for PrefixEntry {
    fn drop(&mut self) {
        let mut table = self.prefixes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if self.counters.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            table.remove(&self.prefix);
        }
    }
}

/// Whether an evicted connection has closed, within the moment that it takes.
async fn has_gone(leaving: &EvictionRequest) -> bool {
    for _ in 0..EVICT_POLLS {
        if leaving.has_gone() {
            return true;
        }
        sleep(EVICT_POLL).await;
    }
    leaving.has_gone()
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

impl StateStore for PrefixStateStore {
    type Key = IpAddr;

    fn measure_and_replace<T, F, E>(&self, prefix: &IpAddr, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let set = usize::try_from(self.hasher.hash_one(prefix) % SETS as u64).unwrap_or(0);
        let mut slots = self.sets[set].lock().unwrap_or_else(PoisonError::into_inner);
        let own = slots.iter().position(|(key, _)| *key == Some(*prefix));
        let (outcome, next) = decide(own.map(|slot| slots[slot].1.into()))?;
        let nearest_to_full = || (0..WAYS).min_by_key(|&slot| slots[slot].1).unwrap_or(0);
        let slot = own.unwrap_or_else(nearest_to_full);
        slots[slot] = (Some(*prefix), next.into());
        Ok(outcome)
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
pub struct GovernorInstant(Time);

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

/// Within this time an evicted connection has closed, or has a request to serve.
const EVICT_RETRY: Duration = Duration::from_millis(20);
const EVICT_POLL: Duration = Duration::from_millis(1);
const EVICT_POLLS: usize = 20;
const SETS: usize = 2048;
const WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    async fn enter(limit: &ConnectionLimit, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        limit.admit(limit.acquire_slot(prefix).await?, prefix)
    }

    #[tokio::test]
    async fn a_prefix_may_hold_its_share_and_leaving_frees_it() {
        let limit = ConnectionLimit::new(10, 2, None, &Clock::system());
        let first = enter(&limit, prefix(1)).await.unwrap();
        let _second = enter(&limit, prefix(1)).await.unwrap();
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        assert!(enter(&limit, prefix(2)).await.is_ok());
        drop(first);
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn new_connections_come_at_their_rate_on_our_clock() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let rate = ConnectionQuota { replenish: Span::from_millis(100), burst: 2 };
        let limit = ConnectionLimit::new(10, 10, Some(rate), &clock);
        assert!(enter(&limit, prefix(1)).await.is_ok() && enter(&limit, prefix(1)).await.is_ok());
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientRate);
        assert!(enter(&limit, prefix(2)).await.is_ok());
        clock.set(clock.now().after(Span::from_millis(100)));
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_proxy_in_front_of_us_has_no_bounds_of_its_own() {
        let limit = ConnectionLimit::new(
            10,
            1,
            Some(ConnectionQuota { replenish: Span::from_secs(9), burst: 1 }),
            &Clock::system(),
        );
        let permits: Vec<_> = [enter(&limit, None).await, enter(&limit, None).await].into();
        assert!(permits.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn no_connection_is_accepted_beyond_all_slots() {
        let limit = ConnectionLimit::new(1, 9, None, &Clock::system());
        let permit = enter(&limit, prefix(1)).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), limit.acquire_slot(None)).await.is_err());
        drop(permit);
        limit.acquire_slot(None).await.unwrap();
    }

    #[tokio::test]
    async fn other_bounds_hold_from_then_on_and_the_same_rate_remembers_who_came() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let rate = |burst| Some(ConnectionQuota { replenish: Span::from_secs(60), burst });
        let limit = ConnectionLimit::new(10, 10, rate(1), &clock);
        let _first = enter(&limit, prefix(1)).await.unwrap();
        limit.reconfigure(10, 1, rate(1));
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientRate);
        limit.reconfigure(10, 1, rate(9));
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        limit.reconfigure(10, 2, None);
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[test]
    fn a_flood_of_prefixes_does_not_give_a_spent_one_a_fresh_burst() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let quota =
            Quota::with_period(Duration::from_secs(60)).unwrap().allow_burst(NonZeroU32::new(10).unwrap());
        let rate = KeyedRateLimiter::new(quota, PrefixStateStore::default(), GovernorClock(clock));
        let spent = IpAddr::from([203, 0, 113, 7]);
        (0..10).for_each(|_| assert!(rate.check_key(&spent).is_ok()));
        for other in 0..100_000_u32 {
            assert!(rate.check_key(&IpAddr::from((0x0A00_0000 + other).to_be_bytes())).is_ok());
        }
        assert!(rate.check_key(&spent).is_err());
    }
}
