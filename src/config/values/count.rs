//! `"count:methodName"` or `"count:[]"`: which parts of a body are counted.

use std::str::FromStr;

use super::Mistake;
use crate::policy::count::Count;

/// What a body is counted by, read from text.
#[derive(Debug, PartialEq, Eq)]
pub struct CountValue(pub Count);

impl FromStr for CountValue {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let Some(counted) = text.strip_prefix("count:") else {
            return Err(Mistake::new(format!("`{text}` is not a cost"), HINT));
        };
        // Each document chooses its own prefix for a namespace.
        let local = counted.rsplit(':').next().unwrap_or_default();
        let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-');
        match counted {
            "[]" => Ok(Self(Count::Items)),
            "" => Err(Mistake::new("nothing to count", HINT)),
            name if name.len() <= MAX_COUNT_LEN && !local.is_empty() && name.bytes().all(letter) => {
                Ok(Self(Count::Element(name.to_owned())))
            }
            name => Err(Mistake::new(format!("`{name}` is not the name of an element"), LETTERS)),
        }
    }
}

const MAX_COUNT_LEN: usize = 128;
const HINT: &str = "write a number of tokens, \"count:methodName\" or \"count:[]\"";
const LETTERS: &str = "letters, digits, `_`, `.`, `-`, and `:` after a prefix";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_items_can_be_counted() {
        assert_eq!("count:[]".parse(), Ok(CountValue(Count::Items)));
        for name in ["methodName", "soap:Login", "a.b-c_1", "x"] {
            assert_eq!(format!("count:{name}").parse(), Ok(CountValue(Count::Element(name.into()))));
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let long = format!("count:{}", "x".repeat(129));
        for text in [
            "",
            "count",
            "count:",
            "count: ",
            "count:a b",
            "count:soap:",
            "count:[",
            "count:<a>",
            "Count:a",
            "count:\u{e4}",
            &long,
        ] {
            assert!(text.parse::<CountValue>().is_err(), "{text:?}");
        }
    }
}
