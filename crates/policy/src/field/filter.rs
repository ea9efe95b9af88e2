//! A filter for names: whether a name that was sent may be one that the policy looks up, by a hash of its folded
//! characters.
//!
//! It never misses a name and lets hardly any other through; its caller then compares the name itself. A query of eight
//! kilobytes has a thousand names, and the filter rejects nearly all of them.

use std::ops::BitOrAssign;

use super::super::urlencoded::{DecodedChars, first_byte};
use super::name::{FieldName, separates};

/// The kinds of names, as a bit set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NameKinds(u8);

impl NameKinds {
    /// A field of a route.
    pub(crate) const FIELD: Self = Self(1);
    /// A parameter of a pattern.
    pub(crate) const PARAMETER: Self = Self(2);
    /// A parameter that overrides the method.
    pub(crate) const METHOD: Self = Self(4);

    const COUNT: usize = 3;

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The position of a single kind.
    fn at(self) -> usize {
        self.0.trailing_zeros() as usize % Self::COUNT
    }
}

impl BitOrAssign for NameKinds {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Bytes with which a name could begin, as a bit set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FirstBytes([u128; 2]);

impl FirstBytes {
    pub(super) fn has(self, first: u8) -> bool {
        self.0[usize::from(first >> 7)] >> (first & 0x7F) & 1 == 1
    }

    pub(super) fn add(&mut self, first: u8) {
        self.0[usize::from(first >> 7)] |= 1 << (first & 0x7F);
    }

    /// Whether this name, as sent, could begin with one of them.
    fn could_begin(self, sent: &[u8]) -> bool {
        first_byte(sent).map_or(!sent.is_empty(), |first| self.has(first))
    }
}

/// The hashes of names, with their kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameFilter {
    /// In ascending order.
    hashes: Vec<(u64, NameKinds)>,
    /// Bytes of the longest name.
    longest: usize,
    /// Bytes of the shortest name; 0 if a name has characters beyond ASCII, whose capitals may be shorter.
    shortest: usize,
    /// The first bytes, as sent, that could begin one of the names.
    begins: FirstBytes,
    /// Those of the names of each kind.
    begins_by_kind: [FirstBytes; NameKinds::COUNT],
    /// Whether a name has characters beyond ASCII.
    has_beyond_ascii: bool,
    /// Whether each name has an ASCII character that no other character folds to.
    are_ascii_only: bool,
}

impl NameFilter {
    pub(super) fn add(&mut self, name: &FieldName, kind: NameKinds) {
        let mut hash = NameHash::default();
        name.text().bytes().for_each(|byte| hash.push(byte));
        match self.hashes.binary_search_by_key(&hash.value, |(known, _)| *known) {
            Ok(at) => self.hashes[at].1 |= kind,
            Err(at) => self.hashes.insert(at, (hash.value, kind)),
        }
        let is_first = self.hashes.len() == 1;
        self.longest = self.longest.max(hash.length);
        let shortest = if name.text().is_ascii() { hash.length } else { 0 };
        self.shortest = if is_first { shortest } else { self.shortest.min(shortest) };
        let is_ascii_only = |byte: u8| byte.is_ascii_alphanumeric() && !matches!(byte, b'i' | b'k' | b's');
        self.are_ascii_only = (is_first || self.are_ascii_only) && name.text().bytes().any(is_ascii_only);
        self.has_beyond_ascii |= !name.text().is_ascii();
        for first in (0..=u8::MAX).filter(|first| !name.cannot_begin(*first)) {
            self.begins.add(first);
            self.begins_by_kind[kind.at()].add(first);
        }
    }

    /// Whether a name has characters beyond ASCII.
    pub(super) fn has_beyond_ascii(&self) -> bool {
        self.has_beyond_ascii
    }

    /// Whether each name has an ASCII character that no other character folds to.
    pub(super) fn are_ascii_only(&self) -> bool {
        self.are_ascii_only
    }

    /// The bytes with which a name could begin.
    pub(super) fn first_bytes(&self) -> FirstBytes {
        self.begins
    }

    /// Whether what was sent has too few bytes for each name, in any encoding.
    pub(super) fn is_too_short(&self, sent: &[u8]) -> bool {
        sent.len() < self.shortest
    }

