//! Finds the target of a JSON pointer (RFC 6901) in a document.
//!
//! It builds no tree and skips everything else. Names of members are compared leniently: Go, Jackson and ASP.NET read
//! `UserName` as `username`, gRPC's gateway `user_name` as `userName`; and of members with the same name some readers
//! take the first and others the last, so all of them are found.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{FieldReadError, TooManyValues, Values};

/// Whether a reader that ignores the content type could read the body as JSON, or as JSON with a prefix.
pub(super) fn looks_like_it(body: &[u8]) -> bool {
    let first = body.iter().find(|byte| byte.is_ascii_graphic());
    // Also comments, and the prefix `)]}'` against cross-site scripts, which readers skip.
    matches!(first, Some(b'{' | b'[' | b'/' | b'#' | b')'))
}

/// Whether a text is a pointer into a document: `~` only before `0` and `1`.
pub(super) fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// The member names of a valid pointer.
pub(super) fn members(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|member| member.replace("~1", "/").replace("~0", "~")).collect()
}

/// Adds the scalar at this pointer, or those in an array at this pointer.
///
/// A broken document, or one with an object or a nested array at this pointer, is unreadable.
pub(super) fn find(body: &[u8], members: &[String], found: &mut Values) -> Result<(), FieldReadError> {
    // Skips byte order marks and blanks of any kind.
    let Some(start) = body.iter().position(u8::is_ascii_graphic) else { return Ok(()) };
    let members: Vec<String> = members.iter().map(|member| folded(member)).collect();
    let mut too_many = false;
    let mut json = serde_json::Deserializer::from_slice(&body[start..]);
    let seed = PointerSeed { members: &members, in_array: false, found, too_many: &mut too_many };
    let read = seed.deserialize(&mut json).and_then(|()| json.end());
    match read {
        _ if too_many => Err(TooManyValues.into()),
        read => read.map_err(|_| FieldReadError::Unreadable),
    }
}

/// The folded name of a member: without case, and without dashes and underscores as with Go's `case:ignore`.
pub(super) fn folded(name: &str) -> String {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-'));
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// A value in the document, and the members that lead from it to the target.
struct PointerSeed<'a> {
    members: &'a [String],
    /// Whether the value is an item of an array at the target.
    in_array: bool,
    found: &'a mut Values,
    too_many: &'a mut bool,
}

impl PointerSeed<'_> {
    fn add<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        if self.members.is_empty() && self.found.add(value.as_bytes()).is_err() {
            *self.too_many = true;
            return Err(E::custom(TooManyValues));
        }
        Ok(())
    }

    /// The seed for a value one level below.
    fn below(&mut self, in_array: bool) -> PointerSeed<'_> {
        let members = self.members.get(1..).unwrap_or_default();
        PointerSeed { members, in_array, found: self.found, too_many: self.too_many }
    }
}

