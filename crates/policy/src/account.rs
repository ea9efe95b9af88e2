//! The name of an account, folded: all spellings that an application takes for the same name are one account here.
//!
//! A folded name is as secret as the name; it lives as long as the decision about its attempt, and is kept as a keyed
//! hash only. It folds more than any single application: two names in one bucket cost a token, but one name in two
//! buckets is a way around the limit.

mod unicode;

use memchr::{memchr_iter, memmem};
use smallvec::{SmallVec, smallvec};
use unicode_normalization::UnicodeNormalization;

/// A folded account name; its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Account(Vec<u8>);

impl Account {
    /// Folds a name as it was sent, to what stands for all names that a usual database takes for the same: the primary
    /// level of the Unicode Collation Algorithm (UTS 10) in several versions, MySQL's simpler collations, compatibility
    /// forms (NFKC). It reads at most 4 KiB, and the result has at most 256 bytes.
    ///
    /// All names with markup or escapes, which some applications remove, are one account. WordPress reads `adm<i>in`,
    /// `ad%20min` and `&amp;admin` as `admin`, and a client can make any number of such spellings. Names of nothing
    /// but later characters (emoji) are that account, too.
    #[must_use]
    pub fn fold(name: &[u8]) -> Self {
        let name = readable(name);
        let mut fold = AccountFold::with_capacity(name.len());
        if name.is_ascii() {
            name.iter().for_each(|byte| fold.push(char::from(byte.to_ascii_lowercase())));
        } else {
            fold.push_text(unicode::decode_text(name).chars());
        }
        fold.end(name)
    }

    /// The same name to a database of old, which ignores characters that came after Unicode 3.2. `None` if there are
    /// none, or nothing else.
    #[must_use]
    pub fn fold_without_later(name: &[u8]) -> Option<Self> {
        let name = readable(name);
        if name.is_ascii() {
            return None;
        }
        let text = unicode::decode_text(name);
        let old: String = text.chars().filter(|letter| !unicode::is_later(*letter)).collect();
        if old.is_empty() || old.len() == text.len() {
            return None;
        }
        let mut fold = AccountFold::with_capacity(old.len());
        fold.push_text(old.chars());
        Some(fold.end(name))
    }

    /// What an application may read of a name that it cuts to this length: all of it, since some compare before they cut;
    /// and so many bytes, units of UTF-16, or letters of it.
    #[must_use]
    pub fn cuts(name: &[u8], length: usize) -> SmallVec<[&[u8]; 1]> {
        let name = trim(name);
        let mut cuts: SmallVec<[&[u8]; 1]> = smallvec![name];
        if name.len() > length {
            for size in [|(bytes, _)| bytes, |(_, units)| units, |_| 1] {
                let cut = cut(name, length, size);
                if !cuts.contains(&cut) {
                    cuts.push(cut);
                }
            }
        }
        cuts
    }

    /// The user of `domain\user` and of `user@domain`. A server of Windows takes a domain that it does not know for its
    /// own, so that any domain leads to the same account. With two domains in front the name stays what it is.
    #[must_use]
    pub fn without_domain(name: &[u8]) -> &[u8] {
        if separators(name) > 1 {
            return name;
        }
        let start = name.iter().position(ends_a_domain).map_or(0, |at| at + 1);
        let user = &name[start..];
        &user[..user.iter().position(|byte| *byte == b'@').unwrap_or(user.len())]
    }

    /// The same of a name that was folded. One with markup stays what it is, and one with two domains in front is
    /// ambiguous: applications differ about where its user begins.
    #[must_use]
    pub fn without_folded_domain(self) -> Self {
        if separators(&self.0) > 1 {
            return Self::ambiguous();
        }
        let user = Self::without_domain(&self.0);
        if user.len() == self.0.len() { self } else { Self(user.trim_ascii().to_vec()) }
    }

