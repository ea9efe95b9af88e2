//! Limits connections: how many there may be in all and per prefix, and how fast new ones may come.
//!
//! It looks at a connection before a byte is read. `governor` decides on the rate, on our clock and over a bounded
//! table of our own: its stock keyed store grows with the number of attackers. These are not the policy's buckets.

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

/// Who may connect.
pub struct ConnectionLimit {
    connections: Arc<ConnectionSlots>,
    per_client: AtomicUsize,
    prefixes: Arc<PrefixTable>,
    evictions: Arc<Evictions>,
    rate: ArcSwapOption<ClientRateLimiter>,
    overload: OverloadManager,
    clock: Clock,
}

/// How fast new connections may come, and how fast they came.
struct ClientRateLimiter {
    quota: ConnectionQuota,
    limiter: KeyedRateLimiter,
}

type KeyedRateLimiter = RateLimiter<IpAddr, PrefixStateStore, Clock, NoOpMiddleware<GovernorInstant>>;

/// A connection that was let in; dropping it frees its place.
#[derive(Debug)]
pub struct Permit {
    _slot: ConnectionSlot,
    entry: EvictionEntry,
    prefix_entry: Option<PrefixEntry>,
}

impl Permit {
    /// Says since when the connection is idle; `None` while it serves. Whether it is to give way to others, as long as it is
    /// idle since then. To be asked by the connection's own task, which is woken when the answer changes.
    pub fn poll_evicted(&self, idle_since: Option<Time>, cx: &Context<'_>) -> bool {
        self.entry.poll_evicted(idle_since, cx)
    }

