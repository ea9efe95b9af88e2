//! Numbers and times in few columns.

use crate::config::values::in_words;
use crate::time::Span;

/// Seconds as `21s`, `9m59s`, `2h5m`, `3d4h`: rounded up, with two units at most.
pub(super) fn time(seconds: u64) -> String {
    let unit = match seconds {
        0..3600 => 1,
        3600..86_400 => 60,
        _ => 3600,
    };
    in_words(Span::from_secs(seconds.div_ceil(unit).saturating_mul(unit)))
}

/// The same of a wait: a started second is a second.
pub(super) fn wait(seconds: f64) -> String {
    let span =
        std::time::Duration::try_from_secs_f64(seconds.ceil().max(0.0)).unwrap_or(std::time::Duration::MAX);
    time(span.as_secs())
}

/// `3.4/s`, `34/s`.
pub(super) fn rate(a_second: f64) -> String {
    if a_second == 0.0 || a_second >= 10.0 { format!("{a_second:.0}/s") } else { format!("{a_second:.1}/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_said_to_be_shorter_than_it_is() {
        let waits =
            [(0.2, "1s"), (21.5, "22s"), (60.0, "1m"), (599.1, "10m"), (3601.0, "1h1m"), (90_001.0, "1d2h")];
        for (seconds, words) in waits {
            assert_eq!(wait(seconds), words);
        }
        for odd in [f64::NAN, f64::INFINITY, -5.0, 1e300] {
            assert!(!wait(odd).is_empty());
        }
    }

    #[test]
    fn a_rate_has_a_digit_behind_the_point_where_it_matters() {
        assert_eq!([0.0, 0.04, 3.44, 34.4].map(rate), ["0/s", "0.0/s", "3.4/s", "34/s"]);
    }
}
