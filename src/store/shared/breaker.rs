//! The circuit breaker: stops calls to a store that does not answer.
//!
//! After several failures in a row, and none but failures for as long as a question may take, nobody asks any more: each
//! attempt is answered at once, without the store. Meanwhile a single probe at a time looks whether it is back. It counts and
//! remembers; it has no clock and asks nobody. The surprising thing: the time counts as much as the number. Where one server
//! of three is down, five failures in a row are a matter of luck, and most buckets are where they always were.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::Time;

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: AtomicU32,
    /// The first failure of the row.
    first: Mutex<Option<Instant>>,
    open: AtomicBool,
    answered: AtomicBool,
    /// When the store was away last: what was known of it before may not be so any more.
    back_since: AtomicU64,
}

impl Breaker {
    /// Whether nobody is to ask.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether any question was ever answered.
    pub(super) fn has_ever_succeeded(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether the last question was answered.
    pub(super) fn has_no_failures(&self) -> bool {
        self.failures.load(Ordering::Relaxed) == 0
    }

    /// The store answered. Says whether that is news.
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

    /// It did not, or not in time; `least` is how long a row of failures has to be. Says whether nobody is to ask from now
    /// on, as news.
    pub(super) fn failed(&self, now: Instant, least: Duration) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let lasts = now.saturating_duration_since(*self.first().get_or_insert(now));
        failures >= MAX_FAILURES && lasts >= least && !self.open.swap(true, Ordering::Relaxed)
    }

    fn first(&self) -> MutexGuard<'_, Option<Instant>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when it has not been away; zero, if it never was.
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
        let (breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 {
            assert!((0..4).all(|_| !breaker.failed(now, Duration::ZERO)) && !breaker.is_open());
            assert!(!breaker.succeeded(Time::from_nanos(1)), "it was not open");
        }
        assert_eq!((0..10).filter(|_| breaker.failed(now, Duration::ZERO)).count(), 1, "told once");
        assert!(breaker.is_open());
        assert!(breaker.succeeded(Time::from_nanos(7)) && !breaker.is_open());
        assert_eq!(breaker.back_since(), Time::from_nanos(7));
    }

    #[test]
    fn failures_between_answers_do_not_open_it_however_many_come_at_once() {
        let (breaker, begun, least) = (Breaker::default(), Instant::now(), Duration::from_millis(50));
        // One server of three is down, and whoever asks it comes in crowds.
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
