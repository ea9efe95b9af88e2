//! The offset of a store's clock from this process's own, between two bounds.
//!
//! It makes no calls: the store's clock comes with the replies. The true time there lies between the time that a reply
//! tells and that time later by the duration of the request, and by a second where the store tells whole seconds. Many
//! replies together give the time far more exactly than one, because each narrows the bounds.
//!
//! Decisions are made at the earliest time that it can be: no gate decides at a time that has not come at the store,
//! and no token is given out before it is due there. Where a backend and not the store decides whether a record has
//! expired, it needs both bounds.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::StoreClock;
use tollgate_bucket::{Span, Time};

/// By how much the store's clock is ahead of this process's.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset {
    /// To the earliest time, so that a decision needs no lock.
    nanos: AtomicI64,
    is_known: AtomicBool,
    known: Mutex<Option<ClockSample>>,
}

/// The bounds of the store's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeBounds {
    pub(crate) earliest: Time,
    pub(crate) latest: Time,
}

/// The bounds of the store's time when this process's clock showed `own`.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    own: Time,
    store: TimeBounds,
}

/// A large correction of the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockCorrection {
    /// By how many nanoseconds the store is ahead of this process; negative if it is behind.
    nanos: i64,
}

impl ClockOffset {
    /// The store's time when this process's clock shows `own`.
    pub(crate) fn apply(&self, own: Time) -> Time {
        shifted(own, self.nanos.load(Ordering::Relaxed))
    }

    /// The time by this clock when it is `time` by another one.
    pub(crate) fn convert(&self, time: Time, other: &Self) -> Time {
        let nanos = |offset: &Self| offset.nanos.load(Ordering::Relaxed);
        shifted(time, nanos(self).saturating_sub(nanos(other)))
    }

    /// Whether the store has told its time.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// The bounds of the store's time when this process's clock shows `own`; `None` before the first reply.
    #[cfg(feature = "dynamodb")]
    pub(crate) fn bounds(&self, own: Time) -> Option<TimeBounds> {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.map(|known| known.at(own))
    }

    /// Records the reply to a request that was sent when this process's clock showed `sent`, and that arrived when it
    /// showed `own`. Returns a correction of more than two seconds.
    pub(crate) fn record(&self, clock: StoreClock, sent: Time, own: Time) -> Option<ClockCorrection> {
        let told = TimeBounds::told(clock, own.since(sent));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let store = known.map_or(told, |known| known.at(own).narrowed(told));
        *known = Some(ClockSample { own, store });
        self.is_known.store(true, Ordering::Relaxed);
        let current = self.nanos.load(Ordering::Relaxed);
        // Whole seconds are too coarse to correct an offset that may be right to the millisecond.
        if matches!(clock, StoreClock::Seconds(_)) && current == 0 && store.is_within(SECOND, own) {
            return None;
        }
        let nanos = difference(store.earliest, own);
        self.nanos.store(nanos, Ordering::Relaxed);
        (nanos.saturating_sub(current).abs() > WORTH_TELLING).then_some(ClockCorrection { nanos })
    }
}

impl ClockSample {
    fn at(self, own: Time) -> TimeBounds {
        let passed = own.since(self.own);
        // Two working clocks differ by less: a quarter of a thousandth.
        let drift = Span::from_nanos(passed.as_nanos() / 4096);
        TimeBounds {
            earliest: self.store.earliest.after(passed.minus(drift)),
            latest: self.store.latest.after(passed).after(drift),
        }
    }
}

impl TimeBounds {
    /// What one reply tells when it arrives, this long after its request was sent.
    fn told(clock: StoreClock, took: Span) -> Self {
        let (earliest, latest) = match clock {
            StoreClock::Exact(time) => (time, time),
            StoreClock::Seconds(time) => (time, time.after(SECOND)),
        };
        Self { earliest, latest: latest.after(took) }
    }

    /// The part that both share. If both cannot be true, the part of `told` that is nearest; but if they are far apart,
    /// a clock was set, and all of `told` counts.
    fn narrowed(self, told: Self) -> Self {
        if told.earliest > self.latest.after(JITTER) || self.earliest > told.latest.after(JITTER) {
            return told;
        }
        let near = |time: Time| time.clamp(told.earliest, told.latest);
        Self { earliest: near(self.earliest), latest: near(self.latest) }
    }

    /// Whether it is this time, or at most so much earlier or later.
    fn is_within(self, span: Span, time: Time) -> bool {
        self.earliest <= time.after(span) && time <= self.latest.after(span)
    }

    /// The middle of the bounds.
    #[cfg(feature = "dynamodb")]
    pub(crate) fn likely(self) -> Time {
        self.earliest.after(Span::from_nanos(self.latest.since(self.earliest).as_nanos() / 2))
    }
}

impl fmt::Display for ClockCorrection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, side) =
            (self.nanos.unsigned_abs() / 1_000_000_000, if self.nanos < 0 { "behind" } else { "ahead of" });
        write!(f, "the store's clock is {seconds} s {side} this machine's; the store's decides")
    }
}

fn shifted(time: Time, nanos: i64) -> Time {
    let by = Span::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { time.before(by) } else { time.after(by) }
}

fn difference(store: Time, own: Time) -> i64 {
    let nanos = i128::from(store.as_nanos()) - i128::from(own.as_nanos());
    i64::try_from(nanos).unwrap_or(if nanos < 0 { -FAR } else { FAR })
}

