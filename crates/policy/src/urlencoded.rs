//! Percent-encoding in queries and forms, as applications decode it.
//!
//! It decodes bytes and knows no fields.

use std::borrow::Cow;

use memchr::{memchr_iter, memchr2};

/// The decodings of a text: the usual one, and that of old ASP and ASP.NET if it differs.
pub(super) fn readings(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let wide = has_wide_letters(text).then(|| decode(text, true));
    [Some(decode(text, false)), wide].into_iter().flatten()
}

/// Whether old ASP and ASP.NET could decode a text differently.
pub(super) fn has_wide_letters(text: &[u8]) -> bool {
    memchr_iter(b'%', text).any(|at| matches!(text.get(at + 1), Some(b'u' | b'U')))
}

/// Percent-decoding with `+` as a blank; broken sequences stay as they are. With `wide`, `%uXXXX` is a character, too.
pub(super) fn decode(text: &[u8], wide: bool) -> Cow<'_, [u8]> {
    let Some(first) = memchr2(b'%', b'+', text) else { return Cow::Borrowed(text) };
    let (plain, mut rest) = text.split_at(first);
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend_from_slice(plain);
    // What is left begins with one of the two.
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => decoded.push(b' '),
            _ => match (if wide { wide_letter(after) } else { None }, byte_in_hex(after)) {
                (Some(letter), _) => {
                    decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = &after[5..];
                }
                (None, Some(value)) => {
                    decoded.push(value);
                    rest = &after[2..];
                }
                (None, None) => decoded.push(byte),
            },
        }
        let plain = rest.iter().position(|byte| matches!(byte, b'%' | b'+')).unwrap_or(rest.len());
        decoded.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
    }
    Cow::Owned(decoded)
}

/// The first byte of a decoded name, if it is unambiguous.
pub(super) fn first_byte(name: &[u8]) -> Option<u8> {
    match name {
        [b'%', after @ ..] => byte_in_hex(after),
        [b'+', ..] => Some(b' '),
        _ => name.first().copied(),
    }
}

/// The characters of a decoded text, without a copy; U+FFFD for bytes that are no UTF-8.
#[derive(Clone)]
pub(super) struct DecodedChars<'t> {
    pub(super) rest: &'t [u8],
    pub(super) is_wide: bool,
}

impl Iterator for DecodedChars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        if self.is_wide
            && let [b'%', after @ ..] = self.rest
            && let Some(letter) = wide_letter(after)
        {
            self.rest = &after[5..];
            return Some(letter);
        }
        let first = next_byte(&mut self.rest)?;
        let more = match first {
            0..0xC0 => 0,
            0xC0..0xE0 => 1,
            0xE0..0xF0 => 2,
            0xF0.. => 3,
        };
        if first < 0x80 {
            return Some(char::from(first));
        }
        let (mut bytes, mut length) = ([first, 0, 0, 0], 1);
        let mut ahead = self.rest;
        for slot in bytes.iter_mut().skip(1).take(more) {
            let Some(byte) = next_byte(&mut ahead) else { break };
            (*slot, length) = (byte, length + 1);
        }
        match std::str::from_utf8(&bytes[..length]) {
            Ok(text) => {
                self.rest = ahead;
                text.chars().next()
            }
            Err(error) => {
                let broken = error.error_len().unwrap_or(length);
                (1..broken).for_each(|_| {
                    next_byte(&mut self.rest);
                });
                Some(char::REPLACEMENT_CHARACTER)
            }
        }
    }
}

fn next_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    match byte {
        b'+' => Some(b' '),
        b'%' => Some(byte_in_hex(after).map_or(b'%', |byte| {
            *rest = &after[2..];
            byte
        })),
        _ => Some(byte),
    }
}

fn wide_letter(after: &[u8]) -> Option<char> {
    let digits = after.strip_prefix(b"u").or_else(|| after.strip_prefix(b"U"))?;
    let digits = digits.get(..4)?.iter();
    let number =
        digits.copied().map(hex_digit).try_fold(0, |sum, digit| Some(sum * 16 + u32::from(digit?)))?;
    char::from_u32(number)
}

/// The byte of two hexadecimal digits.
pub(super) fn byte_in_hex(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else { return None };
    Some(hex_digit(*high)? << 4 | hex_digit(*low)?)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
