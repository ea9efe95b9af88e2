//! Counts the requests in flight of each route, over all workers.
//!
//! It only counts; its caller refunds the tokens of a request that gets no permit. A route without `in_flight` counts
//! only held attempts, so that an attempt without a bound shares nothing but the buckets with other threads.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use super::{Reservation, Rules};
use crate::time::Span;

/// The requests in flight of one route. A route keeps it as long as its name is in the rules.
#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimit {
    bounded: AtomicU32,
    held: AtomicU32,
}

/// The permits of one attempt: one for each route that counts it. Dropping releases them.
#[derive(Debug, Default)]
#[must_use]
pub struct ConcurrencyPermits(SmallVec<[ConcurrencyPermit; 1]>);

#[derive(Debug)]
struct ConcurrencyPermit {
    limit: Arc<ConcurrencyLimit>,
    kind: PermitKind,
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
    /// Permits for an attempt; `None` if one of its routes is at its limit of requests in flight, or of held attempts.
    #[must_use]
    pub fn acquire_permits(&self, reservation: &Reservation) -> Option<ConcurrencyPermits> {
        let routes = reservation.routes.iter().filter(|_| reservation.generation == self.generation);
        let limits =
            routes.map(|&route| (&self.concurrency_limits[route], self.policy.routes[route].in_flight));
        ConcurrencyPermits::acquire(limits, reservation.hold > Span::ZERO)
    }

    /// The counters of a route by name: requests in flight stay counted when the rules change.
    pub(super) fn concurrency_limit_for(&self, route: &str) -> Arc<ConcurrencyLimit> {
        let index = self.policy.routes.iter().position(|known| &*known.name == route);
        index.map_or_else(Arc::default, |index| Arc::clone(&self.concurrency_limits[index]))
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
        Some(Self(permits))
    }

    /// Releases the permits for holding: the attempt goes on to the upstream.
    pub fn release_held(&mut self) {
        self.0.retain(|permit| permit.kind != PermitKind::Held);
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
