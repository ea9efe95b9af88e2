//! The circuit breaker of one server: stops calls to a server that does not answer, or takes no writes.
//!
//! It opens after several failures in a row, with no success for as long as a call may take. While it is open, each
//! attempt is decided at once without the store, and one probe at a time checks whether the server is back. The duration
//! counts as much as the number: five failures at once are chance. Failures of writes are counted separately, and only
//! a write closes it: a server whose memory is full, or that has become a replica, goes on answering reads. The clock
//! and the calls are left to the callers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use tollgate_bucket::Time;

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    /// Failed calls with no successful one between.
    calls: FailureRow,
    /// Failed writes with no successful one between.
    writes: FailureRow,
    open: AtomicBool,
    answered: AtomicBool,
    /// When the server last came back: a record that was seen before may be lost.
    back_since: AtomicU64,
}

/// What a call does to the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Read,
    Write,
    /// Everything that attempts do.
    Probe,
}

/// Failures in a row.
#[derive(Debug, Default)]
struct FailureRow {
    count: AtomicU32,
    first: Mutex<Option<Instant>>,
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

    /// Whether the last call and the last write succeeded.
    pub(super) fn has_no_failures(&self) -> bool {
        self.calls.is_empty() && self.writes.is_empty()
    }

    /// Records a success. Returns whether the server came back with it: from an outage, or for the first time.
    pub(super) fn succeeded(&self, kind: CallKind, now: Time) -> bool {
        self.calls.end();
        let is_first = !self.answered.swap(true, Ordering::Relaxed);
        let closes = kind != CallKind::Read && {
            self.writes.end();
            self.open.swap(false, Ordering::Relaxed)
        };
        if is_first || closes {
            self.back_since.store(now.as_nanos(), Ordering::Relaxed);
        }
        closes || is_first && !self.is_open()
    }

    /// Records a failure; a row of failures counts once it lasts `least`. Returns whether it opens the breaker.
    pub(super) fn failed(&self, kind: CallKind, now: Instant, least: Duration) -> bool {
        let calls = self.calls.add(now, least);
        let writes = kind != CallKind::Read && self.writes.add(now, least);
        (calls || writes) && !self.open.swap(true, Ordering::Relaxed)
    }

    /// Records that the server answered and refused. One probe is enough, because it asks what every attempt asks; the
    /// refusal of an attempt may concern its bucket alone. Returns whether it opens the breaker.
    pub(super) fn refused(&self, kind: CallKind, now: Instant, least: Duration) -> bool {
        let opens = self.failed(kind, now, least);
        opens || kind == CallKind::Probe && !self.open.swap(true, Ordering::Relaxed)
    }

    /// When the server last came back, or first answered.
    pub(super) fn back_since(&self) -> Time {
        Time::from_nanos(self.back_since.load(Ordering::Relaxed))
    }
}

impl FailureRow {
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a failure. Returns whether the row is long enough.
    fn add(&self, now: Instant, least: Duration) -> bool {
        let count = self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let lasts = now.saturating_duration_since(*self.first().get_or_insert(now));
        count >= MAX_FAILURES && lasts >= least
    }

    fn end(&self) {
        if self.count.swap(0, Ordering::Relaxed) > 0 {
            *self.first() = None;
        }
    }

    fn first(&self) -> MutexGuard<'_, Option<Instant>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fewer would turn one stall of a busy machine into an outage.
const MAX_FAILURES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::CallKind::{Probe, Read, Write};
    use super::*;

    /// A breaker whose server has answered before.
    fn answered() -> (CircuitBreaker, Instant) {
        let breaker = CircuitBreaker::default();
        assert!(breaker.succeeded(Write, Time::from_nanos(1)), "it came for the first time");
        (breaker, Instant::now())
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_one_write_closes_it() {
        let (breaker, now) = answered();
        for _ in 0..10 {
            assert!((0..4).all(|_| !breaker.failed(Write, now, Duration::ZERO)) && !breaker.is_open());
            assert!(!breaker.succeeded(Write, Time::from_nanos(1)), "it was not open");
        }
        let opened = (0..10).filter(|_| breaker.failed(Read, now, Duration::ZERO)).count();
        assert_eq!(opened, 1, "reported once");
        assert!(breaker.is_open());
        assert!(breaker.succeeded(Write, Time::from_nanos(7)) && !breaker.is_open());
        assert_eq!(breaker.back_since(), Time::from_nanos(7));
    }

    #[test]
    fn failures_between_answers_do_not_open_it_however_many_come_at_once() {
        let ((breaker, begun), least) = (answered(), Duration::from_millis(50));
        for millis in 0..1000 {
            let now = begun + Duration::from_millis(millis);
            assert!((0..100).all(|_| !breaker.failed(Read, now, least)), "after {millis} ms");
            if millis % 40 == 39 {
                assert!(!breaker.succeeded(Read, Time::from_nanos(1)), "it was not open");
            }
        }
        let now = begun + Duration::from_millis(1050);
        assert!((0..10).all(|_| !breaker.failed(Read, now, least)));
        assert!(breaker.failed(Read, now + least, least));
    }

    #[test]
    fn a_server_that_reads_and_does_not_write_opens_it_and_no_read_closes_it() {
        let (breaker, now) = answered();
        for write in 1..=5 {
            assert!(!breaker.succeeded(Read, Time::from_nanos(2)));
            assert_eq!(breaker.failed(Write, now, Duration::ZERO), write == 5);
        }
        assert!(!breaker.succeeded(Read, Time::from_nanos(3)) && breaker.is_open());
        assert!(!breaker.has_no_failures());
        assert!(breaker.succeeded(Write, Time::from_nanos(4)) && !breaker.is_open());
        assert!(breaker.has_no_failures());
    }

    #[test]
    fn one_refused_probe_opens_it_and_refused_attempts_do_in_a_row() {
        let (breaker, now) = answered();
        assert!((1..=4).all(|_| !breaker.refused(Write, now, Duration::ZERO)) && !breaker.is_open());
        assert!(breaker.refused(Probe, now, Duration::MAX) && breaker.is_open());
        assert!(!breaker.refused(Probe, now, Duration::MAX), "reported once");
        assert!(breaker.succeeded(Probe, Time::from_nanos(2)) && breaker.has_no_failures());
    }

    #[test]
    fn a_server_is_back_when_it_answers_for_the_first_time() {
        let breaker = CircuitBreaker::default();
        assert!(breaker.succeeded(Read, Time::from_nanos(5)));
        assert_eq!(breaker.back_since(), Time::from_nanos(5));
        assert!(!breaker.succeeded(Write, Time::from_nanos(6)));
    }
}
