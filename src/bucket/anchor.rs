//! Where the periods of a bucket begin.

use super::units::{Span, Time};

/// Where the periods of a bucket begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anchor {
    /// With the first attempt after the last period ended.
    #[default]
    First,
    /// Whole periods of UTC, counted from 1970: days begin at midnight, weeks on Thursday.
    Clock,
}

impl Anchor {
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
