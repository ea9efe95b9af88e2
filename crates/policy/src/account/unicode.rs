//! Unicode text without accents, case and invisible characters.
//!
//! It folds single characters and knows no names. Combining marks are dropped, and so are strokes that Unicode does not
//! decompose (`ø`, `ł`): databases compare that way (MySQL's `_ai_ci` collations), and WordPress does before it queries
//! one.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// Bytes as text. Bytes that are no UTF-8 are Windows-1252, as WordPress and old browsers read them; bytes without a
/// character there become private-use characters.
pub(super) fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|&byte| latin(byte)));
    }
    Cow::Owned(text)
}

/// The Windows-1252 character of a byte, or a private-use character.
fn latin(byte: u8) -> char {
    match byte {
        0x80 => '\u{20ac}',
        0x83 => '\u{192}',
        0x8a | 0x9a => '\u{161}',
        0x8c | 0x9c => '\u{153}',
        0x8e | 0x9e => '\u{17e}',
        0x9f => '\u{ff}',
        0x81..=0x9f => char::from_u32(PRIVATE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER),
        _ => char::from(byte),
    }
}

/// The characters of a text in lower case, decomposed, without marks and invisible characters.
pub(super) fn fold_chars(text: &str) -> impl Iterator<Item = char> {
    let letters = text.nfkd().filter(is_visible).flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    // Changing the case may bring back marks and other characters.
    letters.nfkd().filter(is_visible).flat_map(fold_to_ascii)
}

/// Whether a character is neither a mark nor invisible.
fn is_visible(letter: &char) -> bool {
    let is_ignored = IGNORED.binary_search_by(|&(first, last)| match () {
        () if last < *letter => std::cmp::Ordering::Less,
        () if first > *letter => std::cmp::Ordering::Greater,
        () => std::cmp::Ordering::Equal,
    });
    letter.is_ascii() || (canonical_combining_class(*letter) == 0 && is_ignored.is_err())
}

/// Folds characters that Unicode does not decompose, but collations and WordPress do.
fn fold_to_ascii(letter: char) -> impl Iterator<Item = char> {
    let (first, second) = match letter {
        '\u{f8}' => ('o', None),
        '\u{111}' | '\u{f0}' => ('d', None),
        '\u{127}' => ('h', None),
        '\u{142}' => ('l', None),
        '\u{167}' => ('t', None),
        '\u{14b}' => ('n', None),
        '\u{df}' => ('s', None),
        '\u{251}' => ('a', None),
        '\u{138}' => ('k', None),
        '\u{192}' => ('f', None),
        '\u{a2}' => ('c', None),
        '\u{a5}' => ('y', None),
        '\u{20ac}' => ('e', None),
        '\u{e6}' => ('a', Some('e')),
        '\u{153}' => ('o', Some('e')),
        '\u{fe}' => ('t', Some('h')),
        other => (other, None),
    };
    std::iter::once(first).chain(second)
}

/// The private-use characters for bytes without a character in Windows-1252.
const PRIVATE: u32 = 0x10_ff00;

/// `Default_Ignorable_Code_Point`, enclosing marks, the pound sign, which WordPress drops, and the second parts of `ŀ`
/// and `ŉ`.
const IGNORED: [(char, char); 24] = [
    ('\u{a3}', '\u{a3}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{b7}', '\u{b7}'),
    ('\u{2bc}', '\u{2bc}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{488}', '\u{489}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{1abe}', '\u{1abe}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{20dd}', '\u{20e4}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{a670}', '\u{a672}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fff8}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];
