//! Throttles repeated log messages: a burst, then one per interval; the others are counted.
//!
//! It queues nothing. The next message that passes carries the number of those left out, so the last count of a flood
//! waits for it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::{Span, Time};

/// Lets some messages through.
#[derive(Debug)]
pub(super) struct LogThrottle {
    interval: Span,
    /// How far ahead of the steady rate messages may be.
    ahead: Span,
    /// When the next message is due at the steady rate, in nanoseconds; zero until the first one.
    due: AtomicU64,
    left_out: AtomicU64,
}

impl LogThrottle {
    /// One message in each interval.
    pub(super) const fn every(interval: Span) -> Self {
        Self { interval, ahead: Span::ZERO, due: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Allows `burst` messages at once after a quiet time.
    pub(super) const fn with_burst(mut self, burst: u32) -> Self {
        self.ahead = self.interval.times(burst.saturating_sub(1) as u64);
        self
    }

    /// If this message may pass, the number left out since the last one.
    pub(super) fn allow(&self, now: Time) -> Option<u64> {
        let due = self.due.load(Ordering::Relaxed);
        let next = now.max(Time::from_nanos(due)).after(self.interval).as_nanos();
        // The loser of a race is left out: the winner has just logged.
        let passes = now.after(self.ahead).as_nanos() >= due
            && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if passes {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_second_goes_through_and_tells_what_was_left_out() {
        let throttle = LogThrottle::every(Span::from_secs(1));
        let start = Time::from_nanos(1_000);
        assert_eq!(throttle.allow(start), Some(0));
        assert_eq!(throttle.allow(start), None);
        assert_eq!(throttle.allow(start.after(Span::from_millis(999))), None);
        assert_eq!(throttle.allow(start.after(Span::from_secs(1))), Some(2));
        assert_eq!(throttle.allow(start.after(Span::from_secs(2))), Some(0));
    }

    #[test]
    fn a_burst_goes_through_at_once_and_the_steady_pace_holds_afterwards() {
        let throttle = LogThrottle::every(Span::from_secs(1)).with_burst(3);
        let start = Time::from_nanos(1_000);
        let passed = |at: Time, count: usize| (0..count).filter(|_| throttle.allow(at).is_some()).count();
        assert_eq!(passed(start, 9), 3);
        assert_eq!(passed(start.after(Span::from_secs(1)), 9), 1);
        assert_eq!(passed(start.after(Span::from_secs(60)), 9), 3);
    }
}
