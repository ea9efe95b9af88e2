//! The name of an account, folded: all spellings that an application takes for the same name are one account here.
//!
//! A folded name is as secret as the name; it lives as long as the decision about its attempt, and is kept as a keyed
//! hash only. It folds more than any single application: two names in one bucket cost a token, but one name in two
//! buckets is a way around the limit.

mod unicode;

use unicode_normalization::UnicodeNormalization;

/// A folded account name; its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Account(Vec<u8>);

impl Account {
    /// Folds a name as it was sent: compatibility forms (NFKC), case, accents, blanks and invisible characters. It
    /// reads at most 4 KiB, and the result has at most 256 bytes.
    ///
    /// All names with markup or escapes, which some applications remove, are one account. WordPress reads `adm<i>in`,
    /// `ad%20min` and `&amp;admin` as `admin`, and a client can make any number of such spellings.
    #[must_use]
    pub fn fold(name: &[u8]) -> Self {
        let name = trim(name);
        let name = name.get(..MAX_READ_LEN).unwrap_or(name);
        let mut fold = AccountFold(String::with_capacity(name.len()), false);
        if name.is_ascii() {
            name.iter().for_each(|byte| fold.push(char::from(byte.to_ascii_lowercase())));
        } else {
            let text = unicode::decode_text(name);
            // One character can decompose into eighteen.
            unicode::fold_chars(&text).take(MAX_READ_LEN).nfc().for_each(|letter| fold.push(letter));
        }
        if name.contains(&0) || has_markup(fold.0.as_bytes()) { Self::ambiguous() } else { fold.end() }
    }

    /// The bytes of the folded name, for hashing.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn ambiguous() -> Self {
        Self(b"<".to_vec())
    }
}

/// Removes blanks and control characters at both ends. Applications disagree about a zero byte within a name, but not
/// at its ends.
fn trim(name: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    let start = name.iter().position(|byte| !is_blank(byte)).unwrap_or(name.len());
    let end = name.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &name[start..end]
}

/// A folded name while it grows: no blanks in front, one between words.
struct AccountFold(String, bool);

impl AccountFold {
    fn push(&mut self, letter: char) {
        // MediaWiki reads an underscore as a blank.
        if letter.is_whitespace() || letter == '_' {
            self.1 = true;
        } else if !letter.is_control() {
            if std::mem::take(&mut self.1) && !self.0.is_empty() {
                self.0.push(' ');
            }
            // WordPress and MySQL's older collations read a sharp s as one s, all others as two.
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

/// Whether a name contains a tag, an entity, or an escaped byte.
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

/// Bytes of a folded name at most.
const MAX_FOLDED_BYTES: usize = 256;
/// Bytes of a name that are read at most, and characters that are made of them at most.
const MAX_READ_LEN: usize = 4096;

#[cfg(test)]
mod tests;
