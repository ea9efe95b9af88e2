//! The name of an account, folded: whatever an application takes for the same name is one account here.
//!
//! A folded name is as secret as the name; it lives as long as the decision about its attempt, and is kept as a keyed
//! hash only. The surprising thing: more is folded than any one application folds, since two names in one bucket cost a
//! token, and one name in two buckets is a way around the limit.

mod unicode;

use unicode_normalization::UnicodeNormalization;

/// A folded name of an account; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Account(Vec<u8>);

impl Account {
    /// Folds a name as it was sent: compatible letters (NFKC), case, accents, blanks, and what nobody sees. At most 256
    /// bytes are left of it, and not more than 4 KiB of it are looked at.
    ///
    /// Names in which applications look for markup or escapes and take them out are all one account. WordPress takes
    /// `adm<i>in`, `ad%20min` and `&amp;admin` for `admin`, and there are as many of these as anybody likes.
    #[must_use]
    pub fn fold(name: &[u8]) -> Self {
        let name = trim(name);
        let name = name.get(..MAX_READ_LEN).unwrap_or(name);
        let mut folding = AccountFold::default();
        if name.is_ascii() {
            name.iter().for_each(|byte| folding.push(char::from(byte.to_ascii_lowercase())));
        } else {
            let text = unicode::decode_text(name);
            // One letter can be eighteen.
            unicode::fold_chars(&text).take(MAX_READ_LEN).nfc().for_each(|letter| folding.push(letter));
        }
        if name.contains(&0) || has_markup(folding.0.as_bytes()) { Self::ambiguous() } else { folding.end() }
    }

    /// What is hashed.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn ambiguous() -> Self {
        Self(b"<".to_vec())
    }
}

/// The one who reads a name up to a zero byte and the one who passes over it differ without end, but not about these.
fn trim(name: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    let start = name.iter().position(|byte| !is_blank(byte)).unwrap_or(name.len());
    let end = name.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &name[start..end]
}

/// A folded name while it grows: no blanks in front, one between words.
#[derive(Default)]
struct AccountFold(String, bool);

impl AccountFold {
    fn push(&mut self, letter: char) {
        // MediaWiki knows no difference between a blank and an underscore.
        if letter.is_whitespace() || letter == '_' {
            self.1 = true;
        } else if !letter.is_control() {
            if std::mem::take(&mut self.1) && !self.0.is_empty() {
                self.0.push(' ');
            }
            // A sharp s is one to WordPress and MySQL's older collations, and two to everybody else.
            if letter != 's' || !self.0.ends_with('s') {
                self.0.push(letter);
            }
        }
    }

    fn end(mut self) -> Account {
        while self.0.len() > MAX_FOLDED_BYTES {
            self.0.pop();
        }
        self.0.truncate(self.0.trim_end().len());
        Account(self.0.into_bytes())
    }
}

/// A tag, an entity, or an escaped byte.
fn has_markup(name: &[u8]) -> bool {
    let mut ands = name.iter().skip_while(|byte| **byte != b'&');
    let escaped = |window: &[u8]| match window {
        [b'%', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    };
    name.contains(&b'<') || ands.any(|byte| *byte == b';') || name.windows(3).any(escaped)
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Account(hidden)")
    }
}

/// Bytes of a folded name.
const MAX_FOLDED_BYTES: usize = 256;
/// Bytes of a name that are looked at, and letters that are made of them.
const MAX_READ_LEN: usize = 4096;

#[cfg(test)]
mod tests;
