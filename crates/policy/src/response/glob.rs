//! Patterns for values of headers: `*` is any text, slashes included; every other character is itself.
//!
//! Case matters, and there is no escape for a literal `*`: no address or cookie name needs one.

use memchr::memmem::find;

/// A pattern for a whole value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// The pieces between asterisks; one more than there are asterisks.
    pieces: Vec<Box<[u8]>>,
}

impl Glob {
    /// A pattern of any text; without an asterisk it matches only itself.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self { pieces: pattern.split('*').map(|piece| piece.as_bytes().into()).collect() }
    }

    /// Whether it matches the whole value. The time is at most the product of both lengths.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else { return false };
        let Some((last, middle)) = rest.split_last() else { return value == &**first };
        let Some(value) = value.strip_prefix(&**first) else { return false };
        let Some(mut value) = value.strip_suffix(&**last) else { return false };
        // The first occurrence of a piece leaves the longest rest to the pieces after it.
        middle.iter().all(|piece| match find(value, piece).and_then(|at| value.get(at + piece.len()..)) {
            Some(rest) => {
                value = rest;
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries every length for every asterisk, as a reference.
    fn slowly(pattern: &[u8], value: &[u8]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some((b'*', rest)) => (0..=value.len()).any(|skipped| slowly(rest, &value[skipped..])),
            Some((letter, rest)) => value.first() == Some(letter) && slowly(rest, &value[1..]),
        }
    }

    #[test]
    fn an_asterisk_is_any_text_and_the_rest_is_itself() {
        let table = [
            ("/home", "/home", true),
            ("/home", "/home/", false),
            ("/home*", "/home", true),
            ("/home*", "/home/a/b?c=d", true),
            ("*error*", "/login?error=1", true),
            ("*error*", "/login?Error=1", false),
            ("*", "", true),
            ("**", "a", true),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("/wp-admin/*", "/wp-login.php?to=/wp-admin/", false),
            ("a?c", "abc", false),
            ("", "", true),
            ("", "a", false),
        ];
        for (pattern, value, fits) in table {
            assert_eq!(Glob::new(pattern).matches(value.as_bytes()), fits, "{pattern} and {value}");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_trying_everything(pattern in "[ab*]{0,8}", value in "[ab]{0,10}") {
            let expected = slowly(pattern.as_bytes(), value.as_bytes());
            prop_assert_eq!(Glob::new(&pattern).matches(value.as_bytes()), expected);
        }
    }
}
