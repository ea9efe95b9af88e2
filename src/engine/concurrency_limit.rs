//! Counts requests in flight over all workers: those of each route, and those of each bucket whose limit bounds them.
//!
//! It only counts: if a request gets no permit, its caller refunds the tokens. For a route without `in_flight` it counts only held
//! attempts, so that other attempts there share only the buckets with other threads. If other clients find no place, one client
//! prefix gets at most half of the places.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::{LimitStatus, Reservation, Rules};
use crate::bucket::Key;
use crate::policy::{LimitKind, Mode};
use crate::time::{Span, Time};

/// The requests in flight of one route. A route keeps it as long as its name is in the rules.
#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimit {
    bounded: Mutex<Places>,
    held: Mutex<Places>,
}

/// A request for a permit: the prefix of the client, `None` for all without an address; and the time.
pub type PermitRequest = (Option<IpAddr>, Time);

/// The requests of one counter.
#[derive(Debug, Default)]
struct Places {
    taken: u32,
    of_clients: HashMap<Option<IpAddr>, u32>,
    /// A client that has its share leaves the rest to others until then: one of them found no place.
    shared_until: Time,
}

/// The requests in flight of each bucket of one limit. A limit keeps it as long as its name is in the rules.
#[derive(Debug, Default)]
pub(super) struct BucketsInFlight(Mutex<HashMap<Key, u32>>);

/// The permits of one attempt: one for each route that counts it, and each limit that bounds it. Dropping releases them.
#[derive(Debug, Default)]
#[must_use]
pub struct ConcurrencyPermits {
    of_routes: SmallVec<[ConcurrencyPermit; 1]>,
    #[expect(dead_code, reason = "dropping it releases the permits")]
    of_buckets: Vec<BucketPermit>,
}

#[derive(Debug)]
struct ConcurrencyPermit {
    limit: Arc<ConcurrencyLimit>,
    kind: PermitKind,
    client: Option<IpAddr>,
}

#[derive(Debug)]
struct BucketPermit {
    limit: Arc<BucketsInFlight>,
    bucket: Key,
}

/// The counter that a permit belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PermitKind {
    /// Counted from the decision until the response was read to its end.
    Bounded,
    /// Counted while the attempt is held.
    Held,
}

impl Rules {
    /// Permits for an attempt; `None` if one of its routes is at its limit of requests in flight, or of held attempts, or
    /// one of its limits at that of requests in flight for the bucket. Asks who it is for only where something is counted.
    #[must_use]
    pub fn acquire_permits(
        &self,
        reservation: &Reservation,
        asking: impl Fn() -> PermitRequest,
    ) -> Option<ConcurrencyPermits> {
        if reservation.generation != self.generation {
            return Some(ConcurrencyPermits::default());
        }
        let routes = reservation.routes.iter();
        let limits = routes
            .map(|&route| (&self.concurrency_limits[route], self.policy.routes[route].forwarding.in_flight));
        let permits = ConcurrencyPermits::acquire(limits, reservation.hold > Span::ZERO, asking)?;
        let of_buckets = self.acquire_of_buckets(&reservation.statuses)?;
        Some(ConcurrencyPermits { of_buckets, ..permits })
    }

    fn acquire_of_buckets(&self, statuses: &[LimitStatus]) -> Option<Vec<BucketPermit>> {
        let bounded = statuses.iter().filter_map(|LimitStatus { charge, .. }| {
            let limit = &self.policy.limits[charge.limit];
            let is_bounding = limit.kind == LimitKind::Rate && limit.mode == Mode::Enforce;
            Some((charge, limit.in_flight.filter(|_| is_bounding)?))
        });
        bounded
            .map(|(charge, max)| BucketPermit::acquire(&self.in_flight[charge.limit], charge.key, max))
            .collect()
    }

    /// The counters of a route by name: requests in flight stay counted when the rules change.
    pub(super) fn concurrency_limit_for(&self, route: &str) -> Arc<ConcurrencyLimit> {
        let index = self.policy.routes.iter().position(|known| &*known.name == route);
        index.map_or_else(Arc::default, |index| Arc::clone(&self.concurrency_limits[index]))
    }

