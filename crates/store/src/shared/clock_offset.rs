//! The offset of the store's clock from this process's own.
//!
//! It makes no calls: the store's clock comes with the replies. The delay of a reply is unknown, so the clock is taken
//! as of its sending, and of several replies the fastest counts. The estimate is late rather than early: no gate
//! decides at a time that has not come at the store, and no token is given out before it is due there.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::StoreClock;
use tollgate_bucket::{Span, Time};

/// By how much the store's clock is ahead of this process's.
#[derive(Debug, Default)]
pub(super) struct ClockOffset {
    nanos: AtomicI64,
    samples: Mutex<OffsetSamples>,
}

/// The best samples of this period and of the one before: clocks drift, so no sample counts for ever.
#[derive(Debug, Default)]
struct OffsetSamples {
    known: bool,
    since: Time,
    best: i64,
    before: i64,
}

/// A large correction of the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockCorrection {
    /// By how many nanoseconds the store is ahead of this process; negative if it is behind.
    pub(super) nanos: i64,
}

impl ClockOffset {
    /// The store's time when this process's clock shows `own`.
    pub(super) fn apply(&self, own: Time) -> Time {
        let nanos = self.nanos.load(Ordering::Relaxed);
        let by = Span::from_nanos(nanos.unsigned_abs());
        if nanos < 0 { own.before(by) } else { own.after(by) }
    }

    /// Records a reply that arrived when this process's clock showed `own`. Returns a correction of more than two
    /// seconds.
    pub(super) fn record(&self, clock: StoreClock, own: Time) -> Option<ClockCorrection> {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let (sample, step) = match clock {
            StoreClock::Exact(time) => (difference(time, own), NANOS),
            StoreClock::Seconds(time) => (difference(time, own), 2 * NANOS),
        };
        let current = self.nanos.load(Ordering::Relaxed);
        // Whole seconds are too coarse to correct an offset that may be right to the millisecond. They are cut off, so
        // a gate that is not corrected is within a second of the store, on either side.
        let is_near = (-2 * NANOS..NANOS).contains(&sample);
        if matches!(clock, StoreClock::Seconds(_)) && current == 0 && is_near {
            samples.known = true;
            return None;
        }
        let is_jump = !samples.known || sample.saturating_sub(current).abs() > step;
        if is_jump {
            *samples = OffsetSamples { known: true, since: own, best: sample, before: sample };
        } else {
            samples.take(sample, own);
        }
        let best = samples.best.max(samples.before);
        self.nanos.store(best, Ordering::Relaxed);
        (best.saturating_sub(current).abs() > WORTH_TELLING).then_some(ClockCorrection { nanos: best })
    }
}

impl OffsetSamples {
    fn take(&mut self, sample: i64, own: Time) {
        if own >= self.since.after(PERIOD) {
            (self.before, self.best, self.since) = (self.best, sample, own);
        } else {
            self.best = self.best.max(sample);
        }
    }
}

fn difference(store: Time, own: Time) -> i64 {
    let nanos = i128::from(store.as_nanos()) - i128::from(own.as_nanos());
    i64::try_from(nanos).unwrap_or(if nanos < 0 { -FAR } else { FAR })
}

const NANOS: i64 = 1_000_000_000;
const WORTH_TELLING: i64 = 2 * NANOS;
/// The clocks of two common machines drift apart by less than a millisecond in this time.
const PERIOD: Span = Span::from_secs(10);
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

    #[test]
    fn the_fastest_answer_counts_and_no_gate_is_ever_ahead_of_the_store() {
        let offset = ClockOffset::default();
        // The store is 300 s ahead; replies take 9, 1 and 30 ms.
        for (sent, took) in [(0, 9), (100, 1), (200, 30)] {
            offset.record(exact(300_000 + sent), at(sent + took));
        }
        assert_eq!(offset.apply(at(1000)), at(300_999));
    }

    #[test]
    fn an_old_answer_stops_counting_when_clocks_drift() {
        let offset = ClockOffset::default();
        offset.record(exact(500), at(0));
        for second in 1..60 {
            offset.record(exact(second * 1000 + 100), at(second * 1000));
        }
        assert_eq!(offset.apply(at(60_000)), at(60_100));
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once_and_told() {
        let offset = ClockOffset::default();
        assert_eq!(offset.record(exact(5), at(0)), None);
        let correction = offset.record(exact(300_000), at(0));
        assert_eq!(correction, Some(ClockCorrection { nanos: 300 * NANOS }));
        assert_eq!(offset.apply(at(10)), at(300_010));
        assert!(offset.record(exact(20), at(20)).is_some());
        assert_eq!(offset.apply(at(30)), at(30));
    }

    #[test]
    fn whole_seconds_leave_small_differences_alone_and_correct_large_ones() {
        let offset = ClockOffset::default();
        assert_eq!(offset.record(StoreClock::Seconds(at(0)), at(1900)), None);
        assert_eq!(offset.apply(at(5)), at(5));
        assert!(offset.record(StoreClock::Seconds(at(300_000)), at(700)).is_some());
        // Of the replies within a second the most exact one counts.
        for millis in (800..3000).step_by(100) {
            let whole = (300_000 + millis) / 1000 * 1000;
            assert_eq!(offset.record(StoreClock::Seconds(at(whole)), at(millis)), None);
        }
        assert_eq!(offset.apply(at(3000)), at(303_000));
    }

    #[test]
    fn absurd_clocks_do_not_panic() {
        let offset = ClockOffset::default();
        offset.record(StoreClock::Exact(Time::from_nanos(u64::MAX)), at(0));
        offset.record(StoreClock::Exact(Time::from_nanos(0)), at(0));
        offset.record(StoreClock::Seconds(Time::from_nanos(u64::MAX)), Time::from_nanos(0));
        let _ = offset.apply(Time::from_nanos(u64::MAX));
    }
}
