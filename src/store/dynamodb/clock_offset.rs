//! The server's clock, estimated from the `Date` of its responses: between two bounds, because a `Date` is a whole
//! second.
//!
//! An item that outlives its time is judged by whoever reads it, so the clock that decides has to be one for all gates,
//! and that is the server's. Whoever writes counts from the latest time that it can be there, whoever reads from the
//! earliest: so nothing is gone before its time, however wrong the gates' own clocks are. The surprising thing: many
//! answers together say the time far better than to a second, because each one cuts off what cannot be.

use std::sync::{Mutex, PoisonError};

use crate::time::{Clock, Span, Time};

/// The server's clock, as far as it is known.
pub(super) struct ClockEstimate {
    clock: Clock,
    known: Mutex<Option<ClockSample>>,
}

/// What time it can be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeBounds {
    pub(super) earliest: Time,
    pub(super) latest: Time,
}

/// What time it could be there at a certain time here.
#[derive(Clone, Copy)]
struct ClockSample {
    local: Time,
    server: TimeBounds,
}

impl ClockEstimate {
    /// Nothing is known yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, known: Mutex::default() }
    }

    /// The clock of this machine.
    pub(super) fn local_now(&self) -> Time {
        self.clock.now()
    }

    /// What time it can be there now.
    pub(super) fn server_now(&self) -> TimeBounds {
        let now = self.local_now();
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.map_or(TimeBounds { earliest: now.before(TOLERATED), latest: now.after(TOLERATED) }, |known| {
            known.at(now)
        })
    }

    /// An answer of this date came now to what was asked then.
    pub(super) fn observe(&self, date: Time, asked: Time) {
        let here = self.local_now();
        let latest = date.after(SECOND).after(here.since(asked));
        let said = TimeBounds { earliest: date, latest };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let both = known.and_then(|known| known.at(here).and(said));
        // If both cannot be true, somebody has set a clock: what was said last counts.
        *known = Some(ClockSample { local: here, server: both.unwrap_or(said) });
    }
}

impl ClockSample {
    fn at(self, here: Time) -> TimeBounds {
        let passed = here.since(self.local);
        // Two clocks that both keep time differ by less: a quarter of a thousandth.
        let drift = Span::from_nanos(passed.as_nanos() / 4096);
        TimeBounds {
            earliest: self.server.earliest.after(passed.minus(drift)),
            latest: self.server.latest.after(passed).after(drift),
        }
    }
}

impl TimeBounds {
    /// What is in both, if anything is.
    fn and(self, other: Self) -> Option<Self> {
        let earliest = self.earliest.max(other.earliest);
        let latest = self.latest.min(other.latest);
        (earliest <= latest).then_some(Self { earliest, latest })
    }

    /// In the middle.
    pub(super) fn likely(self) -> Time {
        self.earliest.after(Span::from_nanos(self.latest.since(self.earliest).as_nanos() / 2))
    }
}

const SECOND: Span = Span::from_secs(1);
/// Before the first answer: Amazon takes no signature of a gate whose clock is further off than that.
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
        let reckoning = ClockEstimate::new(Clock::manual(START));
        let TimeBounds { earliest, latest } = reckoning.server_now();
        assert_eq!((earliest, latest), (START.before(TOLERATED), START.after(TOLERATED)));
    }

    #[test]
    fn the_true_time_is_always_between_and_many_answers_come_close_to_it() {
        // There it is five minutes and 400 ms earlier than here; each answer takes 4 ms to come.
        let ahead = 300_400;
        let clock = Clock::manual(at(ahead));
        let reckoning = ClockEstimate::new(clock.clone());
        for step in 0..500 {
            let there = 37 * step;
            clock.set(at(there + ahead + 4));
            reckoning.observe(at((there + 2) / 1000 * 1000), at(there + ahead));
            let TimeBounds { earliest, latest } = reckoning.server_now();
            assert!(earliest <= at(there + 4) && at(there + 4) <= latest, "after {step} answers");
        }
        let TimeBounds { earliest, latest } = reckoning.server_now();
        assert!(latest.since(earliest) < Span::from_millis(60), "{:?}", latest.since(earliest));
    }

    #[test]
    fn a_clock_that_was_set_there_counts_at_once() {
        let clock = Clock::manual(START);
        let reckoning = ClockEstimate::new(clock.clone());
        reckoning.observe(START, START);
        reckoning.observe(at(3_600_000), START);
        assert_eq!(reckoning.server_now(), TimeBounds { earliest: at(3_600_000), latest: at(3_601_000) });
        reckoning.observe(Time::default(), START);
        assert_eq!(reckoning.server_now().earliest, Time::default());
    }

    #[test]
    fn what_is_known_becomes_vaguer_with_time() {
        let clock = Clock::manual(START);
        let reckoning = ClockEstimate::new(clock.clone());
        reckoning.observe(START, START);
        clock.set(at(4_096_000));
        assert_eq!(reckoning.server_now(), TimeBounds { earliest: at(4_095_000), latest: at(4_098_000) });
    }
}
