//! Whether the store is asked at all.
//!
//! After several failures in a row nobody asks any more: each attempt is answered at once, without the store. Meanwhile a
//! single probe at a time looks whether it is back. It counts and remembers; it has no clock and asks nobody. The
//! surprising thing: lost races are no failures, however many.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::time::Time;

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: AtomicU32,
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
    pub(super) fn is_calm(&self) -> bool {
        self.failures.load(Ordering::Relaxed) == 0
    }

    /// The store answered. Says whether that is news.
    pub(super) fn succeeded(&self, now: Time) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        self.answered.store(true, Ordering::Relaxed);
        let was_open = self.open.swap(false, Ordering::Relaxed);
        if was_open {
            self.back_since.store(now.as_nanos(), Ordering::Relaxed);
        }
        was_open
    }

    /// It did not, or not in time. Says whether nobody is to ask from now on, as news.
    pub(super) fn failed(&self) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        failures >= MOST_FAILURES && !self.open.swap(true, Ordering::Relaxed)
    }

    /// Since when it has not been away; zero, if it never was.
    pub(super) fn back_since(&self) -> Time {
        Time::from_nanos(self.back_since.load(Ordering::Relaxed))
    }
}

/// Fewer would turn one stall of a busy machine into an outage.
const MOST_FAILURES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_row_open_it_and_one_answer_closes_it() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            assert!((0..4).all(|_| !breaker.failed()) && !breaker.is_open());
            assert!(!breaker.succeeded(Time::from_nanos(1)), "it was not open");
        }
        assert_eq!((0..10).filter(|_| breaker.failed()).count(), 1, "told once");
        assert!(breaker.is_open());
        assert!(breaker.succeeded(Time::from_nanos(7)) && !breaker.is_open());
        assert_eq!(breaker.back_since(), Time::from_nanos(7));
    }
}
