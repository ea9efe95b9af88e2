//! Counts the requests in flight of each route, over all workers.
//!
//! It counts and decides nothing else; who is not let in gets the tokens back elsewhere. The surprising thing: a route
//! without `in_flight` counts only those that are held, so that nothing but the buckets is shared on the way of an
//! attempt that nobody bounded.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use super::{Reservation, Rules};
use crate::time::Span;

/// The attempts of one route that are on their way. It is the route's for as long as its name is in the rules.
#[derive(Debug, Default)]
pub(super) struct ConcurrencyLimit {
    bounded: AtomicU32,
    held: AtomicU32,
}

/// The places of one attempt among those that are on their way: one for each route that it is counted for. They are
/// free again when this is dropped.
#[derive(Debug, Default)]
#[must_use]
pub struct ConcurrencyPermits(SmallVec<[ConcurrencyPermit; 1]>);

#[derive(Debug)]
struct ConcurrencyPermit {
    limit: Arc<ConcurrencyLimit>,
    kind: PermitKind,
}

/// Which of the two is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PermitKind {
    /// From the decision to the end of the answer.
    Bounded,
    /// As long as the attempt is held.
    Held,
}

impl Rules {
    /// Places among the attempts that are on their way; `None` if there are as many as the routes allow already, or
    /// if the attempt is to be held and as many are.
    #[must_use]
    pub fn acquire_permits(&self, reservation: &Reservation) -> Option<ConcurrencyPermits> {
        let routes = reservation.routes.iter().filter(|_| reservation.generation == self.generation);
        let flights =
            routes.map(|&route| (&self.concurrency_limits[route], self.policy.routes[route].in_flight));
        ConcurrencyPermits::acquire(flights, reservation.hold > Span::ZERO)
    }

    /// Attempts that are on their way stay counted when the rules change.
    pub(super) fn concurrency_limit_for(&self, route: &str) -> Arc<ConcurrencyLimit> {
        let index = self.policy.routes.iter().position(|known| &*known.name == route);
        index.map_or_else(Arc::default, |index| Arc::clone(&self.concurrency_limits[index]))
    }
}

impl ConcurrencyPermits {
    /// Takes a place on each of these routes, or none if one of them is full. `most` is the route's `in_flight`.
    fn acquire<'f>(
        routes: impl Iterator<Item = (&'f Arc<ConcurrencyLimit>, Option<u32>)>,
        is_held: bool,
    ) -> Option<Self> {
        let mut places = SmallVec::new();
        for (flight, most) in routes {
            let (kind, most) = match most {
                Some(most) => (PermitKind::Bounded, most),
                None if is_held => (PermitKind::Held, MAX_HELD),
                None => continue,
            };
            flight.try_acquire(kind, most)?;
            places.push(ConcurrencyPermit { limit: Arc::clone(flight), kind });
        }
        Some(Self(places))
    }

    /// The attempt is not held any more.
    pub fn release_held(&mut self) {
        self.0.retain(|place| place.kind != PermitKind::Held);
    }
}

impl ConcurrencyLimit {
    fn try_acquire(&self, kind: PermitKind, most: u32) -> Option<()> {
        let room = |count: u32| (count < most).then_some(count.saturating_add(1));
        self.counter(kind).fetch_update(Relaxed, Relaxed, room).ok().map(drop)
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

/// A route without `in_flight` holds at most so many attempts at once: each keeps a connection waiting.
const MAX_HELD: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(flight: &Arc<ConcurrencyLimit>, most: Option<u32>, is_held: bool) -> Option<ConcurrencyPermits> {
        ConcurrencyPermits::acquire(std::iter::once((flight, most)), is_held)
    }

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let flight = Arc::default();
        let both = (take(&flight, Some(2), false).unwrap(), take(&flight, Some(2), true).unwrap());
        assert!(take(&flight, Some(2), false).is_none());
        drop(both.0);
        assert!(take(&flight, Some(2), false).is_some());
    }

    #[test]
    fn a_held_attempt_keeps_a_place_of_in_flight_when_it_departs() {
        let flight = Arc::default();
        let mut held = take(&flight, Some(1), true).unwrap();
        held.release_held();
        assert!(take(&flight, Some(1), false).is_none());
    }

    #[test]
    fn without_a_bound_only_those_that_are_held_are_counted() {
        let flight = Arc::default();
        let passing: Vec<_> = (0..100).map(|_| take(&flight, None, false).unwrap()).collect();
        let mut held: Vec<_> = (0..MAX_HELD).map(|_| take(&flight, None, true).unwrap()).collect();
        assert!(take(&flight, None, true).is_none() && take(&flight, None, false).is_some());
        held[0].release_held();
        assert!(take(&flight, None, true).is_some());
        drop((passing, held));
        assert_eq!((flight.bounded.load(Relaxed), flight.held.load(Relaxed)), (0, 0));
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
        let flight = Arc::default();
        let (taken, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        if let Some(place) = take(&flight, Some(3), false) {
                            most.fetch_max(taken.fetch_add(1, Relaxed) + 1, Relaxed);
                            taken.fetch_sub(1, Relaxed);
                            drop(place);
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&most.into_inner()));
    }
}