    /// Another request of this client's prefix is at an upstream. Says how many are; `None` where nobody counts.
    pub fn request_begins(&self) -> Option<usize> {
        let presence = self.prefix_entry.as_ref()?;
        Some(presence.counters.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// One of them is over.
    pub fn request_ends(&self) {
        if let Some(presence) = &self.prefix_entry {
            presence.counters.requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// New connections from one prefix: one each `replenish`, `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionQuota {
    /// At least one nanosecond.
    pub replenish: Span,
    /// At least 1.
    pub burst: u32,
}

impl ConnectionLimit {
    /// A guard for `connections` in all, `per_client` from one prefix, and new ones at this rate.
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

    /// Other bounds from now on. Nobody who is in has to leave. Where the rate is another one, each prefix has all of
    /// its burst again.
    pub fn reconfigure(&self, connections: usize, per_client: usize, rate: Option<ConnectionQuota>) {
        self.connections.resize(connections);
        self.per_client.store(per_client, Ordering::Relaxed);
        if self.rate.load().as_ref().map(|pace| pace.quota) != rate {
            self.rate.store(rate.and_then(|rate| ClientRateLimiter::new(rate, &self.clock)));
        }
    }

    /// A place among all connections for a client of this prefix. Where there is none, one that is idle gives way; where none
    /// is idle, this waits. Each listener holds back at most one client meanwhile, and the kernel's queue the others.
    ///
    /// # Errors
    /// [`AdmitError::Places`] for a client that would only hold up others, who may have the places of those that are idle.
    pub async fn acquire_slot(&self, prefix: Option<IpAddr>) -> Result<ConnectionSlot, AdmitError> {
        if let Some(place) = self.connections.try_take() {
            return Ok(place);
        }
        let mut place = pin!(self.connections.take());
        loop {
            if let EvictOutcome::Denied = self.evict_for(prefix) {
                return Err(AdmitError::Connections);
            }
            tokio::select! {
                biased;
                place = &mut place => return Ok(place),
                () = sleep(EVICT_RETRY) => {}
            }
        }
    }

    /// Whether the machine has what this connection, which has its place already, will need; perhaps because another one
    /// that was idle has given way.
    ///
    /// # Errors
    /// What it is short of.
    pub async fn check_resources(
        &self,
        stream: &NetStream,
        prefix: Option<IpAddr>,
    ) -> Result<(), AdmitError> {
        let Err(short) = self.overload.admit(stream, &self.connections) else { return Ok(()) };
        match self.evict_for(prefix) {
            EvictOutcome::Requested(leaving) if has_gone(&leaving).await => match short {
                // This one keeps its high number, and the next has the one that came free.
                AdmitError::Descriptors => Ok(()),
                _ => self.overload.admit(stream, &self.connections),
            },
            _ => Err(short),
        }
    }

    fn evict_for(&self, prefix: Option<IpAddr>) -> EvictOutcome {
        self.evictions.evict(prefix.map_or(0, |prefix| self.prefixes.connections_of(prefix)))
    }

    /// Connections that are here, and those that are about to be let in.
    #[must_use]
    pub fn active(&self) -> usize {
        self.connections.taken()
    }

    /// At most so many connections until memory is there again; `None` is no bound but `proxy.connections`. Nobody who
    /// is in has to leave.
    pub fn set_ceiling(&self, ceiling: Option<usize>) {
        self.overload.set_ceiling(ceiling);
    }

    /// Lets a client in or not. `prefix` is what its bounds are kept for; `None` is a client without bounds: one on
    /// a Unix socket, or a proxy in front of us that speaks for many.
    ///
    /// # Errors
    /// Why it is turned away.
    pub fn admit(&self, place: ConnectionSlot, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        let Some(prefix) = prefix else {
            return Ok(Permit { _slot: place, entry: self.evictions.register(None), prefix_entry: None });
        };
        if self.rate.load().as_ref().is_some_and(|pace| pace.limiter.check_key(&prefix).is_err()) {
            return Err(AdmitError::ClientRate);
        }
        let most = self.per_client.load(Ordering::Relaxed);
        let presence = PrefixTable::enter(&self.prefixes, prefix, most).ok_or(AdmitError::ClientMax)?;
        let entry = self.evictions.register(Some(Arc::clone(&presence.counters.connections)));
        Ok(Permit { _slot: place, entry, prefix_entry: Some(presence) })
    }
}

impl std::fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("free", &self.connections.free()).finish_non_exhaustive()
    }
}

impl ClientRateLimiter {
    fn new(wanted: ConnectionQuota, clock: &Clock) -> Option<Arc<Self>> {
        let quota = Quota::with_period(wanted.replenish.to_std())?;
        let quota = quota.allow_burst(NonZeroU32::new(wanted.burst)?);
        Some(Arc::new(Self {
            quota: wanted,
            limiter: KeyedRateLimiter::new(quota, PrefixStateStore::default(), clock.clone()),
        }))
    }
}

/// Who is here of each prefix; bounded by the connections in all.
#[derive(Debug, Default)]
struct PrefixTable(Mutex<HashMap<IpAddr, Arc<PrefixCounters>>>);

/// All clients of one prefix.
#[derive(Debug, Default)]
struct PrefixCounters {
    /// Changed by whoever holds the table.
    connections: Arc<AtomicUsize>,
    /// At upstreams.
    requests: AtomicUsize,
}

#[derive(Debug)]
struct PrefixEntry {
    prefixes: Arc<PrefixTable>,
    prefix: IpAddr,
    counters: Arc<PrefixCounters>,
}

impl PrefixTable {
    /// How many connections there are of this prefix.
    fn connections_of(&self, prefix: IpAddr) -> usize {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.get(&prefix).map_or(0, |neighbours| neighbours.connections.load(Ordering::Relaxed))
    }

    fn enter(present: &Arc<Self>, prefix: IpAddr, most: usize) -> Option<PrefixEntry> {
        let mut table = present.0.lock().unwrap_or_else(PoisonError::into_inner);
        let neighbours = table.entry(prefix).or_default();
        if neighbours.connections.load(Ordering::Relaxed) >= most {
            return None;
        }
        neighbours.connections.fetch_add(1, Ordering::Relaxed);
        let neighbours = Arc::clone(neighbours);
        drop(table);
        Some(PrefixEntry { prefixes: Arc::clone(present), prefix, counters: neighbours })
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

/// Whether a connection that was asked to give way has done so, in the moment that it takes.
async fn has_gone(leaving: &EvictionRequest) -> bool {
    for _ in 0..EVICT_POLLS {
        if leaving.has_gone() {
            return true;
        }
        sleep(EVICT_POLL).await;
    }
    leaving.has_gone()
}

/// governor's states of the prefixes that connected lately, in bounded space: the one nearest to a full bucket
/// gives way, as in the memory store.
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
        let (said, next) = decide(own.map(|slot| slots[slot].1.into()))?;
        let nearest_to_full = || (0..WAYS).min_by_key(|&slot| slots[slot].1).unwrap_or(0);
        let slot = own.unwrap_or_else(nearest_to_full);
        slots[slot] = (Some(*prefix), next.into());
        Ok(said)
    }
}

/// Our clock as governor's.
impl governor::clock::Clock for Clock {
    type Instant = GovernorInstant;

    fn now(&self) -> GovernorInstant {
        GovernorInstant(Self::now(self))
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

/// A connection that was asked to give way has gone by then, or has a request to serve.
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

    async fn enter(guard: &ConnectionLimit, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        guard.admit(guard.acquire_slot(prefix).await?, prefix)
    }

    #[tokio::test]
    async fn a_prefix_may_hold_its_share_and_leaving_frees_it() {
        let guard = ConnectionLimit::new(10, 2, None, &Clock::system());
        let first = enter(&guard, prefix(1)).await.unwrap();
        let _second = enter(&guard, prefix(1)).await.unwrap();
        assert_eq!(enter(&guard, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        assert!(enter(&guard, prefix(2)).await.is_ok());
        drop(first);
        assert!(enter(&guard, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn new_connections_come_at_their_rate_on_our_clock() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let rate = ConnectionQuota { replenish: Span::from_millis(100), burst: 2 };
        let guard = ConnectionLimit::new(10, 10, Some(rate), &clock);
        assert!(enter(&guard, prefix(1)).await.is_ok() && enter(&guard, prefix(1)).await.is_ok());
        assert_eq!(enter(&guard, prefix(1)).await.unwrap_err(), AdmitError::ClientRate);
        assert!(enter(&guard, prefix(2)).await.is_ok());
        clock.set(clock.now().after(Span::from_millis(100)));
        assert!(enter(&guard, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_proxy_in_front_of_us_has_no_bounds_of_its_own() {
        let guard = ConnectionLimit::new(
            10,
            1,
            Some(ConnectionQuota { replenish: Span::from_secs(9), burst: 1 }),
            &Clock::system(),
        );
        let passes: Vec<_> = [enter(&guard, None).await, enter(&guard, None).await].into();
        assert!(passes.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn nobody_is_accepted_beyond_all_places() {
        let guard = ConnectionLimit::new(1, 9, None, &Clock::system());
        let pass = enter(&guard, prefix(1)).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), guard.acquire_slot(None)).await.is_err());
        drop(pass);
        guard.acquire_slot(None).await.unwrap();
    }

    #[tokio::test]
    async fn other_bounds_hold_from_then_on_and_the_same_rate_remembers_who_came() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let rate = |burst| Some(ConnectionQuota { replenish: Span::from_secs(60), burst });
        let guard = ConnectionLimit::new(10, 10, rate(1), &clock);
        let _first = enter(&guard, prefix(1)).await.unwrap();
        guard.reconfigure(10, 1, rate(1));
        assert_eq!(enter(&guard, prefix(1)).await.unwrap_err(), AdmitError::ClientRate);
        guard.reconfigure(10, 1, rate(9));
        assert_eq!(enter(&guard, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        guard.reconfigure(10, 2, None);
        assert!(enter(&guard, prefix(1)).await.is_ok());
    }

    #[test]
    fn a_flood_of_prefixes_does_not_give_a_spent_one_a_fresh_burst() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let quota =
            Quota::with_period(Duration::from_secs(60)).unwrap().allow_burst(NonZeroU32::new(10).unwrap());
        let rate = KeyedRateLimiter::new(quota, PrefixStateStore::default(), clock);
        let spent = IpAddr::from([203, 0, 113, 7]);
        (0..10).for_each(|_| assert!(rate.check_key(&spent).is_ok()));
        for other in 0..100_000_u32 {
            assert!(rate.check_key(&IpAddr::from((0x0A00_0000 + other).to_be_bytes())).is_ok());
        }
        assert!(rate.check_key(&spent).is_err());
    }
}
