//! `"10 per 5m burst 10"`, `"10/min"`: tokens each period, and tokens at once.

use std::fmt;
use std::str::FromStr;

use super::diagnostic::{Findings, Spot};
use super::duration::Duration;
use super::kind::TextPattern;
use super::syntax::{Mistake, Syntax};
use tollgate_bucket::{Span, SpecError};

/// A count, a period and a burst, none of them zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateValue {
    /// Tokens each period.
    pub count: u32,
    /// The period.
    pub period: Span,
    /// Tokens at once; by default the count.
    pub burst: u32,
}

impl FromStr for RateValue {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not a rate"), HINT);
        let (count, period, burst) = words(text, |count, period, burst| {
            let number = |word, what| parse_count(word, what, text);
            Some((number(count, "count"), parse_period(period, text), number(burst, "burst")))
        })
        .ok_or_else(wrong)?;
        Ok(Self { count: count?, period: period?, burst: burst? })
    }
}

/// What this makes of the words for count, period and burst; `None` if the text has others.
pub(super) fn words<T>(text: &str, read: impl FnOnce(&str, &str, &str) -> Option<T>) -> Option<T> {
    let spaced = text.replacen('/', " / ", 1);
    let words: Vec<&str> = spaced.split_whitespace().collect();
    match words[..] {
        [count, "per" | "/", period] => read(count, period, count),
        [count, "per" | "/", period, "burst", burst] => read(count, period, burst),
        _ => None,
    }
}

impl Syntax for RateValue {
    fn pattern() -> Option<String> {
        Some(format!("^{}$", pattern()))
    }
}

/// A rate, or `off` for no limit.
pub enum RateOrOff {}

impl TextPattern for RateOrOff {
    fn pattern() -> String {
        format!("^(off|{})$", pattern())
    }
}

/// `10 per 5m burst 20`.
fn pattern() -> String {
    pattern_of("0*[1-9][0-9]*")
}

/// The same with another pattern of counts.
pub(super) fn pattern_of(count: &str) -> String {
    let unit = "s|sec|m|min|h|hour|d|day";
    let duration = Duration::PATTERN;
    format!(r"\s*{count}(\s*/\s*|\s+per\s+)({unit}|{duration})(\s+burst\s+{count})?\s*")
}

fn parse_count(word: &str, what: &str, text: &str) -> Result<u32, Mistake> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    match word.parse() {
        Ok(0) => {
            Err(pointing(format!("a {what} of 0 would never admit anything"), "at least 1", what, word, text))
        }
        Ok(count) if is_number => Ok(count),
        Err(_) if is_number => Err(pointing(
            format!("a {what} of {word} is too large"),
            "at most 4,294,967,295",
            what,
            word,
            text,
        )),
        _ => Err(pointing(format!("`{word}` is not a {what}"), HINT, what, word, text)),
    }
}

pub(super) fn parse_period(word: &str, text: &str) -> Result<Span, Mistake> {
    if let Some((_, seconds)) = UNITS.iter().find(|(unit, _)| *unit == word) {
        return Ok(Span::from_secs(*seconds));
    }
    match word.parse() {
        Ok(Duration(Span::ZERO)) => Err(pointing("a rate needs a period above 0", "", "period", word, text)),
        Ok(Duration(period)) => Ok(period),
        Err(_) => Err(pointing(format!("`{word}` is not a period"), PERIODS, "period", word, text)),
    }
}

/// A mistake in one word of a rate.
pub(super) fn pointing(
    message: impl Into<String>,
    hint: &str,
    what: &str,
    word: &str,
    text: &str,
) -> Mistake {
    // The count comes first, the burst last. The period is the last word before the burst.
    let start = match what {
        "count" => text.find(word),
        "period" => text.split("burst").next().unwrap_or_default().rfind(word),
        _ => text.rfind(word),
    };
    let part = start.map(|at| at..at + word.len());
    Mistake { part, ..Mistake::new(message, hint) }
}

impl fmt::Display for RateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {} burst {}", self.count, Duration(self.period), self.burst)
    }
}

/// The value, or a diagnostic with the reason.
pub fn built<T>(result: Result<T, SpecError>, spot: &Spot, f: &mut Findings) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            f.error(spot, error.to_string(), hint(error));
            None
        }
    }
}

fn hint(error: SpecError) -> &'static str {
    match error {
        SpecError::Zero => "at least 1",
        SpecError::TooFast => "count less, or in a longer period",
        SpecError::TooLong => "a shorter period, a smaller burst or less debt",
        SpecError::InitialAboveBurst => "at most the burst",
        SpecError::NotWhole => "as in rolling = \"10000 per 24h\" and every = \"1h\"",
        SpecError::TooManyPeriods => "calculate it less often",
        SpecError::TooLarge => "a smaller size or less debt",
        SpecError::TooMany => "fewer strikes, or a smaller factor",
        SpecError::WaitAboveMax => "a longer `max`",
    }
}

const UNITS: [(&str, u64); 8] = [
    ("s", 1),
    ("sec", 1),
    ("m", 60),
    ("min", 60),
    ("h", 3600),
    ("hour", 3600),
    ("d", 86_400),
    ("day", 86_400),
];
const HINT: &str = "write a count and a period: \"10 per 5m\", \"10/min\", \"10 per 5m burst 20\"";
const PERIODS: &str = "a duration such as 5m or 1h30m, or one of s, min, h, day";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(count: u32, seconds: u64, burst: u32) -> Result<RateValue, Mistake> {
        Ok(RateValue { count, period: Span::from_secs(seconds), burst })
    }

    #[test]
    fn every_form_of_the_manual_is_read() {
        assert_eq!("10 per 5m burst 10".parse(), rate(10, 300, 10));
        assert_eq!("10/min".parse(), rate(10, 60, 10));
        assert_eq!("10/s".parse(), rate(10, 1, 10));
        assert_eq!("60/min burst 30".parse(), rate(60, 60, 30));
        assert_eq!("1 per 1h".parse(), rate(1, 3600, 1));
        assert_eq!("1000 per day".parse(), rate(1000, 86_400, 1000));
    }

    #[test]
    fn every_unit_is_known() {
        for (unit, seconds) in UNITS {
            assert_eq!(format!("7 / {unit}").parse(), rate(7, seconds, 7));
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let wrong = [
            "",
            "10",
            "10 per",
            "per 5m",
            "10 5m",
            "ten per 5m",
            "10 per 5",
            "10 per 5m burst",
            "10 per 5m burst x",
            "10 per 5m 10",
            "10/min/min",
            "+1/s",
            "-1/s",
            "1.5/s",
            "0/s",
            "1/s burst 0",
            "1 per 0s",
            "4294967296/s",
        ];
        for text in wrong {
            assert!(text.parse::<RateValue>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_wrong_word_is_pointed_at() {
        let part = |text: &str| text.parse::<RateValue>().unwrap_err().part;
        assert_eq!(part("10 per fortnight"), Some(7..16));
        assert_eq!(part("10/min burst 0"), Some(13..14));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<RateValue>();
        }

        #[test]
        fn anything_like_a_rate_is_read_or_refused(
            text in "[0-9]{0,11} ?(per|/)? ?[0-9a-z]{0,6} ?(burst)? ?[0-9]{0,3}",
        ) {
            let _ = text.parse::<RateValue>();
        }

        #[test]
        fn what_is_written_reads_back(count in 1_u32.., millis in 1..100_000_000_u64, burst in 1_u32..) {
            let rate = RateValue { count, period: Span::from_millis(millis), burst };
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
