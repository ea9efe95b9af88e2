//! The clock by which everything is decided: other modules receive a [`Time`], and do not ask the operating system.
//!
//! The clock is monotonic and anchored to the wall clock once, at the start: setting the wall clock later changes
//! nothing. It stands still while the machine is suspended (`CLOCK_MONOTONIC`), which errs on the strict side. Two things use other
//! clocks: the header `Date` follows the wall clock, and time-outs of connections and calls use tokio's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use tollgate_bucket::{Span, Time};

/// The source of the current time: the system clock, or a manual one.
#[derive(Debug, Clone)]
pub struct Clock(ClockSource);

#[derive(Debug, Clone)]
enum ClockSource {
    System { wall_at_start: Time, started: Instant },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock, anchored to the wall now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "only this module reads the system clock")]
    pub fn system() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_at_start = Time::from_nanos(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX));
        Self(ClockSource::System { wall_at_start, started: Instant::now() })
    }

    /// A clock that stands still until it is [set](Self::set): for tests and simulations.
    #[must_use]
    pub fn manual(start: Time) -> Self {
        Self(ClockSource::Manual(Arc::new(AtomicU64::new(start.as_nanos()))))
    }

    /// The current time. A system clock never runs backwards.
    #[must_use]
    pub fn now(&self) -> Time {
        match &self.0 {
            ClockSource::System { wall_at_start, started } => {
                let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                wall_at_start.after(Span::from_nanos(nanos))
            }
            ClockSource::Manual(time) => Time::from_nanos(time.load(Ordering::Relaxed)),
        }
    }

    /// Sets a manual clock, forwards or backwards; does nothing to a system clock.
    pub fn set(&self, time: Time) {
        if let ClockSource::Manual(shared) = &self.0 {
            shared.store(time.as_nanos(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_near_the_wall_and_never_steps_back() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(first.as_nanos() > 1_700_000_000_000_000_000, "anchored to the wall: {first:?}");
        assert!((0..1000).map(|_| clock.now()).is_sorted());
    }

    #[test]
    fn a_manual_clock_stands_still_and_its_copies_agree() {
        let clock = Clock::manual(Time::from_nanos(5));
        let copy = clock.clone();
        copy.set(Time::from_nanos(3));
        assert_eq!(clock.now(), Time::from_nanos(3));
    }
}
