//! `"64KiB"`: a number of bytes with a unit.

use std::fmt;
use std::str::FromStr;

use super::syntax::{Mistake, Syntax, leading_number};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not a size"), HINT);
        let (count, unit) = leading_number(text).ok_or_else(wrong)?;
        let (_, bytes) = UNITS.iter().find(|known| known.0 == unit).ok_or_else(wrong)?;
        count.checked_mul(*bytes).map(Self).ok_or_else(wrong)
    }
}

impl Size {
    /// The pattern of a size, within others.
    pub const PATTERN: &str = "[0-9]+(B|KiB|MiB|GiB)";
}

impl Syntax for Size {
    fn pattern() -> Option<String> {
        Some(format!("^{}$", Self::PATTERN))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |unit: &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(unit.1);
        let (name, unit) = UNITS.iter().find(whole).unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const HINT: &str = "write a number with a unit: \"512B\", \"64KiB\", \"1MiB\"";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_powers_of_two() {
        assert_eq!("64KiB".parse(), Ok(Size(65_536)));
        assert_eq!("1MiB".parse(), Ok(Size(1 << 20)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "64", "KiB", "64KB", "64 KiB", "-1B", "1.5MiB", "99999999999999999999GiB"] {
            assert!(text.parse::<Size>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Size>();
        }

        #[test]
        fn what_is_written_reads_back(bytes: u64) {
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
    }
}
