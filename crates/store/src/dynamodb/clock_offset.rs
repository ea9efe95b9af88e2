//! The server's clock, estimated from the `Date` of its responses: between two bounds, because a `Date` is a whole
//! second.
//!
//! The reader of an item decides whether it has expired, so one clock has to count for all gates, and that is the
//! server's. A writer counts from the latest time that it can be there, a reader from the earliest: so no item expires
//! early, however wrong the gates' own clocks are. Many responses together give the time far more exactly than to a
//! second, because each one narrows the bounds.

use std::sync::{Mutex, PoisonError};

use crate::time::Clock;

use tollgate_bucket::{Span, Time};

/// An estimate of the server's clock.
pub(super) struct ClockEstimate {
    clock: Clock,
    known: Mutex<Option<ClockSample>>,
}

/// The bounds of the server's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeBounds {
    pub(super) earliest: Time,
    pub(super) latest: Time,
}

/// The bounds of the server's time at a certain local time.
#[derive(Clone, Copy)]
struct ClockSample {
    local: Time,
    server: TimeBounds,
}

impl ClockEstimate {
    /// An estimate without a response yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, known: Mutex::default() }
    }

    /// This machine's clock.
    pub(super) fn local_now(&self) -> Time {
        self.clock.now()
    }

    /// The bounds of the server's time now.
    pub(super) fn server_now(&self) -> TimeBounds {
        let now = self.local_now();
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.map_or(TimeBounds { earliest: now.before(TOLERATED), latest: now.after(TOLERATED) }, |known| {
            known.at(now)
        })
    }

    /// Records a response of this date, which came now, to a request that was sent at this time.
    pub(super) fn observe(&self, date: Time, sent: Time) {
        let now = self.local_now();
        let latest = date.after(SECOND).after(now.since(sent));
        let bounds = TimeBounds { earliest: date, latest };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let both = known.and_then(|known| known.at(now).and(bounds));
        // If both cannot be true, a clock was set: the last response counts.
        *known = Some(ClockSample { local: now, server: both.unwrap_or(bounds) });
    }
}

impl ClockSample {
    fn at(self, now: Time) -> TimeBounds {
        let passed = now.since(self.local);
        // Two working clocks differ by less: a quarter of a thousandth.
        let drift = Span::from_nanos(passed.as_nanos() / 4096);
        TimeBounds {
            earliest: self.server.earliest.after(passed.minus(drift)),
            latest: self.server.latest.after(passed).after(drift),
        }
    }
}

impl TimeBounds {
    /// The part that both share, if there is one.
    fn and(self, other: Self) -> Option<Self> {
        let earliest = self.earliest.max(other.earliest);
        let latest = self.latest.min(other.latest);
        (earliest <= latest).then_some(Self { earliest, latest })
    }

    /// The middle of the bounds.
    pub(super) fn likely(self) -> Time {
        self.earliest.after(Span::from_nanos(self.latest.since(self.earliest).as_nanos() / 2))
    }
}

const SECOND: Span = Span::from_secs(1);
/// Before the first response: Amazon accepts no signature of a gate whose clock is further off.
const TOLERATED: Span = Span::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn at(millis: u64) -> Time {
        START.after(Span::from_millis(millis))
    }

    #[test]
    fn before_the_first_answer_it_can_be_whatever_a_signature_allows() {
        let estimate = ClockEstimate::new(Clock::manual(START));
        let TimeBounds { earliest, latest } = estimate.server_now();
        assert_eq!((earliest, latest), (START.before(TOLERATED), START.after(TOLERATED)));
    }

    #[test]
    fn the_true_time_is_always_between_and_many_answers_come_close_to_it() {
        // The server is five minutes and 400 ms behind this machine; each response takes 4 ms.
        let ahead = 300_400;
        let clock = Clock::manual(at(ahead));
        let estimate = ClockEstimate::new(clock.clone());
        for step in 0..500 {
            let server = 37 * step;
            clock.set(at(server + ahead + 4));
            estimate.observe(at((server + 2) / 1000 * 1000), at(server + ahead));
            let TimeBounds { earliest, latest } = estimate.server_now();
            assert!(earliest <= at(server + 4) && at(server + 4) <= latest, "after {step} answers");
        }
        let TimeBounds { earliest, latest } = estimate.server_now();
        assert!(latest.since(earliest) < Span::from_millis(60), "{:?}", latest.since(earliest));
    }

    #[test]
    fn a_clock_that_was_set_there_counts_at_once() {
        let clock = Clock::manual(START);
        let estimate = ClockEstimate::new(clock.clone());
        estimate.observe(START, START);
        estimate.observe(at(3_600_000), START);
        assert_eq!(estimate.server_now(), TimeBounds { earliest: at(3_600_000), latest: at(3_601_000) });
        estimate.observe(Time::default(), START);
        assert_eq!(estimate.server_now().earliest, Time::default());
    }

    #[test]
    fn what_is_known_becomes_vaguer_with_time() {
        let clock = Clock::manual(START);
        let estimate = ClockEstimate::new(clock.clone());
        estimate.observe(START, START);
        clock.set(at(4_096_000));
        assert_eq!(estimate.server_now(), TimeBounds { earliest: at(4_095_000), latest: at(4_098_000) });
    }
}
