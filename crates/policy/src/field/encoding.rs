//! Encodings in which ASCII bytes mean something else: two and four bytes a character, UTF-7 and EBCDIC.
//!
//! Java, Python and JSON readers decode the encoding that a client names, or the one that the text looks like. EBCDIC
//! has a hundred code pages, which differ in characters that English does not use: their common part is enough for the
//! names of fields and of most accounts.

use memchr::memmem;
use smallvec::SmallVec;

use super::super::legibility::contains_ascii;
use super::lookup::FieldNames;
use super::name::letters;

/// An encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextEncoding {
    Utf7,
    Utf16(ByteOrder),
    Utf32(ByteOrder),
    Ebcdic,
}

/// The order of the bytes of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Big,
    Little,
}

/// Encodings that a label may mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EncodingFamily {
    Utf7,
    Wide,
    /// A number that is that of a wide encoding or of a code page.
    Numbered,
    /// Any other but a superset of ASCII.
    Other,
}

impl EncodingFamily {
    /// `None` for a superset of ASCII.
    fn of(label: &str) -> Option<Self> {
        let joined: String = label.chars().filter(|letter| !matches!(letter, '-' | '_' | ' ')).collect();
        let has = |words: &[&str]| words.iter().any(|word| joined.contains(word));
        if has(&["utf7", "u7"]) {
            Some(Self::Utf7)
        } else if has(&["16", "32", "ucs", "unicode"]) {
            Some(if has(&["utf", "ucs", "unicode"]) { Self::Wide } else { Self::Numbered })
        } else {
            (!contains_ascii(label)).then_some(Self::Other)
        }
    }
}

impl TextEncoding {
    /// The encodings by which an application could read a text with these labels; `None` if the labels are of several
    /// families, of which an application takes any one.
    pub(super) fn possible(labels: &[String], text: &[u8]) -> Option<SmallVec<[Self; 6]>> {
        let mut families = labels.iter().filter_map(|label| EncodingFamily::of(label));
        let family = families.next();
        if families.any(|other| Some(other) != family) {
            return None;
        }
        let mut found = SmallVec::new();
        if family == Some(EncodingFamily::Utf7) {
            found.push(Self::Utf7);
        }
        let is_wide = matches!(family, Some(EncodingFamily::Wide | EncodingFamily::Numbered));
        if is_wide || memchr::memchr(0, text).is_some() {
            found.extend([ByteOrder::Big, ByteOrder::Little].map(Self::Utf16));
            found.extend([ByteOrder::Big, ByteOrder::Little].map(Self::Utf32));
        }
        if matches!(family, Some(EncodingFamily::Numbered | EncodingFamily::Other)) {
            found.push(Self::Ebcdic);
        }
        Some(found)
    }

    /// The text in UTF-8; empty if it cannot be in this encoding. What is not a character is U+FFFD, or no UTF-8.
    pub(super) fn decode(self, text: &[u8]) -> Vec<u8> {
        let decoded = match self {
            Self::Utf7 => return from_utf7(text),
            Self::Ebcdic => return text.iter().map(|byte| from_ebcdic(*byte)).collect(),
            Self::Utf16(order) => {
                let reader = match order {
                    ByteOrder::Big => encoding_rs::UTF_16BE,
                    ByteOrder::Little => encoding_rs::UTF_16LE,
                };
                // Half a unit at the end is none.
                let (decoded, _) = reader.decode_without_bom_handling(&text[..text.len() & !1]);
                decoded.into_owned().into_bytes()
            }
            Self::Utf32(order) => {
                let mut decoded = Vec::with_capacity(text.len() / 4);
                for letter in utf32_letters(text, order) {
                    let Some(letter) = letter else { return Vec::new() };
                    push(&mut decoded, letter);
                }
                decoded
            }
        };
        let marks = decoded.chunks_exact(MARK.len()).take_while(|piece| *piece == MARK).count();
        if marks > 0 { decoded[marks * MARK.len()..].to_vec() } else { decoded }
    }

    /// A value in this encoding, as far as it counts; `None` if it is empty or cannot be in this encoding.
    pub(super) fn decode_value(self, value: &[u8]) -> Option<Vec<u8>> {
        let is_blank = |byte: &u8| match self {
            Self::Ebcdic => matches!(byte, 0x05 | 0x0d | 0x15 | 0x25 | 0x40),
            _ => byte.is_ascii_whitespace() || *byte == 0,
        };
        let value = match value.len() > MAX_VALUE_LEN {
            // Characters of up to four bytes keep where they begin.
            true => &value[value.iter().take_while(|byte| is_blank(byte)).count() & !3..],
            false => value,
        };
        let decoded = self.decode(&value[..value.len().min(MAX_VALUE_LEN)]);
        let is_broken = memmem::find(&decoded, "\u{fffd}".as_bytes()).is_some()
            || (self == Self::Ebcdic && memchr::memchr(NO_CHARACTER, &decoded).is_some());
        (!decoded.is_empty() && !is_broken).then_some(decoded)
    }

    /// Whether a name in this encoding could begin with this byte.
    pub(super) fn could_begin(self, first: u8, names: &FieldNames) -> bool {
        match self {
            Self::Utf7 => first == b'+',
            // Of U+0130, which is an `i` with a dot, the second byte is a digit.
            Self::Utf16(_) | Self::Utf32(_) => first >= 0x80 || first == 0x30 || names.has_beyond_ascii(),
            Self::Ebcdic => names.could_begin(from_ebcdic(first)),
        }
    }

