//! The circuit breaker: stops calls to a store that does not answer.
//!
//! It opens after several failures in a row, with no success for as long as a call may take. While it is open, each
//! attempt is decided at once without the store, and one probe at a time checks whether the store is back. The duration
//! counts as much as the number: where one server of three is down, five failures in a row are chance, and most buckets
//! are still available. The clock and the calls are left to the callers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use tollgate_bucket::Time;

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    failures: AtomicU32,
    /// The first failure of the row.
    first: Mutex<Option<Instant>>,
    open: AtomicBool,
    answered: AtomicBool,
    /// When the store last came back: a record that was seen before may be lost.
    back_since: AtomicU64,
}

impl CircuitBreaker {
    /// Whether calls are stopped.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether any call ever succeeded.
    pub(super) fn has_ever_succeeded(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether the last call succeeded.
    pub(super) fn has_no_failures(&self) -> bool {
        self.failures.load(Ordering::Relaxed) == 0
    }

    /// Records a success. Returns whether it closes the breaker.
    pub(super) fn succeeded(&self, now: Time) -> bool {
        if self.failures.swap(0, Ordering::Relaxed) > 0 {
            *self.first() = None;
        }
        self.answered.store(true, Ordering::Relaxed);
        let was_open = self.open.swap(false, Ordering::Relaxed);
        if was_open {
            self.back_since.store(now.as_nanos(), Ordering::Relaxed);
        }
        was_open
    }

    /// Records a failure; a row of failures counts once it lasts `least`. Returns whether it opens the breaker.
    pub(super) fn failed(&self, now: Instant, least: Duration) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let lasts = now.saturating_duration_since(*self.first().get_or_insert(now));
        failures >= MAX_FAILURES && lasts >= least && !self.open.swap(true, Ordering::Relaxed)
    }

    fn first(&self) -> MutexGuard<'_, Option<Instant>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the store last came back; zero if it was never down.
    pub(super) fn back_since(&self) -> Time {
        Time::from_nanos(self.back_since.load(Ordering::Relaxed))
    }
}

/// Fewer would turn one stall of a busy machine into an outage.
const MAX_FAILURES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_row_open_it_and_one_answer_closes_it() {
        let (breaker, now) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..10 {
            assert!((0..4).all(|_| !breaker.failed(now, Duration::ZERO)) && !breaker.is_open());
            assert!(!breaker.succeeded(Time::from_nanos(1)), "it was not open");
        }
        assert_eq!((0..10).filter(|_| breaker.failed(now, Duration::ZERO)).count(), 1, "reported once");
        assert!(breaker.is_open());
        assert!(breaker.succeeded(Time::from_nanos(7)) && !breaker.is_open());
        assert_eq!(breaker.back_since(), Time::from_nanos(7));
    }

    #[test]
    fn failures_between_answers_do_not_open_it_however_many_come_at_once() {
        let (breaker, begun, least) = (CircuitBreaker::default(), Instant::now(), Duration::from_millis(50));
        // One server of three is down, and its calls come in bursts.
        for millis in 0..1000 {
            let now = begun + Duration::from_millis(millis);
            assert!((0..100).all(|_| !breaker.failed(now, least)), "after {millis} ms");
            if millis % 40 == 39 {
                assert!(!breaker.succeeded(Time::from_nanos(1)), "it was not open");
            }
        }
        let now = begun + Duration::from_millis(1050);
        assert!((0..10).all(|_| !breaker.failed(now, least)));
        assert!(breaker.failed(now + least, least));
    }
}