    /// The counters of a limit by name, likewise.
    pub(super) fn in_flight_of(&self, limit: &str) -> Arc<BucketsInFlight> {
        let index = self.index_of(limit, LimitKind::Rate);
        index.map_or_else(Arc::default, |index| Arc::clone(&self.in_flight[index]))
    }
}

impl ConcurrencyPermits {
    /// Takes a permit of each of these routes, or none if one of them is full. The number is the route's `in_flight`.
    fn acquire<'f>(
        routes: impl Iterator<Item = (&'f Arc<ConcurrencyLimit>, Option<u32>)>,
        is_held: bool,
        asking: impl Fn() -> PermitRequest,
    ) -> Option<Self> {
        let mut permits = SmallVec::new();
        for (limit, max) in routes {
            let (kind, max) = match max {
                Some(max) => (PermitKind::Bounded, max),
                None if is_held => (PermitKind::Held, MAX_HELD),
                None => continue,
            };
            let (client, now) = asking();
            if !limit.places(kind).try_take(client, max, now) {
                return None;
            }
            permits.push(ConcurrencyPermit { limit: Arc::clone(limit), kind, client });
        }
        Some(Self { of_routes: permits, of_buckets: Vec::new() })
    }

    /// Releases the permits for holding: the attempt goes on to the upstream.
    pub fn release_held(&mut self) {
        self.of_routes.retain(|permit| permit.kind != PermitKind::Held);
    }
}

impl ConcurrencyLimit {
    fn places(&self, kind: PermitKind) -> MutexGuard<'_, Places> {
        let places = match kind {
            PermitKind::Bounded => &self.bounded,
            PermitKind::Held => &self.held,
        };
        places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Takes one of `max`, if one is free and not another client's.
    fn try_take(&mut self, client: Option<IpAddr>, max: u32, now: Time) -> bool {
        let own = self.of_clients.get(&client).copied().unwrap_or_default();
        let has_share = own >= max.div_ceil(2);
        if self.taken >= max {
            if !has_share {
                self.shared_until = now.after(SHARED_FOR);
            }
            return false;
        }
        if has_share && now < self.shared_until {
            return false;
        }
        self.taken += 1;
        self.of_clients.insert(client, own.saturating_add(1));
        true
    }

    fn give_back(&mut self, client: Option<IpAddr>) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(own) = self.of_clients.get_mut(&client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.of_clients.remove(&client);
            }
        }
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        self.limit.places(self.kind).give_back(self.client);
    }
}

impl BucketsInFlight {
    fn counts(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BucketPermit {
    fn acquire(limit: &Arc<BucketsInFlight>, bucket: Key, max: u32) -> Option<Self> {
        let mut counts = limit.counts();
        let count = counts.entry(bucket).or_default();
        if *count >= max {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Self { limit: Arc::clone(limit), bucket })
    }
}

impl Drop for BucketPermit {
    fn drop(&mut self) {
        let mut counts = self.limit.counts();
        if let Some(count) = counts.get_mut(&self.bucket) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.bucket);
            }
        }
    }
}

