//! Finds the target of a JSON pointer (RFC 6901) in a document.
//!
//! It builds no tree and skips everything else. Names of members are compared leniently: Go, Jackson and ASP.NET read
//! `UserName` as `username`, gRPC's gateway `user_name` as `userName`; and of members with the same name some readers
//! take the first and others the last, so all of them are found.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;

use super::body_fields::{BodyFields, FoundInBody};
use super::member::{FoldedName, hash_folded};
use super::nesting::is_too_deep;

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

/// Why a document was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnreadDocument {
    /// It nests deeper than is read.
    TooDeep,
    /// It is no JSON.
    Broken,
}

/// The slots of fields that hold something else than a text: a query operator (`{"$ne": ""}`), if anything.
pub(super) type OddFields = SmallVec<[usize; 2]>;

/// Adds the scalar at the pointer of each field, or those in an array there, in one pass for all fields.
pub(super) fn find(
    body: &[u8],
    fields: &BodyFields,
    found: &mut FoundInBody,
) -> Result<OddFields, UnreadDocument> {
    // Skips byte order marks and blanks of any kind.
    let Some(start) = body.iter().position(u8::is_ascii_graphic) else { return Ok(OddFields::new()) };
    let text = &body[start..];
    if is_too_deep(text) {
        return Err(UnreadDocument::TooDeep);
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut search = Search { fields, found, odd: OddFields::new(), scalars: 0 };
    let paths = fields.iter().map(|(slot, _)| Path { slot, level: 0, is_item: false }).collect();
    let seed = ValueSeed { search: &mut search, paths };
    match seed.deserialize(&mut json).and_then(|()| json.end()) {
        Ok(()) => Ok(search.odd),
        Err(_) => Err(UnreadDocument::Broken),
    }
}

/// What is looked for, and what was found.
struct Search<'a> {
    fields: &'a BodyFields,
    found: &'a mut FoundInBody,
    odd: OddFields,
    /// Scalars that were added.
    scalars: usize,
}

/// How far the members of a field lead to a value.
#[derive(Clone, Copy)]
struct Path {
    slot: usize,
    level: usize,
    /// Whether the value is an item of an array at the target.
    is_item: bool,
}

impl Path {
    /// The next member on the way; `None` at the target.
    fn next<'f>(&self, fields: &'f BodyFields) -> Option<&'f FoldedName> {
        fields.at(self.slot)?.members.get(self.level)
    }

    fn below(self) -> Self {
        Self { level: self.level + 1, ..self }
    }
}

type Paths = SmallVec<[Path; 4]>;

impl Search<'_> {
    fn add(&mut self, paths: &Paths, value: &str) {
        for path in paths.iter().filter(|path| path.next(self.fields).is_none()) {
            self.scalars += 1;
            match self.scalars > MAX_SCALARS {
                true => self.found.has_too_many(path.slot),
                false => self.found.add(path.slot, value.as_bytes()),
            }
        }
    }

    /// Whether one of them is at its target and takes more.
    fn wants(&self, paths: &Paths) -> bool {
        paths.iter().any(|path| path.next(self.fields).is_none() && self.found.takes_more(path.slot))
    }

    /// Marks paths whose target is not a text. Returns the others.
    fn without_odd(&mut self, paths: &Paths, is_odd: impl Fn(&Path) -> bool) -> Paths {
        let mut others = Paths::new();
        for path in paths {
            if path.next(self.fields).is_some() || !is_odd(path) {
                others.push(*path);
            } else if !self.odd.contains(&path.slot) {
                self.odd.push(path.slot);
            }
        }
        others
    }
}

/// A value in the document, and the ways that lead to it.
struct ValueSeed<'s, 'a> {
    search: &'s mut Search<'a>,
    paths: Paths,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.paths.is_empty() {
            return IgnoredAny::deserialize(deserializer).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or several of them")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.search.add(&self.paths, if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        if self.search.wants(&self.paths) {
            self.search.add(&self.paths, &value.to_string());
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        if self.search.wants(&self.paths) {
            self.search.add(&self.paths, &value.to_string());
        }
        Ok(())
    }

    /// Writes `12.0`, `1.2e1` and `12` alike.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if self.search.wants(&self.paths) {
            self.search.add(&self.paths, &(value + 0.0).to_string());
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.search.add(&self.paths, value);
        Ok(())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.search.add(&self.paths, "null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { search, paths } = self;
        // An array in an array at the target.
        let paths = search.without_odd(&paths, |path| path.is_item);
        let mut at: usize = 0;
        loop {
            let mut below = Paths::new();
            for path in &paths {
                match path.next(search.fields) {
                    None => below.push(Path { is_item: true, ..*path }),
                    Some(member) if member.index == Some(at) => below.push(path.below()),
                    Some(_) => {}
                }
            }
            if items.next_element_seed(ValueSeed { search: &mut *search, paths: below })?.is_none() {
                return Ok(());
            }
            at = at.saturating_add(1);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { search, paths } = self;
        let paths = search.without_odd(&paths, |_| true);
        while let Some(below) = map.next_key_seed(KeySeed { fields: search.fields, paths: &paths })? {
            map.next_value_seed(ValueSeed { search: &mut *search, paths: below })?;
        }
        Ok(())
    }
}

/// The name of a member, which leads on for some of these.
struct KeySeed<'s> {
    fields: &'s BodyFields,
    paths: &'s Paths,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Paths;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Paths, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Paths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Paths, E> {
        let hash = hash_folded(name.chars());
        let leads_on =
            |path: &&Path| path.next(self.fields).is_some_and(|member| member.is(hash, name.chars()));
        Ok(self.paths.iter().filter(leads_on).map(|path| path.below()).collect())
    }
}

/// Scalars at the targets of pointers that are read in one document. A document with more of them is ambiguous.
const MAX_SCALARS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::super::lookup::FieldNames;
    use super::super::tests::FieldReadError;
    use super::super::{Field, TooManyValues, Values};
    use super::*;

    fn read(pointer: &str, body: impl AsRef<[u8]>) -> Result<Vec<String>, FieldReadError> {
        let field = Field::json(pointer).unwrap();
        let names = FieldNames::of([&field].into_iter());
        let (mut found, mut values) = (names.in_body().none_found(), Values::default());
        let odd = find(body.as_ref(), names.in_body(), &mut found);
        found.copy_values(&[0], &mut values).map_err(FieldReadError::TooMany)?;
        match odd {
            Ok(odd) if odd.is_empty() => {
                Ok(values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect())
            }
            _ => Err(FieldReadError::Unreadable),
        }
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
        assert_eq!(read("/a", beside), Err(FieldReadError::Unreadable));
        let path = "/a".repeat(1000);
        let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        assert_eq!(read(&path, deep), Err(FieldReadError::Unreadable));
    }
}
