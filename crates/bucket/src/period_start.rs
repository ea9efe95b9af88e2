//! Where the periods of a bucket begin: with the first attempt, or by the clock.
//!
//! It only calculates boundaries; [`Interval`](super::Interval) and [`Rolling`](super::Rolling) use them.

use super::units::{Span, Time};

/// Where the periods of a bucket begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeriodStart {
    /// With the first attempt after the last period ended.
    #[default]
    First,
    /// Whole periods of UTC, counted from 1970: days begin at midnight, weeks on Thursday.
    Clock,
}

impl PeriodStart {
    /// The number of boundaries between a period's end and now, if the next period began at that end.
    pub(super) fn boundaries_since(self, end: Time, now: Time, period: Span) -> u64 {
        let whole = |nanos: u64| nanos.checked_div(period.as_nanos()).unwrap_or(0);
        match self {
            Self::First => whole(now.since(end).as_nanos()),
            Self::Clock => whole(now.as_nanos()).saturating_sub(whole(end.as_nanos())),
        }
    }

    /// The start of the current period, if no period was running before.
    pub(super) fn begin(self, now: Time, period: Span) -> Time {
        match self {
            Self::First => now,
            Self::Clock => {
                now.before(Span::from_nanos(now.as_nanos().checked_rem(period.as_nanos()).unwrap_or(0)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_clock_begin_at_midnight_utc_and_weeks_on_thursday() {
        let day = Span::from_secs(86_400);
        let tuesday_noon = Time::from_nanos(20_832 * day.as_nanos() + day.as_nanos() / 2);
        let begin = |period_start: PeriodStart, period| period_start.begin(tuesday_noon, period);
        assert_eq!(begin(PeriodStart::Clock, day), Time::from_nanos(20_832 * day.as_nanos()));
        assert_eq!(
            begin(PeriodStart::Clock, day.times(7)),
            Time::from_nanos(20_832 / 7 * 7 * day.as_nanos())
        );
        assert_eq!(begin(PeriodStart::First, day), tuesday_noon);
    }
}
