//! How often this gate has stopped calls to a server of its store, for operators who compare gates.

use std::sync::{Mutex, PoisonError};

use crate::fleet::StoreHealth;
use tollgate_bucket::Time;

/// Counts over all servers, also those that the store has no more.
#[derive(Debug, Default)]
pub(super) struct StoreTrips(Mutex<CountedTrips>);

#[derive(Debug, Clone, Copy, Default)]
struct CountedTrips {
    count: u32,
    last: Option<Time>,
}

impl StoreTrips {
    /// Calls to a server are stopped from now on.
    pub(super) fn add(&self, now: Time) {
        let mut trips = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *trips = CountedTrips { count: trips.count.saturating_add(1), last: Some(now) };
    }

    pub(super) fn health(&self, is_up: bool, now: Time) -> StoreHealth {
        let CountedTrips { count, last } = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since_trip = last.map(|last| now.since(last).to_std().as_secs());
        StoreHealth { is_up, trips: count, since_trip }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_bucket::Span;

    use super::*;

    #[test]
    fn trips_are_counted_and_the_last_one_is_so_long_ago() {
        let (trips, now) = (StoreTrips::default(), Time::from_nanos(1_000_000_000_000));
        assert_eq!(trips.health(true, now), StoreHealth { is_up: true, trips: 0, since_trip: None });
        trips.add(now);
        trips.add(now.after(Span::from_secs(60)));
        let health = trips.health(false, now.after(Span::from_millis(63_900)));
        assert_eq!(health, StoreHealth { is_up: false, trips: 2, since_trip: Some(3) });
    }
}
