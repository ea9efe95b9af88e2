//! The name of a form field, compared to a name as it was sent.
//!
//! It knows no body. Brackets, dots, blanks and underscores are the same separator here, and their number does not
//! matter: PHP makes `_` of dots, blanks and unclosed brackets, Rack skips leading brackets, and readers differ about
//! `a[b`, `a]b` and `a[b]c`. Zope and Rocket read `a:string` and `a.b` as `a`.

/// A name from the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldName(String);

impl FieldName {
    pub(super) fn new(written: &str) -> Self {
        let mut fold = FieldNameFold::default();
        written.chars().for_each(|letter| fold.push(letter));
        Self(fold.text().to_owned())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether an application could read a decoded name as this one, or as an array of this name. Many names at once are
    /// compared by [`lookup`](super::lookup), which finds the same.
    #[cfg(test)]
    pub(super) fn is(&self, sent: &[u8]) -> bool {
        if sent.first().is_some_and(|first| self.cannot_begin(*first)) {
            return false;
        }
        // A body may have a million names, and hardly one of them is this one: comparing allocates nothing.
        let (mut rest, mut is_separated) = (self.0.chars(), false);
        for letter in String::from_utf8_lossy(sent).chars() {
            if ends_a_name(letter) && rest.as_str().is_empty() {
                return true;
            }
            if separates(letter) {
                is_separated = true;
                continue;
            }
            let has_begun = rest.as_str().len() < self.0.len();
            let differs = std::mem::take(&mut is_separated) && has_begun && rest.next() != Some('_');
            if differs || letter.to_lowercase().any(|letter| rest.next() != Some(letter)) {
                return false;
            }
        }
        rest.as_str().is_empty()
    }

    /// Whether the first byte rules out that a sent name is this one. Beyond ASCII there are two characters with ASCII
    /// lower-case forms, and blanks that do not count; their first bytes are these five.
    pub(super) fn cannot_begin(&self, first: u8) -> bool {
        let begins = self.0.as_bytes().first().copied().unwrap_or_default();
        match first {
            0x80.. => begins.is_ascii() && !matches!(first, 0xC2 | 0xC4 | 0xE1..=0xE3),
            _ => first.is_ascii_alphanumeric() && begins != first.to_ascii_lowercase(),
        }
    }

    /// The members that lead to the field in a document: frameworks merge forms and JSON.
    pub(super) fn members(written: &str) -> Vec<String> {
        written.split(['[', ']']).filter(|member| !member.is_empty()).map(str::to_owned).collect()
    }
}

/// Whether a field can have this name: a name of separators alone would match any field without a name.
pub(super) fn is_name(written: &str) -> bool {
    !FieldName::new(written).0.is_empty()
}

/// Whether a name may end before this character: after a bracket come array keys or text that PHP ignores, after a dot
/// members that Rocket ignores, after a colon the type for Zope, and C stops at a zero byte.
pub(super) fn ends_a_name(letter: char) -> bool {
    matches!(letter, '[' | ']' | '.' | ':' | '\0')
}

/// The same for a cookie, whose names have no types and no members: `user.sig` signs `user`.
pub(super) fn ends_a_cookies_name(letter: char) -> bool {
    ends_a_name(letter) && !matches!(letter, '.' | ':')
}

pub(super) fn separates(letter: char) -> bool {
    matches!(letter, '[' | ']' | '.' | '_' | '\0') || letter.is_whitespace()
}

/// The characters of a text; U+FFFD for what is no UTF-8.
pub(super) fn letters(text: &[u8]) -> impl Iterator<Item = char> {
    text.utf8_chunks().flat_map(|chunk| {
        let broken = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        chunk.valid().chars().chain(broken)
    })
}

/// A folded name, and whether a separator is pending.
#[derive(Default)]
pub(super) struct FieldNameFold(String, bool);

impl FieldNameFold {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn push(&mut self, letter: char) {
        if separates(letter) {
            self.1 = true;
            return;
        }
        if std::mem::take(&mut self.1) && !self.0.is_empty() {
            self.0.push('_');
        }
        self.0.extend(letter.to_lowercase());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Folds the whole name, as a reference.
    fn is_slowly(written: &str, sent: &str) -> bool {
        let expected = FieldName::new(written).0;
        let mut fold = FieldNameFold::default();
        for letter in sent.chars() {
            if ends_a_name(letter) && fold.0 == expected {
                return true;
            }
            fold.push(letter);
        }
        fold.0 == expected
    }

    proptest! {
        #[test]
        fn what_is_compared_letter_by_letter_is_what_is_folded_and_compared(
            written in "[ab_.:\\[\\]\u{130}]{0,5}[ab]",
            sent in "[abAB_.: \\[\\]\0\u{130}\u{307}\u{a0}\u{3000}\u{1680}\u{212a}\u{e4}ik]{0,9}",
            tail in "[\\[\\]\0a ]{0,3}",
        ) {
            for sent in [sent.clone(), format!("{written}{tail}"), format!("{sent}{}", written.to_uppercase())] {
                prop_assert_eq!(FieldName::new(&written).is(sent.as_bytes()), is_slowly(&written, &sent), "{:?}", sent);
            }
        }
    }

    #[test]
    fn a_name_is_any_that_php_takes_for_it() {
        for sent in [
            "log",
            "LOG",
            " log",
            "log[]",
            "log[0]",
            "log[a][b]",
            "log[",
            "log\0junk",
            "log[]junk",
            "log.x",
            "log:string",
            "log:utf8:ustring",
            "\u{212a}og",
        ] {
            let expected = if sent.starts_with('\u{212a}') { "kog" } else { "log" };
            assert!(FieldName::new(expected).is(sent.as_bytes()), "{sent:?}");
        }
        for sent in ["user.login", "user login", "user[login", "user_login", "user[login]", "user[login][]"] {
            assert!(FieldName::new("user_login").is(sent.as_bytes()), "{sent:?}");
        }
        for sent in
            ["login", "lo", "log2", "log_in", "", "[]", "xlog", "blog[log]", "\0log2", "a:log", "a.log"]
        {
            assert!(!FieldName::new("log").is(sent.as_bytes()), "{sent:?}");
        }
    }

    #[test]
    fn a_member_of_an_array_is_no_other_member() {
        for sent in [
            "user[email]",
            "User[Email]",
            "user[email][]",
            "[user]email",
            "[user][email]",
            "user[ email]",
            "user[email]x",
        ] {
            assert!(FieldName::new("user[email]").is(sent.as_bytes()), "{sent:?}");
        }
        for sent in ["user", "user[password]", "user[]", "email", "user[emails]"] {
            assert!(!FieldName::new("user[email]").is(sent.as_bytes()), "{sent:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_have_no_name() {
        assert!(!FieldName::new("log").is(b"lo\xff"));
        assert!(FieldName::new("log").is(b"log[\xff]"));
    }

    #[test]
    fn brackets_lead_into_a_document() {
        assert_eq!(FieldName::members("jform[user][name]"), ["jform", "user", "name"]);
        assert_eq!(FieldName::members("log[]"), ["log"]);
    }
}
