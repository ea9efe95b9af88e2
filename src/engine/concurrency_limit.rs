//! Counts the requests in flight of each route, and of each bucket of a limit that bounds them, over all workers.
//!
//! It only counts; its caller refunds the tokens of a request that gets no permit. A route without `in_flight` counts
//! only held attempts, so that an attempt without a bound shares nothing but the buckets with other threads.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::{LimitStatus, Reservation, Rules};
use crate::bucket::Key;
use crate::policy::{LimitKind, Mode};
use crate::time::Span;

/// The requests in flight of one route. A route keeps it as long as its name is in the rules.
#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimit {
    bounded: AtomicU32,
    held: AtomicU32,
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
}

#[derive(Debug)]
struct BucketPermit {
    limit: Arc<BucketsInFlight>,
    bucket: Key,
}

/// The counter that a permit belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PermitKind {
    /// Counted from the decision to the end of the response.
    Bounded,
    /// Counted while the attempt is held.
    Held,
}

impl Rules {
    /// Permits for an attempt; `None` if one of its routes is at its limit of requests in flight, or of held attempts, or
    /// one of its limits at that of requests in flight for the bucket.
    #[must_use]
    pub fn acquire_permits(&self, reservation: &Reservation) -> Option<ConcurrencyPermits> {
        if reservation.generation != self.generation {
            return Some(ConcurrencyPermits::default());
        }
        let routes = reservation.routes.iter();
        let limits =
            routes.map(|&route| (&self.concurrency_limits[route], self.policy.routes[route].in_flight));
        let permits = ConcurrencyPermits::acquire(limits, reservation.hold > Span::ZERO)?;
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
    ) -> Option<Self> {
        let mut permits = SmallVec::new();
        for (limit, max) in routes {
            let (kind, max) = match max {
                Some(max) => (PermitKind::Bounded, max),
                None if is_held => (PermitKind::Held, MAX_HELD),
                None => continue,
            };
            limit.try_acquire(kind, max)?;
            permits.push(ConcurrencyPermit { limit: Arc::clone(limit), kind });
        }
        Some(Self { of_routes: permits, of_buckets: Vec::new() })
    }

    /// Releases the permits for holding: the attempt goes on to the upstream.
    pub fn release_held(&mut self) {
        self.of_routes.retain(|permit| permit.kind != PermitKind::Held);
    }
}

impl ConcurrencyLimit {
    fn try_acquire(&self, kind: PermitKind, max: u32) -> Option<()> {
        let increment = |count: u32| (count < max).then_some(count.saturating_add(1));
        self.counter(kind).fetch_update(Relaxed, Relaxed, increment).ok().map(drop)
    }

    fn counter(&self, kind: PermitKind) -> &AtomicU32 {
        match kind {
            PermitKind::Bounded => &self.bounded,
            PermitKind::Held => &self.held,
        }
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        self.limit.counter(self.kind).fetch_sub(1, Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn take(
        limit: &Arc<ConcurrencyLimit>,
        in_flight: Option<u32>,
        is_held: bool,
    ) -> Option<ConcurrencyPermits> {
        ConcurrencyPermits::acquire(std::iter::once((limit, in_flight)), is_held)
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
        assert_eq!((limit.bounded.load(Relaxed), limit.held.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_full_route_takes_no_place_on_the_others() {
        let (wide, narrow) = (Arc::default(), Arc::default());
        let routes = || [(&wide, Some(5)), (&narrow, Some(1))].into_iter();
        let first = ConcurrencyPermits::acquire(routes(), false);
        assert!(first.is_some() && ConcurrencyPermits::acquire(routes(), false).is_none());
        assert_eq!(wide.bounded.load(Relaxed), 1);
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