    /// Whether a name could begin with this byte.
    pub(super) fn could_begin(&self, first: u8) -> bool {
        self.begins.has(first)
    }

    /// The kinds that this name could be, as sent and up to a `=`.
    pub(crate) fn kinds(&self, sent: &[u8]) -> NameKinds {
        let mut kinds = NameKinds::default();
        if self.begins.could_begin(sent) && self.scan_name(sent, false, &mut kinds) {
            self.scan_name(sent, true, &mut kinds);
        }
        kinds
    }

    /// Whether this name, as sent and up to a `=`, could be of this kind. Most cannot by their first byte.
    pub(crate) fn could_be(&self, kind: NameKinds, sent: &[u8]) -> bool {
        self.begins_by_kind[kind.at()].could_begin(sent) && self.kinds(sent).has(kind)
    }

    /// Whether no name has this character, which is no separator.
    pub(super) fn is_in_no_name(&self, letter: char) -> bool {
        !self.has_beyond_ascii && !folds_to_ascii(letter)
    }

    /// Adds the kinds of the name, and of its part before a bracket. Returns whether old ASP could read it in another
    /// way.
    fn scan_name(&self, mut rest: &[u8], is_wide: bool, kinds: &mut NameKinds) -> bool {
        let (mut hash, mut is_separated, mut could_be_wide) = (NameHash::default(), false, false);
        let mut checked = 0;
        while let Some((&byte, after)) = rest.split_first() {
            let mut class = CLASSES[usize::from(byte)];
            // Most are letters, which are no special class.
            if class < EQUALS {
                rest = after;
            } else if class == ENCODED {
                could_be_wide |= matches!(rest, [b'%', b'u' | b'U', ..]);
                let mut letters = DecodedChars { rest, is_wide };
                let letter = letters.next().unwrap_or_default();
                rest = letters.rest;
                class = match u8::try_from(letter) {
                    Ok(byte @ (b'%' | b'+' | b'=')) => byte,
                    Ok(byte) if byte.is_ascii() => CLASSES[usize::from(byte)],
                    _ if separates(letter) => SEPARATOR,
                    _ if self.is_in_no_name(letter) => return could_be_wide,
                    _ => {
                        hash.separate(std::mem::take(&mut is_separated));
                        hash.push_letter(letter);
                        continue;
                    }
                };
            } else if class == EQUALS {
                break;
            } else {
                rest = after;
            }
            if class >= EQUALS {
                if class != SEPARATOR && checked < hash.length {
                    checked = hash.length;
                    *kinds |= self.of(hash.value);
                }
                if class != COLON {
                    is_separated = true;
                    continue;
                }
                class = b':';
            }
            hash.separate(std::mem::take(&mut is_separated));
            hash.push(class);
            if hash.length > self.longest {
                return could_be_wide;
            }
        }
        *kinds |= self.of(hash.value);
        could_be_wide
    }

    fn of(&self, hash: u64) -> NameKinds {
        let at = self.hashes.partition_point(|(known, _)| *known < hash);
        self.hashes
            .get(at)
            .filter(|(known, _)| *known == hash)
            .map_or(NameKinds::default(), |(_, kinds)| *kinds)
    }
}

/// The class of each byte in a name: one of the constants below, or its lower-case letter.
const CLASSES: [u8; 256] = {
    let mut classes = [ENCODED; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'%' => ENCODED,
            b'=' => EQUALS,
            b'[' | b']' | b'.' | 0 => END,
            b':' => COLON,
            b'_' | b' ' | b'+' | 0x09..=0x0d => SEPARATOR,
            _ => byte.to_ascii_lowercase(),
        };
        byte += 1;
    }
    classes
};
/// Has to be decoded first.
const ENCODED: u8 = 0xff;
/// Ends the name, unless it is encoded.
const EQUALS: u8 = 0xfb;
const SEPARATOR: u8 = 0xfe;
/// A separator at which an application may stop reading.
const END: u8 = 0xfd;
/// A character of the name at which an application may stop reading.
const COLON: u8 = 0xfc;

