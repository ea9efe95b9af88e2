//! Where the periods of a bucket begin.

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
    /// How many borders there are after a period's end until now, if another began with that end.
    pub(super) fn boundaries_since(self, end: Time, now: Time, period: Span) -> u64 {
        let whole = |nanos: u64| nanos.checked_div(period.as_nanos()).unwrap_or(0);
        match self {
            Self::First => whole(now.since(end).as_nanos()),
            Self::Clock => whole(now.as_nanos()).saturating_sub(whole(end.as_nanos())),
        }
    }

    /// When a period that is on now began, if none was on before.
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
        let begin = |anchor: PeriodStart, period| anchor.begin(tuesday_noon, period);
        assert_eq!(begin(PeriodStart::Clock, day), Time::from_nanos(20_832 * day.as_nanos()));
        assert_eq!(
            begin(PeriodStart::Clock, day.times(7)),
            Time::from_nanos(20_832 / 7 * 7 * day.as_nanos())
        );
        assert_eq!(begin(PeriodStart::First, day), tuesday_noon);
    }
}