    /// Whether a name in this encoding is one of these.
    pub(super) fn names_any(self, sent: &[u8], names: &FieldNames) -> bool {
        let mut is_one = false;
        self.for_each_name(sent, names, |_| is_one = true);
        is_one
    }

    /// Calls `callback` with the slot of each name that a name in this encoding is.
    pub(super) fn for_each_name(self, sent: &[u8], names: &FieldNames, mut callback: impl FnMut(usize)) {
        let is_mark = |letter: &char| *letter == '\u{feff}';
        match self {
            Self::Utf7 if memchr::memchr(b'+', sent).is_none() => {}
            Self::Utf7 => names.for_each_decoded(letters(&from_utf7(sent)), callback),
            Self::Ebcdic => {
                let decoded = sent.iter().map(|byte| match from_ebcdic(*byte) {
                    NO_CHARACTER => char::REPLACEMENT_CHARACTER,
                    letter => char::from(letter),
                });
                names.for_each_decoded(decoded, callback);
            }
            Self::Utf16(_) | Self::Utf32(_) if names.are_ascii_only() && !sent.contains(&0) => {}
            Self::Utf16(order) => {
                names.for_each_decoded(utf16_letters(sent, order).skip_while(is_mark), callback);
            }
            Self::Utf32(order) => {
                let valid = utf32_letters(sent, order).map_while(|letter| letter).skip_while(is_mark);
                names.for_each_decoded(valid, |name| {
                    if utf32_letters(sent, order).all(|letter| letter.is_some()) {
                        callback(name);
                    }
                });
            }
        }
    }
}

fn push(decoded: &mut Vec<u8>, letter: char) {
    match u8::try_from(letter) {
        Ok(byte) if byte.is_ascii() => decoded.push(byte),
        _ => decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn utf16_letters(text: &[u8], order: ByteOrder) -> impl Iterator<Item = char> {
    let units = text.as_chunks().0.iter().map(move |bytes| match order {
        ByteOrder::Big => u16::from_be_bytes(*bytes),
        ByteOrder::Little => u16::from_le_bytes(*bytes),
    });
    char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
}

fn utf32_letters(text: &[u8], order: ByteOrder) -> impl Iterator<Item = Option<char>> {
    text.as_chunks().0.iter().map(move |bytes| {
        char::from_u32(match order {
            ByteOrder::Big => u32::from_be_bytes(*bytes),
            ByteOrder::Little => u32::from_le_bytes(*bytes),
        })
    })
}

/// UTF-7 (RFC 2152): the text between a plus and the first character that is no Base64 is UTF-16.
fn from_utf7(text: &[u8]) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'+' {
            decoded.push(byte);
            continue;
        }
        let end = after.iter().position(|byte| digit_of_base64(*byte).is_none()).unwrap_or(after.len());
        match end {
            0 | 1 => decoded.push(b'+'),
            _ => {
                let letters = char::decode_utf16(units_of_base64(&after[..end]));
                letters.for_each(|letter| push(&mut decoded, letter.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
        }
        rest = after[end..].strip_prefix(b"-").unwrap_or(&after[end..]);
    }
    decoded
}

/// The whole units of 16 bits in Base64 without padding.
fn units_of_base64(digits: &[u8]) -> impl Iterator<Item = u16> {
    let mut digits = digits.iter().filter_map(|byte| digit_of_base64(*byte));
    let (mut bits, mut count) = (0_u32, 0);
    std::iter::from_fn(move || {
        while count < 16 {
            bits = bits << 6 | u32::from(digits.next()?);
            count += 6;
        }
        count -= 16;
        let [.., high, low] = (bits >> count).to_be_bytes();
        Some(u16::from_be_bytes([high, low]))
    })
}

fn digit_of_base64(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn from_ebcdic(byte: u8) -> u8 {
    EBCDIC[usize::from(byte)]
}

/// The common characters of all code pages; for brackets the positions of three of them.
const EBCDIC: [u8; 256] = {
    let mut table = [NO_CHARACTER; 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] = letter_of_ebcdic(byte);
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    table
};

const fn letter_of_ebcdic(byte: u8) -> u8 {
    match byte {
        0x81..=0x89 => byte - 0x81 + b'a',
        0x91..=0x99 => byte - 0x91 + b'j',
        0xa2..=0xa9 => byte - 0xa2 + b's',
        0xc1..=0xc9 => byte - 0xc1 + b'A',
        0xd1..=0xd9 => byte - 0xd1 + b'J',
        0xe2..=0xe9 => byte - 0xe2 + b'S',
        0xf0..=0xf9 => byte - 0xf0 + b'0',
        0x05 | 0x0d | 0x25 | 0x15 | 0x40 => b' ',
        0x4b => b'.',
        0x4e => b'+',
        0x50 => b'&',
        0x5e => b';',
        0x60 => b'-',
        0x61 => b'/',
        0x6b => b',',
        0x6c => b'%',
        0x6d => b'_',
        0x7a => b':',
        0x7c => b'@',
        0x7d => b'\'',
        0x7e => b'=',
        0x7f => b'"',
        0xc0 => b'{',
        0xd0 => b'}',
        0xe0 => b'\\',
        0x4a | 0xad | 0xba => b'[',
        0x5a | 0xbb | 0xbd => b']',
        _ => NO_CHARACTER,
    }
}

/// Stands for a byte without a common character: no byte of UTF-8.
const NO_CHARACTER: u8 = 0xff;
/// U+FEFF at the beginning of a text.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// Bytes of a value that are decoded: what counts of one, in any encoding.
const MAX_VALUE_LEN: usize = 16 * 1024;
