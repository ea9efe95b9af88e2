//! Connection slots: a counting semaphore whose size can change while slots are taken.
//!
//! It knows nothing of who takes them. The surprising thing: when there are fewer from now on, nobody is sent away;
//! whoever leaves takes the place along, until those who are left fit.

use std::future::pending;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// A bounded number of places.
#[derive(Debug)]
pub struct ConnectionSlots {
    free: Semaphore,
    /// Places that are taken and not to be given out again.
    surplus: AtomicUsize,
    count: Mutex<usize>,
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub struct ConnectionSlot(Arc<ConnectionSlots>);

impl ConnectionSlots {
    /// So many places, all of them free.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        let count = count.min(Semaphore::MAX_PERMITS);
        Arc::new(Self { free: Semaphore::new(count), surplus: AtomicUsize::new(0), count: Mutex::new(count) })
    }

    /// Waits for a free place, in turn.
    pub async fn take(self: &Arc<Self>) -> ConnectionSlot {
        match self.free.acquire().await {
            // It comes back by its number, since it may not be given out again.
            Ok(permit) => permit.forget(),
            // Never closed; should it ever be, waiting is what is left to do.
            Err(_) => pending().await,
        }
        ConnectionSlot(Arc::clone(self))
    }

    /// A place that is free now, if nobody waits for it.
    pub fn try_take(self: &Arc<Self>) -> Option<ConnectionSlot> {
        self.free.try_acquire().ok()?.forget();
        Some(ConnectionSlot(Arc::clone(self)))
    }

    /// How many are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// How many are taken now.
    #[must_use]
    pub fn taken(&self) -> usize {
        let known = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        (*known + self.surplus.load(Relaxed)).saturating_sub(self.free())
    }

    /// From now on there are so many.
    pub fn resize(&self, count: usize) {
        let count = count.min(Semaphore::MAX_PERMITS);
        let mut known = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if count < *known {
            let fewer = *known - count;
            let taken = fewer - self.free.forget_permits(fewer);
            self.surplus.fetch_add(taken, Relaxed);
        } else {
            self.release(count - *known);
        }
        *known = count;
    }

    fn release(&self, places: usize) {
        let pay = |surplus: usize| (surplus > 0).then(|| surplus.saturating_sub(places));
        let surplus = self.surplus.fetch_update(Relaxed, Relaxed, pay).unwrap_or(0);
        self.free.add_permits(places.saturating_sub(surplus));
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.release(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_full(places: &Arc<ConnectionSlots>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), places.take()).await.is_err()
    }

    #[tokio::test]
    async fn a_place_is_taken_until_it_is_dropped() {
        let places = ConnectionSlots::new(1);
        let place = places.take().await;
        assert!(is_full(&places).await);
        drop(place);
        assert!(!is_full(&places).await);
    }

    #[tokio::test]
    async fn whoever_waits_gets_a_place_that_is_added() {
        let places = ConnectionSlots::new(0);
        let waiting = tokio::spawn({
            let places = Arc::clone(&places);
            async move { drop(places.take().await) }
        });
        tokio::task::yield_now().await;
        places.resize(1);
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(places.free(), 1);
    }

    #[tokio::test]
    async fn with_fewer_places_those_who_leave_take_theirs_along_until_the_rest_fits() {
        let places = ConnectionSlots::new(3);
        let mut taken = vec![places.take().await, places.take().await, places.take().await];
        places.resize(1);
        assert_eq!(places.taken(), 3);
        taken.truncate(1);
        assert!(is_full(&places).await, "two have left, and one is what there is");
        assert_eq!(places.taken(), 1);
        taken.clear();
        assert_eq!((places.free(), places.taken()), (1, 0));
    }

    #[tokio::test]
    async fn places_that_were_to_vanish_are_the_first_to_come_back() {
        let places = ConnectionSlots::new(3);
        let taken = [places.take().await, places.take().await, places.take().await];
        places.resize(1);
        places.resize(4);
        assert_eq!(places.free(), 1);
        drop(taken);
        assert_eq!(places.free(), 4);
    }
}
