//! Encodings in which ASCII bytes mean something else: two and four bytes a character, UTF-7 and EBCDIC.
//!
//! Java, Python and JSON readers decode the encoding that a client names, or the one that the text looks like. EBCDIC
//! has a hundred code pages, which differ in characters that English does not use: their common part is enough for the
//! names of fields and of most accounts.

use smallvec::SmallVec;

use super::basic;

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

impl TextEncoding {
    /// The encodings by which an application could read a text with these labels.
    pub(super) fn possible(labels: &[String], text: &[u8]) -> SmallVec<[Self; 6]> {
        let has_label =
            |words: &[&str]| labels.iter().any(|label| words.iter().any(|word| label.contains(word)));
        let mut found = SmallVec::new();
        if has_label(&["utf-7", "utf7", "u7"]) {
            found.push(Self::Utf7);
        }
        if has_label(&["16", "32", "ucs", "unicode"]) || memchr::memchr(0, text).is_some() {
            found.extend([ByteOrder::Big, ByteOrder::Little].map(Self::Utf16));
            found.extend([ByteOrder::Big, ByteOrder::Little].map(Self::Utf32));
        }
        if labels.iter().any(|label| !super::super::legibility::contains_ascii(label)) {
            found.push(Self::Ebcdic);
        }
        found
    }

    /// The text in UTF-8; empty if it cannot be in this encoding.
    pub(super) fn decode(self, text: &[u8]) -> Vec<u8> {
        let decoded: String = match self {
            Self::Utf7 => return from_utf7(text),
            Self::Ebcdic => text.iter().map(|byte| from_ebcdic(*byte)).collect(),
            Self::Utf16(order) => from_utf16(text, order),
            Self::Utf32(order) => {
                let letters = text.chunks_exact(4).map(|bytes| {
                    let (bytes, of) = match (bytes, order) {
                        (&[a, b, c, d], ByteOrder::Big) => ([a, b, c, d], u32::from_be_bytes),
                        (&[a, b, c, d], ByteOrder::Little) => ([d, c, b, a], u32::from_be_bytes),
                        _ => return None,
                    };
                    char::from_u32(of(bytes))
                });
                letters.collect::<Option<String>>().unwrap_or_default()
            }
        };
        decoded.trim_start_matches('\u{feff}').to_owned().into_bytes()
    }
}

fn from_utf16(text: &[u8], order: ByteOrder) -> String {
    let units = text.chunks_exact(2).map(|bytes| match (bytes, order) {
        (&[high, low], ByteOrder::Big) | (&[low, high], ByteOrder::Little) => u16::from_be_bytes([high, low]),
        _ => 0,
    });
    char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
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
        let is_coded = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let end = after.iter().position(|byte| !is_coded(byte)).unwrap_or(after.len());
        let letters = basic::decode(after[..end].to_vec()).unwrap_or_else(|| vec![0, b'+']);
        decoded.extend_from_slice(from_utf16(&letters, ByteOrder::Big).as_bytes());
        rest = after[end..].strip_prefix(b"-").unwrap_or(&after[end..]);
    }
    decoded
}

/// The common characters of all code pages; for brackets the positions of three of them.
fn from_ebcdic(byte: u8) -> char {
    let letter = match byte {
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
        _ => return char::REPLACEMENT_CHARACTER,
    };
    char::from(letter)
}
