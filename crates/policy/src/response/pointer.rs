//! A JSON pointer (RFC 6901).
//!
//! It finds a value in a parsed document; [`field`](super::super::field) has its own, lenient look-up in request
//! bodies.

use serde_json::Value;

/// A JSON pointer: empty for the whole document, else `/` before each step, with `~1` for a slash and `~0` for a tilde.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPointer(String);

impl JsonPointer {
    /// Parses a pointer; `None` if the text is none (RFC 6901, section 3).
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let rooted = text.is_empty() || text.starts_with('/');
        let escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        (rooted && escaped).then(|| Self(text.to_owned()))
    }

    /// The value at this pointer, if there is one.
    pub(crate) fn find<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        document.pointer(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_point_where_it_says() {
        let document = serde_json::json!({
            "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
        });
        let table =
            [("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ("/k\"l", 6)];
        for (pointer, number) in table.into_iter().chain([("/ ", 7), ("/m~0n", 8)]) {
            assert_eq!(
                JsonPointer::new(pointer).unwrap().find(&document),
                Some(&Value::from(number)),
                "{pointer}"
            );
        }
        assert_eq!(JsonPointer::new("").unwrap().find(&document), Some(&document));
        assert_eq!(JsonPointer::new("/foo/1").unwrap().find(&document), Some(&Value::from("baz")));
        for nowhere in ["/foo/01", "/foo/-", "/foo/2", "/bar", "/foo/bar"] {
            assert_eq!(JsonPointer::new(nowhere).unwrap().find(&document), None, "{nowhere}");
        }
    }

    #[test]
    fn other_notations_are_no_pointers() {
        for text in ["ok", "$.ok", "#/ok", "/a~", "/a~2", "~0/a"] {
            assert_eq!(JsonPointer::new(text), None, "{text}");
        }
    }
}
