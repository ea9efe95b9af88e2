//! `"250ms" "30s" "5m" "1h30m" "7d"`: numbers with units, larger units first.

use std::fmt;
use std::str::FromStr;

use super::syntax::{Mistake, Syntax, leading_number};
use tollgate_bucket::Span;

/// A length of time, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub Span);

impl FromStr for Duration {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not a duration"), HINT);
        let (mut rest, mut millis, mut larger) = (text, 0_u64, u64::MAX);
        while !rest.is_empty() {
            let (count, after) = leading_number(rest).ok_or_else(wrong)?;
            let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let unit = UNITS.iter().find(|unit| unit.0 == &after[..end]).ok_or_else(wrong)?.1;
            if unit >= larger {
                return Err(wrong());
            }
            millis = count.checked_mul(unit).and_then(|sum| sum.checked_add(millis)).ok_or_else(wrong)?;
            (rest, larger) = (&after[end..], unit);
        }
        if text.is_empty() {
            return Err(wrong());
        }
        if millis > MAX_MILLIS {
            return Err(Mistake::new(format!("`{text}` is longer than 100 years"), ""));
        }
        Ok(Self(Span::from_millis(millis)))
    }
}

impl Duration {
    /// The pattern of a length of time, within others.
    pub const PATTERN: &str = "(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?";
}

impl Syntax for Duration {
    fn pattern() -> Option<String> {
        Some(format!("^{}$", Self::PATTERN))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_nanos() / 1_000_000;
        if left == 0 {
            return f.write_str("0s");
        }
        for (name, unit) in UNITS {
            if left >= unit {
                write!(f, "{}{name}", left / unit)?;
                left %= unit;
            }
        }
        Ok(())
    }
}

/// A length of time in the usual spelling, in whole milliseconds: a day is `24h`.
#[must_use]
pub fn in_words(span: Span) -> String {
    if span == Span::from_millis(DAY) { "24h".to_owned() } else { Duration(span).to_string() }
}

/// Milliseconds of a second, for bounds.
pub const SECOND: u64 = 1000;
/// Milliseconds of an hour.
pub const HOUR: u64 = 3_600_000;
/// Milliseconds of a day.
pub const DAY: u64 = 86_400_000;
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const MAX_MILLIS: u64 = 100 * 366 * 86_400_000;
const HINT: &str = "write numbers with units: \"250ms\", \"30s\", \"5m\", \"1h30m\", \"7d\"";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_the_manual_is_read() {
        let millis = |text: &str| text.parse::<Duration>().unwrap().0.as_nanos() / 1_000_000;
        assert_eq!(
            ["250ms", "30s", "5m", "1h30m", "7d", "0s"].map(millis),
            [250, 30_000, 300_000, 5_400_000, 604_800_000, 0]
        );
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let wrong = [
            "",
            "5",
            "m",
            "5 m",
            "-5m",
            "5M",
            "5m5m",
            "5s1h",
            "1.5h",
            "5min",
            "999999999999999999d",
            "200000d",
            "5m\u{b2}s",
        ];
        for text in wrong {
            assert!(text.parse::<Duration>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Duration>();
        }

        #[test]
        fn what_is_written_reads_back(millis in 0..MAX_MILLIS) {
            let duration = Duration(Span::from_millis(millis));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
