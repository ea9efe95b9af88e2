//! Lengths of time as other programs write them.

/// Seconds of `600`, `10m` or `1d 12h`.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" | "s" | "se" | "sec" | "ss" | "second" | "seconds" => 1,
            "m" | "mi" | "min" | "mm" | "minute" | "minutes" => 60,
            "h" | "ho" | "hh" | "hour" | "hours" => 3600,
            "d" | "da" | "dd" | "day" | "days" => 86_400,
            "w" | "we" | "ww" | "week" | "weeks" => 7 * 86_400,
            "mo" | "mon" | "month" | "months" => 30 * 86_400,
            "y" | "ye" | "yy" | "year" | "years" => 365 * 86_400,
            _ => return None,
        };
        rest = rest[letters..].trim_start();
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let read = [("600", 600), ("10m", 600), ("1d 12h", 129_600), ("1w", 604_800), ("2hours", 7200)];
        for (text, expected) in read {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "-1", "10x", "m", "99999999999999999999", "%(bantime)s"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
