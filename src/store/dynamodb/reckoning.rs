//! What time it is at the server, from the `Date` of its answers: between two bounds, because a `Date` is a whole second.
//!
//! An item that outlives its time is judged by whoever reads it, so the clock that decides has to be one for all gates,
//! and that is the server's. Whoever writes counts from the latest time that it can be there, whoever reads from the
//! earliest: so nothing is gone before its time, however wrong the gates' own clocks are. The surprising thing: many
//! answers together say the time far better than to a second, because each one cuts off what cannot be.

use std::sync::{Mutex, PoisonError};

use crate::time::{Clock, Span, Time};

/// The server's clock, as far as it is known.
pub(super) struct Reckoning {
    clock: Clock,
    known: Mutex<Option<Known>>,
}

/// What time it can be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Between {
    pub(super) earliest: Time,
    pub(super) latest: Time,
}

/// What time it could be there at a certain time here.
#[derive(Clone, Copy)]
struct Known {
    here: Time,
    there: Between,
}

impl Reckoning {
    /// Nothing is known yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, known: Mutex::default() }
    }

    /// The clock of this machine.
    pub(super) fn here(&self) -> Time {
        self.clock.now()
    }

    /// What time it can be there now.
    pub(super) fn there(&self) -> Between {
        let now = self.here();
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.map_or(Between { earliest: now.before(TOLERATED), latest: now.after(TOLERATED) }, |known| {
            known.at(now)
        })
    }

    /// An answer of this date came now to what was asked then.
    pub(super) fn learn(&self, date: Time, asked: Time) {
        let here = self.here();
        let latest = date.after(SECOND).after(here.since(asked));
        let said = Between { earliest: date, latest };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let both = known.and_then(|known| known.at(here).and(said));
        // If both cannot be true, somebody has set a clock: what was said last counts.
        *known = Some(Known { here, there: both.unwrap_or(said) });
    }
}

impl Known {
    fn at(self, here: Time) -> Between {
        let passed = here.since(self.here);
        // Two clocks that both keep time differ by less: a quarter of a thousandth.
        let drift = Span::from_nanos(passed.as_nanos() / 4096);
        Between {
            earliest: self.there.earliest.after(passed.minus(drift)),
            latest: self.there.latest.after(passed).after(drift),
        }
    }
}

impl Between {
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
        let reckoning = Reckoning::new(Clock::manual(START));
        let Between { earliest, latest } = reckoning.there();
        assert_eq!((earliest, latest), (START.before(TOLERATED), START.after(TOLERATED)));
    }

    #[test]
    fn the_true_time_is_always_between_and_many_answers_come_close_to_it() {
        // There it is five minutes and 400 ms earlier than here; each answer takes 4 ms to come.
        let ahead = 300_400;
        let clock = Clock::manual(at(ahead));
        let reckoning = Reckoning::new(clock.clone());
        for step in 0..500 {
            let there = 37 * step;
            clock.set(at(there + ahead + 4));
            reckoning.learn(at((there + 2) / 1000 * 1000), at(there + ahead));
            let Between { earliest, latest } = reckoning.there();
            assert!(earliest <= at(there + 4) && at(there + 4) <= latest, "after {step} answers");
        }
        let Between { earliest, latest } = reckoning.there();
        assert!(latest.since(earliest) < Span::from_millis(60), "{:?}", latest.since(earliest));
    }

    #[test]
    fn a_clock_that_was_set_there_counts_at_once() {
        let clock = Clock::manual(START);
        let reckoning = Reckoning::new(clock.clone());
        reckoning.learn(START, START);
        reckoning.learn(at(3_600_000), START);
        assert_eq!(reckoning.there(), Between { earliest: at(3_600_000), latest: at(3_601_000) });
        reckoning.learn(Time::default(), START);
        assert_eq!(reckoning.there().earliest, Time::default());
    }

    #[test]
    fn what_is_known_becomes_vaguer_with_time() {
        let clock = Clock::manual(START);
        let reckoning = Reckoning::new(clock.clone());
        reckoning.learn(START, START);
        clock.set(at(4_096_000));
        assert_eq!(reckoning.there(), Between { earliest: at(4_095_000), latest: at(4_098_000) });
    }
}
