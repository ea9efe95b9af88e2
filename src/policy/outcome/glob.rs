//! Patterns for one line of an answer: `*` is any text, slashes included; every other letter is itself.
//!
//! Letter case counts, and there is no way to say a literal `*`: no address or cookie name needs one.

/// A pattern for a whole value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// What stands between the asterisks; one more than there are.
    pieces: Vec<Box<[u8]>>,
}

impl Glob {
    /// Every text is a pattern; without an asterisk it fits itself alone.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self { pieces: pattern.split('*').map(|piece| piece.as_bytes().into()).collect() }
    }

    /// Whether it fits the whole value. Takes no longer than the product of both lengths.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else { return false };
        let Some((last, middle)) = rest.split_last() else { return value == &**first };
        let Some(value) = value.strip_prefix(&**first) else { return false };
        let Some(mut value) = value.strip_suffix(&**last) else { return false };
        // The first place where a piece stands leaves the most to those behind it.
        middle.iter().all(|piece| match find(value, piece).and_then(|at| value.get(at + piece.len()..)) {
            Some(rest) => {
                value = rest;
                true
            }
            None => false,
        })
    }
}

/// Where a text stands first.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let Some((first, _)) = wanted.split_first() else { return Some(0) };
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let at = rest.iter().position(|byte| byte == first)?;
        if rest.get(at..)?.starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By trying every length for every asterisk.
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
            prop_assert_eq!(Glob::new(&pattern).matches(value.as_bytes()), slowly(pattern.as_bytes(), value.as_bytes()));
        }

        #[test]
        fn a_text_is_found_where_it_stands_first(text in "[ab]{0,20}", wanted in "[ab]{0,4}") {
            prop_assert_eq!(find(text.as_bytes(), wanted.as_bytes()), text.find(&wanted));
        }
    }
}
