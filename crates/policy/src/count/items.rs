//! Counts the items of a JSON array, as in batches of JSON-RPC and GraphQL.
//!
//! An object with a number among its names is an array for PHP. The items themselves are skipped. A comment before the array is an error, since readers that allow comments would find
//! an array where others find none.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Deserializer;

use super::UnreadableBody;
use crate::field::is_too_deep;

/// The number of items if the whole body is an array, else 1. The body begins with a visible byte.
pub(super) fn count(body: &[u8]) -> Result<u32, UnreadableBody> {
    match body.first() {
        Some(b'[') => {}
        Some(b'{') => return Ok(Deserializer::from_slice(body).deserialize_map(Members).unwrap_or(1)),
        Some(b'/' | b'#') => return Err(UnreadableBody),
        _ => return Ok(1),
    }
    if is_too_deep(body) {
        return Err(UnreadableBody);
    }
    let mut json = Deserializer::from_slice(body);
    let items = json.deserialize_seq(Items).map_err(|_| UnreadableBody)?;
    // Text after an array could be another array.
    json.end().map_err(|_| UnreadableBody)?;
    Ok(items)
}

struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u32, A::Error> {
        let mut count: u32 = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count = count.saturating_add(1);
        }
        Ok(count)
    }
}

/// The members of an object with a number among its names; 1 for any other.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<u32, A::Error> {
        let (mut count, mut is_array): (u32, _) = (0, false);
        while let Some((name, _)) = members.next_entry::<Cow<'_, str>, IgnoredAny>()? {
            count = count.saturating_add(1);
            is_array |= name.parse::<u64>().is_ok();
        }
        Ok(if is_array { count } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Count, UnreadableBody};

    fn count(body: impl AsRef<[u8]>) -> Result<u32, UnreadableBody> {
        Count::Items.of(body.as_ref())
    }

    #[test]
    fn each_item_of_the_outer_array_counts_once() {
        for (body, items) in [
            ("[]", 0),
            ("[1]", 1),
            (" \r\n\t[ {\"a\": [1,2,3]}, [4, 5], \"x,y\", null ] \n", 4),
            ("\u{feff}[1,2]", 2),
            ("\u{a0}\u{b}\u{c}[1,2,3]", 3),
            (r#"["]", "[,\"", "\\", "\ud800"]"#, 4),
            ("[1e999999,-0.0,123456789012345678901234567890]", 3),
        ] {
            assert_eq!(count(body), Ok(items), "{body:?}");
        }
        let batch = vec![r#"{"jsonrpc":"2.0","method":"login","params":["a","b"],"id":1}"#; 500].join(",");
        assert_eq!(count(format!("[{batch}]")), Ok(500));
    }

    #[test]
    fn what_is_no_array_is_one_attempt() {
        for body in ["", "  ", "{}", "{\"a\":[1,2]}", "\"[1,2]\"", "log=a&pwd=b", "1", "nul", "\u{feff}{"] {
            assert_eq!(count(body), Ok(1), "{body:?}");
        }
    }

    #[test]
    fn an_object_with_numbers_for_names_is_an_array_to_php() {
        for (body, items) in [
            (r#"{"0":{"a":1},"1":{"a":2}}"#, 2),
            (r#" {"a":1,"\u0030":[2,3],"7":3}"#, 3),
            (r#"{"0":1"#, 1),
            (r#"{"a":1,"b1":2}"#, 1),
        ] {
            assert_eq!(count(body), Ok(items), "{body}");
        }
        let deep = format!("{{\"0\":{}{},\"1\":1}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(count(deep), Ok(2));
    }

    #[test]
    fn what_another_reader_could_take_for_a_longer_array_is_unreadable() {
        for body in [
            "[1,2",
            "[1,2]]",
            "[1][2,3]",
            "[1]//\n,2]",
            "[1] x",
            "[1,2,]",
            "[,]",
            "[1 2]",
            "[NaN]",
            "['a']",
            "[01]",
            "[\"a\n\"]",
            "/**/[1,2]",
            "//\n[1,2]",
            "#\n[1,2]",
            "[1/**/,2]",
            "[",
            "[{]",
            "[\"\\x\"]",
            "[1,\u{feff}2]",
        ] {
            assert_eq!(count(body), Err(UnreadableBody), "{body:?}");
        }
    }

    #[test]
    fn wide_letters_are_unreadable_with_and_without_a_mark() {
        let wide: Vec<u8> = "[1,2]".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(count(&wide), Err(UnreadableBody));
        assert_eq!(count([b"\xff\xfe".as_slice(), &wide].concat()), Err(UnreadableBody));
        let wider: Vec<u8> = "[1,2]".chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect();
        assert_eq!(count(wider), Err(UnreadableBody));
    }

    #[test]
    fn nesting_costs_no_stack() {
        let depth = 1_000_000;
        assert_eq!(count("[".repeat(depth)), Err(UnreadableBody));
        let nested = format!("[{}{},1]", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(count(nested), Err(UnreadableBody));
        let objects = format!("[{}1{},1]", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(count(objects), Err(UnreadableBody));
    }
}
