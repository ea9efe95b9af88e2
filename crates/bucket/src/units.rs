//! Points in time, spans of time and the names of buckets, as plain integers.
//!
//! Arithmetic saturates: a result out of range becomes the nearest value in range. Nothing here reads a clock.

use core::fmt;

/// A point in time: nanoseconds since 1970-01-01 UTC, until the year 2554.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The given number of nanoseconds since 1970.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// From `earlier` to here; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This much later.
    #[must_use]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This much earlier.
    #[must_use]
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({})", self.0)
    }
}

/// A length of time in nanoseconds, up to 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The given number of nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The given number of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The given number of seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: for `Retry-After`, so that a client that waits that long is not too early.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000_000)
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference; zero if `other` is longer.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This many times as long.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// The same span for the standard library and its timers.
    #[must_use]
    pub const fn to_std(self) -> core::time::Duration {
        core::time::Duration::from_nanos(self.0)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_std(), f)
    }
}

/// The name of a bucket: 128 bits of a keyed hash over the limit and the parts of its key.
///
/// It reveals no address, account or other part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_exact_seconds_stay() {
        assert_eq!(Span::from_secs(30).as_secs_ceil(), 30);
        assert_eq!(Span::from_nanos(1).as_secs_ceil(), 1);
        assert_eq!(Span::from_nanos(30_000_000_001).as_secs_ceil(), 31);
    }

    #[test]
    fn time_saturates_instead_of_wrapping() {
        let end = Time::from_nanos(u64::MAX);
        assert_eq!(end.after(Span::from_secs(1)), end);
        assert_eq!(Time::default().before(Span::from_secs(1)), Time::default());
        assert_eq!(Time::default().since(end), Span::ZERO);
    }
}
