//! `"10MB/s burst 50MB"`: bytes each period, and bytes at once.

use std::fmt;
use std::str::FromStr;

use super::diagnostic::Findings;
use super::document::Located;
use super::duration::Duration;
use super::kind::Kind;
use super::rate::{RateValue, parse_period, pattern_of, pointing, words};
use super::schema::Schema;
use super::syntax::{Mistake, Syntax, leading_number};
use tollgate_bucket::Span;

/// Bytes, a period and a burst, none of them zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRate {
    /// Bytes each period.
    pub bytes: u64,
    /// The period.
    pub period: Span,
    /// Bytes at once; by default as many as each period.
    pub burst: u64,
}

impl FromStr for ByteRate {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not a rate of bytes"), HINT);
        let (bytes, period, burst) = words(text, |bytes, period, burst| {
            let size = |word, what| parse_size(word, what, text);
            Some((size(bytes, "count"), parse_period(period, text), size(burst, "burst")))
        })
        .ok_or_else(wrong)?;
        Ok(Self { bytes: bytes?, period: period?, burst: burst? })
    }
}

impl Syntax for ByteRate {
    fn pattern() -> Option<String> {
        Some(format!("^{}$", pattern_of(SIZE)))
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, burst) = (in_units(self.bytes), in_units(self.burst));
        write!(f, "{bytes} per {} burst {burst}", Duration(self.period))
    }
}

/// A rate of attempts; who expects bytes reads its text as a [`ByteRate`].
pub enum RateOfAttempts {}

impl Kind for RateOfAttempts {
    type Raw = String;
    type Value = RateValue;

    fn schema() -> Schema {
        let patterns = [RateValue::pattern(), ByteRate::pattern()].into_iter().flatten();
        Schema::pattern(patterns.collect::<Vec<_>>().join("|"))
    }

    fn check(given: &Located<String>, f: &mut Findings) -> Option<RateValue> {
        if given.value.parse::<ByteRate>().is_ok() {
            let message = format!("`{}` is a rate of bytes", given.value);
            f.error(&given.spot, message, "add unit = \"bytes\", or write a count: \"10 per 5m\"");
            return None;
        }
        RateValue::read(given, f)
    }
}

/// Bytes in the largest unit in which they are a whole number, as in `50MB`.
#[must_use]
pub fn in_units(bytes: u64) -> String {
    let is_whole = |unit: &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(unit.1);
    let largest = UNITS.iter().filter(is_whole).max_by_key(|unit| unit.1);
    let (name, unit) = largest.unwrap_or(&("B", 1));
    format!("{}{name}", bytes / unit)
}

fn parse_size(word: &str, what: &str, text: &str) -> Result<u64, Mistake> {
    let wrong = |message: String, hint: &str| pointing(message, hint, what, word, text);
    let unknown = || wrong(format!("`{word}` is not a number of bytes"), HINT);
    let (count, unit) = leading_number(word).ok_or_else(unknown)?;
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(unknown)?;
    match count.checked_mul(*unit) {
        Some(0) => Err(wrong(format!("a {what} of 0 would never let anything through"), "at least 1B")),
        Some(bytes @ 1..=MAX_BYTES) => Ok(bytes),
        _ => Err(wrong(format!("a {what} of {word} is too large"), "at most 1TB")),
    }
}

const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];
const SIZE: &str = "0*[1-9][0-9]*([KMGT]i?)?B";
/// A terabyte.
const MAX_BYTES: u64 = 1_000_000_000_000;
const HINT: &str = "write bytes and a period: \"10MB/s\", \"1GB per 1h\", \"10MB/s burst 50MB\"";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(bytes: u64, seconds: u64, burst: u64) -> Result<ByteRate, Mistake> {
        Ok(ByteRate { bytes, period: Span::from_secs(seconds), burst })
    }

    #[test]
    fn every_form_of_the_manual_is_read() {
        assert_eq!("10MB/s burst 50MB".parse(), rate(10_000_000, 1, 50_000_000));
        assert_eq!("10MB/s".parse(), rate(10_000_000, 1, 10_000_000));
        assert_eq!("1GiB per 1h".parse(), rate(1 << 30, 3600, 1 << 30));
        assert_eq!("100GB / day burst 1GB".parse(), rate(100_000_000_000, 86_400, 1_000_000_000));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let wrong = ["", "10", "10/s", "10MB", "MB/s", "10mb/s", "10 MB/s", "10Mb/s", "-1B/s", "1.5MB/s"];
        let others = ["0B/s", "1B/s burst 0B", "1B per 0s", "2TB/s", "1TiB/s", "99999999999999999999B/s"];
        for text in wrong.iter().chain(&others) {
            assert!(text.parse::<ByteRate>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_wrong_word_is_pointed_at() {
        let part = |text: &str| text.parse::<ByteRate>().unwrap_err().part;
        assert_eq!(part("10MB per fortnight"), Some(9..18));
        assert_eq!(part("10MB/s burst 50"), Some(13..15));
        assert_eq!(part("10mb/s"), Some(0..4));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<ByteRate>();
        }

        #[test]
        fn what_is_written_reads_back(bytes in 1..MAX_BYTES, millis in 1..100_000_000_u64, burst in 1..MAX_BYTES) {
            let rate = ByteRate { bytes, period: Span::from_millis(millis), burst };
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
