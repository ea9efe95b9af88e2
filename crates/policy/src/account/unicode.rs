//! Unicode text without what collations ignore: accents, case, width, scripts of digits, invisible characters.
//!
//! It folds single characters and knows no names. What is equal to what is in two tables that `scripts/folds` writes:
//! it asks a real database, and reads the keys of the Unicode Collation Algorithm (UTS 10) of several versions.

use std::borrow::Cow;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

/// Bytes as text. Bytes that are no UTF-8 are Windows-1252, as WordPress and old browsers read them, or the letter that
/// WordPress makes of them; bytes without a character there become private-use characters.
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

/// The Windows-1252 character of a byte, or a private-use character. WordPress makes letters of the signs for cent, yen, micro
/// and guilder.
fn latin(byte: u8) -> char {
    match byte {
        0x80 => '\u{20ac}',
        0x83 => 'f',
        0xa2 => 'c',
        0xa5 => 'y',
        0xb5 => 'u',
        0x8a | 0x9a => '\u{161}',
        0x8c | 0x9c => '\u{153}',
        0x8e | 0x9e => '\u{17e}',
        0x9f => '\u{ff}',
        0x81..=0x9f => char::from_u32(PRIVATE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER),
        _ => char::from(byte),
    }
}

/// Whether a text is not UTF-8 as a whole but has characters of UTF-8. Some applications then read all bytes one by one.
pub(super) fn is_mixed(bytes: &[u8]) -> bool {
    let is_broken = || bytes.utf8_chunks().any(|chunk| !chunk.invalid().is_empty());
    !bytes.is_ascii() && is_broken() && bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii())
}

/// The characters of a text that stand for all that are equal to them.
pub(super) fn fold_chars(text: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    let letters = text.filter(|letter| !is_lone_sign(*letter)).nfkd();
    let letters = letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    // Changing the case may bring back marks and other characters.
    letters.nfkd().flat_map(|letter| Folded::of(letter).chars())
}

/// Signs that stand alone: collations see what they sign, or nothing; NFKD would make a blank and a sign of them.
fn is_lone_sign(letter: char) -> bool {
    let is_even = u32::from(letter).is_multiple_of(2);
    matches!(letter, '\u{37a}' | '\u{fc5e}'..='\u{fc63}')
        || (matches!(letter, '\u{fe70}'..='\u{fe7e}') && is_even)
}

/// Stands for a character that no known version of Unicode has: some databases ignore it, others take it for a letter.
pub(super) const UNKNOWN: char = char::REPLACEMENT_CHARACTER;

/// Whether a character came after Unicode 3.2: old collations of SQL Server ignore it, and those of MySQL take all
/// beyond the first plane for one.
pub(super) fn is_later(letter: char) -> bool {
    !letter.is_ascii() && (is_beyond_first_plane(letter) || find(&LATER, letter).is_some())
}

/// Whether a character has more than 16 bits, and was not made of a byte.
fn is_beyond_first_plane(letter: char) -> bool {
    letter > '\u{ffff}' && u32::from(letter) < PRIVATE
}

/// What one character is folded to.
enum Folded {
    Same(char),
    Text(&'static str),
}

impl Folded {
    fn of(letter: char) -> Self {
        if letter.is_ascii() {
            return Self::Same(letter);
        }
        match find(&FOLDS, letter) {
            Some(line) => Self::Text(&line.text),
            None if is_beyond_first_plane(letter) => Self::Text(""),
            None => Self::Same(letter),
        }
    }

    fn chars(self) -> impl Iterator<Item = char> {
        let (letter, text) = match self {
            Self::Same(letter) => (Some(letter), ""),
            Self::Text(text) => (None, text),
        };
        letter.into_iter().chain(text.chars())
    }
}

/// A line of a table: `FIRST-LAST` or `FIRST`, then the characters of the text, all in hexadecimal digits.
struct Line {
    first: char,
    last: char,
    text: Box<str>,
}

static FOLDS: LazyLock<Vec<Line>> = LazyLock::new(|| read(include_str!("folds.txt")));
static LATER: LazyLock<Vec<Line>> = LazyLock::new(|| read(include_str!("later.txt")));

fn read(table: &str) -> Vec<Line> {
    let letter = |digits: &str| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    let line = |line: &str| {
        let (range, text) = line.split_once(' ').unwrap_or((line, ""));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let text: String = text.split(' ').filter_map(letter).collect();
        Some(Line { first: letter(first)?, last: letter(last)?, text: text.into() })
    };
    table.lines().filter_map(line).collect()
}

fn find(table: &'static [Line], letter: char) -> Option<&'static Line> {
    let at = table.partition_point(|line| line.last < letter);
    table.get(at).filter(|line| line.first <= letter)
}

/// The private-use characters for bytes without a character in Windows-1252.
const PRIVATE: u32 = 0x10_ff00;
