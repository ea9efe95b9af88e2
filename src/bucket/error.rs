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
