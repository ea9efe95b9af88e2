//! Why numbers do not make a [`Spec`](super::Spec).

use core::fmt;

/// Why numbers do not make a specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecError {
    /// A count, a burst or a period of zero would never admit anything.
    Zero,
    /// More than 1,000,000,000 tokens a second.
    TooFast,
    /// Filling the bucket (or paying off its debt) would take longer than 73 years.
    TooLong,
    /// The start balance is larger than the bucket.
    InitialAboveBurst,
    /// A rolling window is not a whole multiple of its period, at least one.
    NotWhole,
    /// A rolling window has more than 1,024 periods.
    TooManyPeriods,
    /// Size and debt together do not fit into 32 bits.
    TooLarge,
    /// More than 1,000 strikes before a wait, or waits more than 100 times as long as the one before.
    TooMany,
    /// The first wait is longer than the longest.
    WaitAboveMax,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zero => "a count, period or burst of zero would never admit anything",
            Self::TooFast => "more than 1,000,000,000 tokens a second",
            Self::TooLong => "the bucket would take more than 73 years to fill",
            Self::InitialAboveBurst => "the start balance is larger than the bucket",
            Self::NotWhole => "the window is not a whole number of periods",
            Self::TooManyPeriods => "the window has more than 1,024 periods",
            Self::TooLarge => "size and debt together are more than 4,294,967,295",
            Self::TooMany => "more than 1,000 strikes before a wait, or a factor above 100",
            Self::WaitAboveMax => "the first wait is longer than the longest",
        })
    }
}

impl core::error::Error for SpecError {}

/// The start balance of a bucket of `burst` tokens, unless it is larger.
pub(super) fn fitting_initial(initial: u32, burst: u32) -> Result<u32, SpecError> {
    if initial <= burst { Ok(initial) } else { Err(SpecError::InitialAboveBurst) }
}

#[cfg(test)]
mod tests {
    use super::super::{Continuous, Escalation, Interval, PeriodStart, Rolling, Span};
    use super::SpecError::*;

    #[test]
    fn each_shape_says_what_is_wrong_with_its_numbers() {
        let (second, hour) = (Span::from_secs(1), Span::from_secs(3600));
        let interval = |quota| Interval::new(quota, hour, PeriodStart::First);
        let rolling = |quota, window| Rolling::new(quota, window, hour, PeriodStart::First);
        assert_eq!(interval(0), Err(Zero));
        assert_eq!(interval(1).unwrap().with_initial(2), Err(InitialAboveBurst));
        assert_eq!(interval(1).unwrap().with_debt(u32::MAX), Err(TooLarge));
        assert_eq!(interval(1).unwrap().with_debt(1_000_000), Err(TooLong), "a boundary for each token");
        assert_eq!(rolling(0, hour), Err(Zero));
        assert_eq!(rolling(1, hour.plus(second)), Err(NotWhole));
        assert_eq!(rolling(1, second), Err(NotWhole));
        assert_eq!(rolling(1, hour.times(1025)), Err(TooManyPeriods));
        assert_eq!(rolling(1, hour).unwrap().with_debt(u32::MAX), Err(TooLarge));
        assert_eq!(Continuous::new(2, Span::from_nanos(1), 1), Err(TooFast));
        let escalation = |after, wait, factor| Escalation::new(after, wait, factor, hour);
        assert_eq!(escalation(0, second, 2), Err(Zero));
        assert_eq!(escalation(5, second, 0), Err(Zero));
        assert_eq!(escalation(5, Span::ZERO, 2), Err(Zero));
        assert_eq!(escalation(1001, second, 2), Err(TooMany));
        assert_eq!(escalation(5, second, 101), Err(TooMany));
        assert_eq!(escalation(5, hour.plus(second), 2), Err(WaitAboveMax));
        assert_eq!(Escalation::new(1, second, 1, hour.times(24 * 366 * 40)), Err(TooLong));
    }
}
