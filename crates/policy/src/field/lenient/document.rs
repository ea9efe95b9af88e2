//! Finds values after names in text like JSON, with comments, commas and quotes as other readers accept them.
//!
//! It compares only the last name on the way to a value, at any depth.

use std::borrow::Cow;

use super::super::json::folded;
use super::super::{TooManyValues, Values};

/// Adds the values after the last name of each of these lists.
pub(super) fn find(text: &[u8], members: &[Vec<String>], found: &mut Values) -> Result<(), TooManyValues> {
    // A position in an array has no name: its value follows the name before it.
    let is_name = |member: &&String| !member.bytes().all(|byte| byte.is_ascii_digit());
    let last = members.iter().filter_map(|members| members.iter().rfind(is_name));
    let expected: Vec<String> = last.map(|name| folded(name)).collect();
    let (mut text_before, mut value) = (None, None);
    for token in (LenientTokens { rest: text }) {
        match (token, value) {
            (LenientToken::Text(text), Some(_)) => {
                found.add(&text)?;
                text_before = Some(text);
            }
            (LenientToken::Text(text), None) => text_before = Some(text),
            (LenientToken::Names, _) => {
                let is_expected =
                    |name: Cow<'_, [u8]>| expected.contains(&folded(&String::from_utf8_lossy(&name)));
                value = value.or(text_before.take().is_some_and(is_expected).then_some(0));
            }
            (LenientToken::Opens, Some(depth)) => value = Some(depth + 1),
            (LenientToken::Closes, Some(depth)) => value = if depth > 1 { Some(depth - 1) } else { None },
            (LenientToken::Separates, Some(0)) => value = None,
            (LenientToken::Opens | LenientToken::Closes | LenientToken::Separates, _) => {}
        }
    }
    Ok(())
}

enum LenientToken<'a> {
    /// A text, with quotes or without.
    Text(Cow<'a, [u8]>),
    /// The text before it is a name.
    Names,
    Separates,
    Opens,
    Closes,
}

struct LenientTokens<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for LenientTokens<'a> {
    type Item = LenientToken<'a>;

    fn next(&mut self) -> Option<LenientToken<'a>> {
        loop {
            let (&first, after) = self.rest.split_first()?;
            let (token, length) = match first {
                b'"' | b'\'' => {
                    let end = end_of_quoted(after, first);
                    let text = unescaped(&after[..end]);
                    (Some(LenientToken::Text(text)), end + 2)
                }
                b'/' if after.starts_with(b"*") => (None, 1 + end_of(after, b"*/")),
                b'/' if after.starts_with(b"/") => (None, 1 + end_of(after, b"\n")),
                b':' | b'=' => (Some(LenientToken::Names), 1),
                b',' | b';' => (Some(LenientToken::Separates), 1),
                b'{' | b'[' => (Some(LenientToken::Opens), 1),
                b'}' | b']' => (Some(LenientToken::Closes), 1),
                _ if !is_bare(first) => (None, 1),
                _ => {
                    let end = self.rest.iter().position(|byte| !is_bare(*byte)).unwrap_or(self.rest.len());
                    (Some(LenientToken::Text(Cow::Borrowed(&self.rest[..end]))), end)
                }
            };
            self.rest = self.rest.get(length..).unwrap_or_default();
            if token.is_some() {
                return token;
            }
        }
    }
}

/// Whether a byte belongs to a word without quotes.
fn is_bare(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !byte.is_ascii_control() && !b"\"':=,;{}[]/".contains(&byte)
}

fn end_of(text: &[u8], end: &[u8]) -> usize {
    memchr::memmem::find(text, end).map_or(text.len(), |at| at + end.len())
}

fn end_of_quoted(text: &[u8], quote: u8) -> usize {
    let mut rest = text.iter().enumerate();
    while let Some((at, byte)) = rest.next() {
        match byte {
            b'\\' => drop(rest.next()),
            byte if *byte == quote => return at,
            _ => {}
        }
    }
    text.len()
}

fn hex(digits: &[u8], count: usize) -> Option<u32> {
    let digits = std::str::from_utf8(digits.get(..count)?).ok()?;
    u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    // serde_json joins surrogate pairs.
    let quoted = [b"\"", text, b"\""].concat();
    if let Ok(text) = serde_json::from_slice::<String>(&quoted) {
        return Cow::Owned(text.into_bytes());
    }
    let (mut decoded, mut rest) = (Vec::new(), text);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let (b'\\', Some((&escaped, after))) = (byte, rest.split_first()) else {
            decoded.push(byte);
            continue;
        };
        rest = after;
        let digits = match escaped {
            b'u' => 4,
            b'x' => 2,
            _ => 0,
        };
        match hex(after, digits).filter(|_| digits > 0) {
            Some(letter) => {
                let letter = char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER);
                decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &after[digits..];
            }
            None => decoded.push(escaped),
        }
    }
    Cow::Owned(decoded)
}