/// Whether a character is ASCII in lower case, as the Kelvin sign is.
fn folds_to_ascii(letter: char) -> bool {
    letter.is_ascii() || letter == '\u{212a}'
}

/// FNV-1a, <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct NameHash {
    value: u64,
    /// Number of bytes.
    length: usize,
}

impl Default for NameHash {
    fn default() -> Self {
        Self { value: 0xcbf2_9ce4_8422_2325, length: 0 }
    }
}

impl NameHash {
    fn push(&mut self, byte: u8) {
        self.value = (self.value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.length += 1;
    }

    /// Adds a separator: several count as one, and leading ones not at all.
    fn separate(&mut self, is_separated: bool) {
        if is_separated && self.length > 0 {
            self.push(b'_');
        }
    }

    fn push_letter(&mut self, letter: char) {
        for lower in letter.to_lowercase() {
            lower.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.push(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::query;
    use super::super::super::urlencoded::readings;
    use super::super::name::ends_a_name;
    use super::*;

    const NAMES: [&str; 8] =
        ["log", "_task", "user[name]", "user_name", "i\u{307}", "\u{e4}", "page", "a.b:c"];

    fn filter() -> NameFilter {
        let mut filter = NameFilter::default();
        NAMES.iter().for_each(|name| filter.add(&FieldName::new(name), NameKinds::FIELD));
        filter
    }

    #[test]
    fn letters_are_folded_as_names_are() {
        for byte in (0..128).filter(|byte| !matches!(byte, b'%' | b'+' | b'=')) {
            let letter = char::from(byte);
            let class = match (separates(letter), ends_a_name(letter)) {
                (true, true) => END,
                (true, false) => SEPARATOR,
                (false, true) => COLON,
                (false, false) => byte.to_ascii_lowercase(),
            };
            assert_eq!(CLASSES[usize::from(byte)], class, "{letter:?}");
        }
    }

    #[test]
    fn only_the_kelvin_sign_folds_to_ascii() {
        for letter in '\0'..=char::MAX {
            let is_ascii = letter.to_lowercase().all(|lower| lower.is_ascii());
            assert_eq!(folds_to_ascii(letter), is_ascii, "{letter:?}");
        }
    }

    #[test]
    fn a_name_says_who_looks_for_it() {
        let mut filter = filter();
        filter.add(&FieldName::new("page"), NameKinds::PARAMETER);
        for (sent, kinds) in
            [("PAGE[]", 3), ("lo%67", 1), ("logs", 0), ("", 0), ("x", 0), ("%u006cog", 1), ("task", 1)]
        {
            assert_eq!(filter.kinds(sent.as_bytes()), NameKinds(kinds), "{sent}");
        }
    }

    proptest! {
        #[test]
        fn no_name_that_a_reader_knows_is_missed(
            name in prop::sample::select(NAMES.to_vec()),
            before in "([+ .\\[_]|%20|%5b){0,2}",
            behind in "(\\[|\\]|%5b|%00|\0|[.]|:|%3a|a|%u0061){0,3}",
            (at, how) in (0..9_usize, 0..5),
        ) {
            let letters: Vec<char> = name.chars().collect();
            let spelt: String = letters.iter().enumerate().map(|(index, letter)| match (index == at, how) {
                (true, 0) => format!("%u{:04x}", *letter as u32),
                (true, 1) => letter.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect(),
                (true, 2) => letter.to_uppercase().collect(),
                (true, 3) if separates(*letter) => "+.".to_owned(),
                _ => letter.to_string(),
            }).collect();
            let sent = format!("{before}{spelt}{behind}");
            let is_field = NAMES.iter().any(|name| {
                let field = FieldName::new(name);
                readings(sent.as_bytes()).any(|sent| field.is(&sent))
            });
            let is_parameter = NAMES.iter().any(|name| readings(sent.as_bytes()).any(|sent| {
                query::fold_name(&String::from_utf8_lossy(&sent)) == query::fold_name(name)
            }));
            let is_known = filter().kinds(sent.as_bytes()) != NameKinds::default();
            prop_assert!(is_known || !(is_field || is_parameter), "{}", sent);
        }
    }
}
