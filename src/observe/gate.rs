//! A gate for repeated messages: one goes through in each interval, the others are counted.
//!
//! It does not queue anything. The surprising thing: what was left out is told by the next message that goes
//! through, so the last count of a burst waits for the next burst.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::{Span, Time};

/// Lets one message through in each interval.
#[derive(Debug)]
pub(super) struct Gate {
    interval: Span,
    /// Nanoseconds; zero until the first message.
    opens: AtomicU64,
    left_out: AtomicU64,
}

impl Gate {
    /// One message in each interval.
    pub(super) const fn every(interval: Span) -> Self {
        Self { interval, opens: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// How many messages were left out since the last one, if this one may go through.
    pub(super) fn pass(&self, now: Time) -> Option<u64> {
        let opens = self.opens.load(Ordering::Relaxed);
        let next = now.after(self.interval).as_nanos();
        let passes = now.as_nanos() >= opens
            && self.opens.compare_exchange(opens, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
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
        let gate = Gate::every(Span::from_secs(1));
        let start = Time::from_nanos(1_000);
        assert_eq!(gate.pass(start), Some(0));
        assert_eq!(gate.pass(start), None);
        assert_eq!(gate.pass(start.after(Span::from_millis(999))), None);
        assert_eq!(gate.pass(start.after(Span::from_secs(1))), Some(2));
        assert_eq!(gate.pass(start.after(Span::from_secs(2))), Some(0));
    }
}
