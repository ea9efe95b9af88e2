//! Dates as cookies write them (RFC 6265, section 5.1.1), in all the forms that applications use.
//!
//! It parses dates and knows no clock. Text that is not a date gives `None`.

/// Year, month, day, hour, minute, second; sorts by time.
pub(super) type Date = [u16; 6];

/// Parses a date, with any delimiters between its parts.
pub(super) fn parse(text: &[u8]) -> Option<Date> {
    let (mut clock, mut day, mut month, mut year) = (None, None, None, None);
    for word in text.split(|&byte| is_delimiter(byte)).filter(|word| !word.is_empty()) {
        if let (None, Some(found)) = (clock, time_of_day(word)) {
            clock = Some(found);
        } else if let (None, Some(found)) = (day, number(word, 1..=2)) {
            day = Some(found);
        } else if let (None, Some(found)) = (month, month_of(word)) {
            month = Some(found);
        } else if let (None, Some(found)) = (year, number(word, 2..=4)) {
            year = Some(found);
        }
    }
    let ([hour, minute, second], day, month) = (clock?, day?, month?);
    let year = match year? {
        short @ 70..=99 => short + 1900,
        short @ 0..=69 => short + 2000,
        long => long,
    };
    let is_date = (1..=31).contains(&day) && year >= 1601 && hour <= 23 && minute <= 59 && second <= 59;
    is_date.then_some([year, month, day, hour, minute, second])
}

fn is_delimiter(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && byte != b':' && byte.is_ascii()
}

fn time_of_day(word: &[u8]) -> Option<[u16; 3]> {
    let mut fields = word.splitn(3, |&byte| byte == b':');
    let mut field = || number(fields.next()?, 1..=2);
    Some([field()?, field()?, field()?])
}

/// The number at the beginning of a word; the rest is ignored.
fn number(word: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<u16> {
    let count = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let head = digits.contains(&count).then(|| word.get(..count)).flatten()?;
    std::str::from_utf8(head).ok()?.parse().ok()
}

fn month_of(word: &[u8]) -> Option<u16> {
    let name = word.get(..3)?.to_ascii_lowercase();
    MONTHS.iter().zip(1..).find_map(|(month, number)| (**month == *name).then_some(number))
}

const MONTHS: [&[u8]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_date_is_understood() {
        let table: [(&str, Date); 7] = [
            ("Thu, 01 Jan 1970 00:00:00 GMT", [1970, 1, 1, 0, 0, 0]),
            ("Thu, 01-Jan-1970 00:00:01 GMT", [1970, 1, 1, 0, 0, 1]),
            ("Thursday, 01-Jan-70 00:00:10 GMT", [1970, 1, 1, 0, 0, 10]),
            ("Mon, 11-Oct-1999 22:00:00 GMT", [1999, 10, 11, 22, 0, 0]),
            ("Sun Nov  6 08:49:37 1994", [1994, 11, 6, 8, 49, 37]),
            ("Wed, 9 Dec 2037 1:2:3 GMT", [2037, 12, 9, 1, 2, 3]),
            ("fri 06 NOVEMBER 26 08:49:37", [2026, 11, 6, 8, 49, 37]),
        ];
        for (text, date) in table {
            assert_eq!(parse(text.as_bytes()), Some(date), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "Session",
            "32 Jan 2020 00:00:00",
            "1 Jan 2020",
            "1 Jan 2020 24:00:00",
            "\u{fc}:1:1",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