/// The held attempts of a route without `in_flight`, at most: each keeps a connection waiting.
const MAX_HELD: u32 = 32;
/// Longer than the `Retry-After` of a client that found no place.
const SHARED_FOR: Span = Span::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn asking() -> PermitRequest {
        (None, NOW)
    }

    fn take(
        limit: &Arc<ConcurrencyLimit>,
        in_flight: Option<u32>,
        is_held: bool,
    ) -> Option<ConcurrencyPermits> {
        ConcurrencyPermits::acquire(std::iter::once((limit, in_flight)), is_held, asking)
    }

    /// Of eight, at this second.
    fn take_as(limit: &Arc<ConcurrencyLimit>, client: u8, second: u64) -> Option<ConcurrencyPermits> {
        let client = Some(IpAddr::from([192, 0, 2, client]));
        let asking = || (client, NOW.after(Span::from_secs(second)));
        ConcurrencyPermits::acquire(std::iter::once((limit, Some(8))), false, asking)
    }

    /// One client kept all others out for as long as its requests lasted.
    #[test]
    fn one_client_has_at_most_half_while_others_find_no_place() {
        let limit = Arc::default();
        let mut own: Vec<_> = (0..8).map(|_| take_as(&limit, 1, 0).unwrap()).collect();
        assert!(take_as(&limit, 2, 0).is_none(), "it was alone and has all of them");
        let mut others = Vec::new();
        for second in 1..=4 {
            drop(own.pop());
            assert!(take_as(&limit, 1, second).is_none(), "what gets free is for others");
            others.extend(take_as(&limit, 2, second));
        }
        assert_eq!((own.len(), others.len()), (4, 4));
        drop(own.pop());
        own.extend(take_as(&limit, 1, 5));
        assert_eq!(own.len(), 4, "a half is its own");
        drop(others);
        assert!(take_as(&limit, 1, 9).is_none());
        assert!(take_as(&limit, 1, 11).is_some(), "no one has found none for a while");
    }

    #[test]
    fn a_client_that_finds_none_beside_its_own_makes_no_room() {
        let limit = Arc::default();
        let mut own: Vec<_> = (0..8).map(|_| take_as(&limit, 1, 0).unwrap()).collect();
        assert!(take_as(&limit, 1, 0).is_none());
        drop(own.pop());
        assert!(take_as(&limit, 1, 1).is_some());
    }

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let limit = Arc::default();
        let both = (take(&limit, Some(2), false).unwrap(), take(&limit, Some(2), true).unwrap());
        assert!(take(&limit, Some(2), false).is_none());
        drop(both.0);
        assert!(take(&limit, Some(2), false).is_some());
    }

    #[test]
    fn a_held_attempt_keeps_a_place_of_in_flight_when_it_departs() {
        let limit = Arc::default();
        let mut held = take(&limit, Some(1), true).unwrap();
        held.release_held();
        assert!(take(&limit, Some(1), false).is_none());
    }

    #[test]
    fn without_a_bound_only_those_that_are_held_are_counted() {
        let limit = Arc::default();
        let passing: Vec<_> = (0..100).map(|_| take(&limit, None, false).unwrap()).collect();
        let mut held: Vec<_> = (0..MAX_HELD).map(|_| take(&limit, None, true).unwrap()).collect();
        assert!(take(&limit, None, true).is_none() && take(&limit, None, false).is_some());
        held[0].release_held();
        assert!(take(&limit, None, true).is_some());
        drop((passing, held));
        assert_eq!([PermitKind::Bounded, PermitKind::Held].map(|kind| limit.places(kind).taken), [0, 0]);
    }

    #[test]
    fn a_full_route_takes_no_place_on_the_others() {
        let (wide, narrow) = (Arc::default(), Arc::default());
        let routes = || [(&wide, Some(5)), (&narrow, Some(1))].into_iter();
        let acquire = || ConcurrencyPermits::acquire(routes(), false, asking);
        let first = acquire();
        assert!(first.is_some() && acquire().is_none());
        assert_eq!(wide.places(PermitKind::Bounded).taken, 1);
    }

    #[test]
    fn each_bucket_has_places_of_its_own_and_one_without_requests_is_forgotten() {
        let limit = Arc::new(BucketsInFlight::default());
        let acquire = |key| BucketPermit::acquire(&limit, Key(key), 2);
        let one = [acquire(1), acquire(1)];
        assert!(one.iter().all(Option::is_some) && acquire(1).is_none());
        let other = acquire(2);
        assert!(other.is_some() && limit.counts().len() == 2);
        drop(one);
        assert!(acquire(1).is_some());
        drop(other);
        assert!(limit.counts().is_empty());
    }

    #[test]
    fn threads_never_take_more_places_than_there_are() {
        let limit = Arc::default();
        let (taken, max) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        if let Some(permit) = take(&limit, Some(3), false) {
                            max.fetch_max(taken.fetch_add(1, Relaxed) + 1, Relaxed);
                            taken.fetch_sub(1, Relaxed);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&max.into_inner()));
    }
}
