//! Connection slots: a counting semaphore whose size can change while slots are taken.
//!
//! [`connection_limit`](super::connection_limit) decides who takes a slot. When the size shrinks, no slot is
//! revoked: slots that are freed vanish until the rest fits.

use std::future::pending;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// A bounded number of slots.
#[derive(Debug)]
pub struct ConnectionSlots {
    free: Semaphore,
    /// Slots that are taken and vanish when they are freed.
    surplus: AtomicUsize,
    count: Mutex<usize>,
}

/// A slot; dropping it frees it.
#[derive(Debug)]
pub struct ConnectionSlot(Arc<ConnectionSlots>);

impl ConnectionSlots {
    /// `count` slots, all of them free.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        let count = count.min(Semaphore::MAX_PERMITS);
        Arc::new(Self { free: Semaphore::new(count), surplus: AtomicUsize::new(0), count: Mutex::new(count) })
    }

    /// Waits for a free slot, in turn.
    pub async fn take(self: &Arc<Self>) -> ConnectionSlot {
        match self.free.acquire().await {
            // The slot comes back by number, because it may have to vanish.
            Ok(permit) => permit.forget(),
            // The semaphore is never closed; if it were, all that is left is to wait.
            Err(_) => pending().await,
        }
        ConnectionSlot(Arc::clone(self))
    }

    /// A slot that is free now, if no task waits for one.
    pub fn try_take(self: &Arc<Self>) -> Option<ConnectionSlot> {
        self.free.try_acquire().ok()?.forget();
        Some(ConnectionSlot(Arc::clone(self)))
    }

    /// How many slots are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// How many slots are taken now.
    #[must_use]
    pub fn taken(&self) -> usize {
        let known = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        (*known + self.surplus.load(Relaxed)).saturating_sub(self.free())
    }

    /// Changes the number of slots.
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

    fn release(&self, count: usize) {
        let reduce = |surplus: usize| (surplus > 0).then(|| surplus.saturating_sub(count));
        let surplus = self.surplus.fetch_update(Relaxed, Relaxed, reduce).unwrap_or(0);
        self.free.add_permits(count.saturating_sub(surplus));
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

    async fn is_full(slots: &Arc<ConnectionSlots>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), slots.take()).await.is_err()
    }

    #[tokio::test]
    async fn a_place_is_taken_until_it_is_dropped() {
        let slots = ConnectionSlots::new(1);
        let slot = slots.take().await;
        assert!(is_full(&slots).await);
        drop(slot);
        assert!(!is_full(&slots).await);
    }

    #[tokio::test]
    async fn a_waiting_connection_gets_a_slot_that_is_added() {
        let slots = ConnectionSlots::new(0);
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { drop(slots.take().await) }
        });
        tokio::task::yield_now().await;
        slots.resize(1);
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(slots.free(), 1);
    }

    #[tokio::test]
    async fn with_fewer_places_those_who_leave_take_theirs_along_until_the_rest_fits() {
        let slots = ConnectionSlots::new(3);
        let mut taken = vec![slots.take().await, slots.take().await, slots.take().await];
        slots.resize(1);
        assert_eq!(slots.taken(), 3);
        taken.truncate(1);
        assert!(is_full(&slots).await, "two were freed, and the new size is one");
        assert_eq!(slots.taken(), 1);
        taken.clear();
        assert_eq!((slots.free(), slots.taken()), (1, 0));
    }

    #[tokio::test]
    async fn places_that_were_to_vanish_are_the_first_to_come_back() {
        let slots = ConnectionSlots::new(3);
        let taken = [slots.take().await, slots.take().await, slots.take().await];
        slots.resize(1);
        slots.resize(4);
        assert_eq!(slots.free(), 1);
        drop(taken);
        assert_eq!(slots.free(), 4);
    }
}