const SECOND: Span = Span::from_secs(1);
/// A server's clock may tick a little late, and several servers behind one name have a clock each.
const JITTER: Span = Span::from_millis(100);
const WORTH_TELLING: i64 = 2_000_000_000;
/// More than any working clock is off.
const FAR: i64 = i64::MAX / 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_800_000_000_000_000_000 + millis * 1_000_000)
    }

    fn exact(millis: u64) -> StoreClock {
        StoreClock::Exact(at(millis))
    }

    fn seconds(millis: u64) -> StoreClock {
        StoreClock::Seconds(at(millis / 1000 * 1000))
    }

    fn known(offset: &ClockOffset, own: Time) -> TimeBounds {
        offset.known.lock().unwrap().unwrap().at(own)
    }

    /// Whether a time is this one, or at most a millisecond earlier.
    fn is_just_before(time: Time, expected: Time) -> bool {
        (expected.before(Span::from_millis(1))..=expected).contains(&time)
    }

    #[test]
    fn the_fastest_answer_counts_and_no_gate_is_ever_ahead_of_the_store() {
        let offset = ClockOffset::default();
        // The store is 300 s ahead; replies take 9, 1 and 30 ms, all of it on the way back.
        for (sent, took) in [(0, 9), (100, 1), (200, 30)] {
            offset.record(exact(300_000 + sent), at(sent), at(sent + took));
        }
        assert!(is_just_before(offset.apply(at(1000)), at(300_999)));
    }

    #[test]
    fn clocks_that_drift_apart_are_followed() {
        let offset = ClockOffset::default();
        // The store's clock loses a tenth of a millisecond in a second.
        for second in 0..6000 {
            let store = Time::from_nanos(at(second * 1000).as_nanos() - second * 100_000);
            offset.record(StoreClock::Exact(store), at(second * 1000), at(second * 1000));
            assert!(is_just_before(offset.apply(at(second * 1000)), store), "after {second} s");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once_and_told() {
        let offset = ClockOffset::default();
        assert_eq!(offset.record(exact(5), at(0), at(0)), None);
        let correction = offset.record(exact(300_000), at(0), at(0)).unwrap();
        assert_eq!(
            correction.to_string(),
            "the store's clock is 300 s ahead of this machine's; the store's decides"
        );
        assert_eq!(offset.apply(at(10)), at(300_010));
        assert!(offset.record(exact(20), at(20), at(20)).is_some());
        assert_eq!(offset.apply(at(30)), at(30));
        assert_eq!(known(&offset, at(20)), TimeBounds { earliest: at(20), latest: at(20) });
    }

    #[test]
    fn whole_seconds_leave_small_differences_alone_and_correct_large_ones() {
        let offset = ClockOffset::default();
        assert_eq!(offset.record(seconds(0), at(1900), at(1900)), None);
        assert_eq!(offset.apply(at(5)), at(5));
        assert!(offset.record(seconds(300_000), at(700), at(700)).is_some());
        // The most exact one of the replies within a second counts.
        for millis in (800..3100).step_by(100) {
            assert_eq!(offset.record(seconds(300_000 + millis), at(millis), at(millis)), None);
        }
        assert_eq!(offset.apply(at(3000)), at(303_000));
    }

    #[test]
    fn the_true_time_is_always_between_and_many_answers_come_close_to_it() {
        // The store is five minutes and 400 ms behind this machine; each reply takes 4 ms.
        let ahead = 300_400;
        let offset = ClockOffset::default();
        for step in 0..500 {
            let store = 37 * step;
            let arrived = at(store + ahead + 4);
            offset.record(seconds(store + 2), at(store + ahead), arrived);
            let TimeBounds { earliest, latest } = known(&offset, arrived);
            assert!(earliest <= at(store + 4) && at(store + 4) <= latest, "after {step} replies");
            assert!(offset.apply(arrived) <= at(store + 4), "after {step} replies");
        }
        let TimeBounds { earliest, latest } = known(&offset, at(37 * 499 + ahead + 4));
        assert!(latest.since(earliest) < Span::from_millis(60), "{:?}", latest.since(earliest));
    }

    #[test]
    fn a_clock_that_ticks_late_once_sets_no_gate_back_by_a_second() {
        let offset = ClockOffset::default();
        for millis in (0..5000).step_by(10) {
            offset.record(seconds(300_000 + millis), at(millis), at(millis));
        }
        let before = offset.apply(at(5000));
        // It should tell the next second, and does not yet.
        offset.record(seconds(304_000), at(5005), at(5005));
        let after = offset.apply(at(5005));
        assert!(before.before(Span::from_millis(1)) <= after, "{before:?} {after:?}");
    }

    #[test]
    fn what_is_known_becomes_vaguer_with_time() {
        let offset = ClockOffset::default();
        offset.record(seconds(0), at(0), at(0));
        assert_eq!(
            known(&offset, at(4_096_000)),
            TimeBounds { earliest: at(4_095_000), latest: at(4_098_000) }
        );
    }

    #[test]
    fn absurd_clocks_do_not_panic() {
        let offset = ClockOffset::default();
        for time in [u64::MAX, 0, u64::MAX] {
            for clock in
                [StoreClock::Exact(Time::from_nanos(time)), StoreClock::Seconds(Time::from_nanos(time))]
            {
                offset.record(clock, at(0), Time::default());
            }
        }
        let _ = offset.apply(Time::from_nanos(u64::MAX));
    }
}