    /// The bytes of the folded name, for hashing.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it stands for all names that applications read in different ways.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        *self == Self::ambiguous()
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

/// The part of a name that is folded.
fn readable(name: &[u8]) -> &[u8] {
    let name = trim(name);
    if name.len() <= MAX_READ_LEN { name } else { cut(name, MAX_READ_LEN, |(bytes, _)| bytes) }
}

/// As many whole letters as have this size together.
fn cut(name: &[u8], length: usize, size: fn(LetterSize) -> usize) -> &[u8] {
    let (mut end, mut used) = (0, 0);
    for letter in letter_sizes(name) {
        used += size(letter);
        if used > length {
            break;
        }
        end += letter.0;
    }
    trim(&name[..end])
}

/// Bytes of a letter, and its units in UTF-16.
type LetterSize = (usize, usize);

/// The letters of a name; a byte that is no UTF-8 is one.
fn letter_sizes(name: &[u8]) -> impl Iterator<Item = LetterSize> {
    name.utf8_chunks().flat_map(|chunk| {
        let letters = chunk.valid().chars().map(|letter| (letter.len_utf8(), letter.len_utf16()));
        letters.chain(chunk.invalid().iter().map(|_| (1, 1)))
    })
}

/// A folded name while it grows: no blanks in front, one between words.
struct AccountFold {
    folded: String,
    last: char,
    is_behind_blank: bool,
    /// Whether it had a character that no known version of Unicode has.
    has_unknown: bool,
}

impl AccountFold {
    fn with_capacity(bytes: usize) -> Self {
        Self { folded: String::with_capacity(bytes), last: ' ', is_behind_blank: false, has_unknown: false }
    }

    fn push_text(&mut self, text: impl Iterator<Item = char>) {
        // One character can decompose into eighteen.
        unicode::fold_chars(text).take(MAX_READ_LEN).nfc().for_each(|letter| self.push(letter));
    }

    fn push(&mut self, letter: char) {
        match letter {
            // Most letters are none of those below.
            'a'..='z' | '0'..='9' => self.push_visible(letter),
            // MediaWiki reads an underscore as a blank.
            '_' => self.is_behind_blank = true,
            _ if letter.is_whitespace() => self.is_behind_blank = true,
            unicode::UNKNOWN => self.has_unknown = true,
            _ if letter.is_control() => {}
            _ => self.push_visible(letter),
        }
    }

    fn push_visible(&mut self, letter: char) {
        if std::mem::take(&mut self.is_behind_blank) && !self.folded.is_empty() {
            self.folded.push(' ');
            self.last = ' ';
        }
        // Swedish collations read `ü` as y, others as u.
        let letter = if letter == 'y' { 'u' } else { letter };
        if !is_swallowed(self.last, letter) {
            self.folded.push(letter);
            self.last = letter;
        }
    }

    fn end(self, name: &[u8]) -> Account {
        let Self { mut folded, has_unknown, .. } = self;
        while folded.len() > MAX_FOLDED_BYTES {
            folded.pop();
        }
        folded.truncate(folded.trim_end().len());
        let is_ambiguous = name.contains(&0) || has_markup(folded.as_bytes()) || unicode::is_mixed(name);
        // Some databases take all characters of four bytes for one, others ignore them.
        let has_later = || has_unknown || name.iter().any(|byte| *byte >= 0xf0);
        if is_ambiguous || (folded.is_empty() && has_later()) {
            Account::ambiguous()
        } else {
            Account(folded.into_bytes())
        }
    }
}

/// Whether a letter is dropped behind another. WordPress and MySQL's older collations read a sharp s as one s, all others
/// as two; an umlaut is its vowel, or the vowel with an e; Danish collations read `aa` as the letter that others read as
/// `a`. WordPress reads `ð` as `d`, and its byte as `dh`; in Serbian it reads `đ` as `dj`.
fn is_swallowed(last: char, letter: char) -> bool {
    matches!((last, letter), ('s', 's') | ('a', 'a') | ('a' | 'o' | 'u', 'e') | ('d', 'h' | 'j'))
}

/// Whether a folded name contains a tag, an entity, or an escaped byte; `%aa` and `%ae` were folded to `%a`.
fn has_markup(name: &[u8]) -> bool {
    let mut ands = name.iter().skip_while(|byte| **byte != b'&');
    let is_escape = |at: usize| match name[at + 1..] {
        [b'a', ..] => true,
        [high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        _ => false,
    };
    name.contains(&b'<') || ands.any(|byte| *byte == b';') || memchr_iter(b'%', name).any(is_escape)
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

/// Whether a byte stands between a domain and its user.
fn ends_a_domain(byte: &u8) -> bool {
    matches!(byte, b'\\' | b'/')
}

/// How many such bytes there are, and how many signs that are folded to them.
fn separators(name: &[u8]) -> usize {
    let wide = ["\u{ff3c}", "\u{fe68}", "\u{ff0f}"].map(|sign| memmem::find_iter(name, sign).count());
    name.iter().filter(|byte| ends_a_domain(byte)).count() + wide.iter().sum::<usize>()
}

#[cfg(test)]
mod tests;
