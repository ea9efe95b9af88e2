//! The counts of the last 1, 10 and 60 minutes, as a ring of whole minutes and a ring of whole ten minutes.
//!
//! A window is the whole periods that it names and the one that runs, so it never begins in the middle of a period.
//! The counts of the running minute belong to the threads, until they are added here.

use super::space_saving::SpaceSaving;
use crate::time::{Span, Time};

/// The time over which clients are counted, up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedTime {
    /// The last minute.
    OneMinute,
    /// The last ten minutes.
    TenMinutes,
    /// The last hour.
    SixtyMinutes,
}

/// Counts by minute: of attempts, or of refusals.
#[derive(Debug, Default)]
pub(super) struct HitHistory {
    minutes: CountedPeriods<{ MINUTES + 1 }>,
    tens: CountedPeriods<{ TENS + 1 }>,
}

/// The counts of the last periods.
#[derive(Debug)]
struct CountedPeriods<const N: usize>([(u32, SpaceSaving); N]);

impl CountedTime {
    /// Of 1, 10 or 60 minutes.
    #[must_use]
    pub fn of_minutes(minutes: u32) -> Option<Self> {
        match minutes {
            1 => Some(Self::OneMinute),
            10 => Some(Self::TenMinutes),
            60 => Some(Self::SixtyMinutes),
            _ => None,
        }
    }

    /// Its length.
    #[must_use]
    pub fn minutes(self) -> u32 {
        match self {
            Self::OneMinute => 1,
            Self::TenMinutes => 10,
            Self::SixtyMinutes => 60,
        }
    }

    /// Its begin: at most one period earlier than its length says.
    #[must_use]
    pub fn since(self, now: Time) -> Time {
        let first = u64::from(self.first_minute(minute_of(now)));
        Time::from_nanos(first * MINUTE.as_nanos())
    }

    /// The first minute that counts.
    pub(super) fn first_minute(self, now: u32) -> u32 {
        match self {
            Self::OneMinute | Self::TenMinutes => now.saturating_sub(self.minutes()),
            Self::SixtyMinutes => (now / TEN).saturating_sub(self.minutes() / TEN) * TEN,
        }
    }
}

impl HitHistory {
    /// Changes the counts of all periods.
    pub(super) fn each(&mut self, mut change: impl FnMut(&mut SpaceSaving)) {
        self.minutes.0.iter_mut().for_each(|(_, counts)| change(counts));
        self.tens.0.iter_mut().for_each(|(_, counts)| change(counts));
    }

    /// Adds the counts of a minute.
    pub(super) fn add(&mut self, minute: u32, counts: &SpaceSaving) {
        self.minutes.add(minute, counts);
        self.tens.add(minute / TEN, counts);
    }

    /// Adds the counts of the window to `sum`.
    pub(super) fn sum(&self, window: CountedTime, now: u32, sum: &mut SpaceSaving) {
        let first = window.first_minute(now);
        match window {
            CountedTime::OneMinute | CountedTime::TenMinutes => self.minutes.sum(first, sum),
            CountedTime::SixtyMinutes => self.tens.sum(first / TEN, sum),
        }
    }
}

impl<const N: usize> CountedPeriods<N> {
    /// A period that has passed takes over the place of the oldest one.
    fn add(&mut self, number: u32, counts: &SpaceSaving) {
        let (known, sum) = &mut self.0[number as usize % N];
        if *known < number {
            *known = number;
            sum.clear();
        }
        if *known == number {
            sum.merge(counts);
        }
    }

    fn sum(&self, first: u32, sum: &mut SpaceSaving) {
        for (_, counts) in self.0.iter().filter(|(number, _)| *number >= first) {
            sum.merge(counts);
        }
    }
}

impl<const N: usize> Default for CountedPeriods<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Default::default()))
    }
}

/// The minute of a time, since 1970.
pub(super) fn minute_of(time: Time) -> u32 {
    u32::try_from(time.as_nanos() / MINUTE.as_nanos()).unwrap_or(u32::MAX)
}

const MINUTE: Span = Span::from_secs(60);
const TEN: u32 = 10;
/// Whole minutes that are remembered, next to the one that runs.
const MINUTES: usize = 10;
/// Whole ten minutes that are remembered, next to those that run.
const TENS: usize = 6;
