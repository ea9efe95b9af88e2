//! Why numbers do not make a bucket.

use core::fmt;

/// Why numbers do not make a bucket.
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
    /// Size and debt together are more than can be counted.
    TooLarge,
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
        })
    }
}

impl core::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::super::{Anchor, Continuous, Interval, Rolling, Span};
    use super::SpecError::*;

    #[test]
    fn each_shape_says_what_is_wrong_with_its_numbers() {
        let (second, hour) = (Span::from_secs(1), Span::from_secs(3600));
        let interval = |quota| Interval::new(quota, hour, Anchor::First);
        let rolling = |quota, window| Rolling::new(quota, window, hour, Anchor::First);
        assert_eq!(interval(0), Err(Zero));
        assert_eq!(interval(1).unwrap().with_initial(2), Err(InitialAboveBurst));
        assert_eq!(interval(1).unwrap().with_debt(u32::MAX), Err(TooLarge));
        assert_eq!(interval(1).unwrap().with_debt(1_000_000), Err(TooLong), "a border for each token");
        assert_eq!(rolling(0, hour), Err(Zero));
        assert_eq!(rolling(1, hour.plus(second)), Err(NotWhole));
        assert_eq!(rolling(1, second), Err(NotWhole));
        assert_eq!(rolling(1, hour.times(1025)), Err(TooManyPeriods));
        assert_eq!(rolling(1, hour).unwrap().with_debt(u32::MAX), Err(TooLarge));
        assert_eq!(Continuous::new(2, Span::from_nanos(1), 1), Err(TooFast));
    }
}