impl<'de> DeserializeSeed<'de> for PointerSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PointerSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or several of them")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.add(if value { "true" } else { "false" })
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.add(&value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.add(&value.to_string())
    }

    /// Writes `12.0`, `1.2e1` and `12` alike.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.add(&(value + 0.0).to_string())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.add(value)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.add("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        match self.members.first() {
            None if self.in_array => return Err(A::Error::custom("an array in an array")),
            None => while items.next_element_seed(self.below(true))?.is_some() {},
            Some(member) => {
                let mut at: usize = 0;
                let index = member.parse().ok();
                loop {
                    let more = match index == Some(at) {
                        true => items.next_element_seed(self.below(false))?.is_some(),
                        false => items.next_element::<IgnoredAny>()?.is_some(),
                    };
                    if !more {
                        break;
                    }
                    at = at.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        // An object at the target is a query operator (`{"$ne": ""}`), if anything.
        let Some(member) = self.members.first() else { return Err(A::Error::custom("an object")) };
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if folded(&name) == *member {
                map.next_value_seed(self.below(false))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pointer: &str, body: impl AsRef<[u8]>) -> Result<Vec<String>, FieldReadError> {
        let mut found = Values::default();
        find(body.as_ref(), &members(pointer), &mut found)?;
        Ok(found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect())
    }

    #[test]
    fn a_pointer_leads_through_objects_and_arrays() {
        let body = r#"{"a": 1, "user": {"names": ["x", {"e~/m": "deep"}]}, "b": [[[]]]}"#;
        assert_eq!(read("/user/names/1/e~0~1m", body), Ok(vec!["deep".into()]));
        for pointer in ["/user/names/2", "/user/name", "/names", "/a/b", "/user/names/x", "/user/names/-"] {
            assert_eq!(read(pointer, body), Ok(vec![]), "{pointer}");
        }
        assert_eq!(read("/a", "\u{feff} {\"a\": \"b\"}"), Ok(vec!["b".into()]));
        assert_eq!(read("/a", "\"a\""), Ok(vec![]));
        assert_eq!(read("/a", "  "), Ok(vec![]));
    }

    #[test]
    fn scalars_count_as_their_text_and_equal_numbers_are_equal() {
        let body = r#"{"a": [true, null, "x\u00e4\n", -7, 1.5]}"#;
        assert_eq!(
            read("/a", body),
            Ok(["true", "null", "x\u{e4}\n", "-7", "1.5"].map(String::from).to_vec())
        );
        assert_eq!(read("/a", r#"{"a": [12, 12.0, 1.2e1, 120e-1, "12"]}"#), Ok(vec!["12".into()]));
        assert_eq!(read("/a", r#"{"a": [0, -0, -0.0, 0e9]}"#), Ok(vec!["0".into()]));
    }

    #[test]
    fn every_member_that_some_reader_takes_for_the_name_counts() {
        let body =
            r#"{"userName": "a", "username": "b", "USER_NAME": "c", "user-name": "d", "u\u0073ername": "e"}"#;
        assert_eq!(read("/userName", body), Ok(["a", "b", "c", "d", "e"].map(String::from).to_vec()));
        assert_eq!(read("/kess", "{\"\u{212a}e\u{17f}s\": 1}"), Ok(vec!["1".into()]));
        let body = r#"{"user": {"email": "a"}, "user": {"email": "b", "Email": "a"}}"#;
        assert_eq!(read("/user/email", body), Ok(["a", "b"].map(String::from).to_vec()));
    }

    #[test]
    fn what_is_no_text_is_unreadable() {
        for body in [
            r#"{"a": {"$ne": ""}}"#,
            r#"{"a": {}}"#,
            r#"{"a": [["x"]]}"#,
            r#"{"a": [{"x": 1}]}"#,
            r#"{"a": "x"} {"a": "y"}"#,
            r#"{"a": "x",}"#,
            r#"{"a": "x""#,
            r#"{a: "x"}"#,
            r#"{'a': 'x'}"#,
            r#"{"b": 1 /* */, "a": "x"}"#,
            r#"/**/{"a": "x"}"#,
            r#"{"a": "\ud800"}"#,
            r#"{"a": 1e999}"#,
            r#"{"a": NaN}"#,
            "{\"a\": \"x\0\"}",
            "{\"a\": \"x\n\"}",
            "log=a",
        ] {
            assert_eq!(read("/a", body), Err(FieldReadError::Unreadable), "{body}");
        }
        assert_eq!(read("/a", b"{\"a\": \"\xff\"}"), Err(FieldReadError::Unreadable));
        let wide: Vec<u8> = "{\"a\": \"x\"}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(read("/a", wide), Err(FieldReadError::Unreadable));
    }

    #[test]
    fn nine_values_are_too_many() {
        let items = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(read("/a", format!("{{\"a\": [{}]}}", items(8))).map(|found| found.len()), Ok(8));
        assert_eq!(read("/a", format!("{{\"a\": [{}]}}", items(9))), Err(TooManyValues.into()));
        let members = (0..10_000).map(|n| format!("\"a\":{n},")).collect::<String>();
        assert_eq!(read("/a", format!("{{{members}\"b\":1}}")), Err(TooManyValues.into()));
    }

    #[test]
    fn nesting_costs_no_stack() {
        let depth = 1_000_000;
        assert_eq!(read("/a", "[".repeat(depth)), Err(FieldReadError::Unreadable));
        let beside = format!("{{\"b\":{}{},\"a\":1}}", "[".repeat(depth), "]".repeat(depth));
        assert!(matches!(read("/a", beside).as_deref(), Ok([_]) | Err(FieldReadError::Unreadable)));
        let path = "/a".repeat(1000);
        let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        assert_eq!(read(&path, deep), Err(FieldReadError::Unreadable));
    }
}
