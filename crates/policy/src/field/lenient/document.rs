//! Finds values after names in text like JSON, with comments, commas and quotes as other readers accept them.
//!
//! It compares only the last name on the way to a value, at any depth.

use super::super::body_fields::{BodyFields, FoundInBody};
use super::super::member::{FoldedName, hash_folded};
use super::super::name::letters;

/// Adds the values after the last name on the way to each field.
pub(super) fn find(text: &[u8], fields: &BodyFields, found: &mut FoundInBody) {
    // The prefix against cross-site scripts, which readers skip: its quote begins no text.
    let begin = text.iter().position(u8::is_ascii_graphic).map_or(text, |at| &text[at..]);
    let text = begin.strip_prefix(b")]}'").unwrap_or(begin);
    find_in(LenientTokens { rest: text, has_hash_comments: false }, fields, found);
    if memchr::memchr(b'#', text).is_some() {
        find_in(LenientTokens { rest: text, has_hash_comments: true }, fields, found);
    }
}

fn find_in(tokens: LenientTokens<'_>, fields: &BodyFields, found: &mut FoundInBody) {
    let mut search = DocumentSearch { names: last_names(fields), depth: 0, open: Vec::new(), texts: 0 };
    let (mut text_before, mut buffer) = (None, Vec::new());
    for token in tokens {
        match token {
            LenientToken::Text(text) => {
                if !search.open.is_empty() {
                    search.add(text.read(&mut buffer), found);
                }
                text_before = Some(text);
            }
            LenientToken::Names => {
                if let Some(name) = text_before.take() {
                    search.open_named(name.read(&mut buffer));
                }
            }
            LenientToken::Opens => search.depth += 1,
            LenientToken::Closes => {
                search.depth -= 1;
                search.close(search.depth);
            }
            // What was open above has been closed.
            LenientToken::Separates => search.close(search.depth),
        }
    }
}

/// The last name of each field, with its slot. A position in an array has no name: its value follows the name before it.
fn last_names(fields: &BodyFields) -> Vec<(&FoldedName, usize)> {
    let last =
        fields.iter().map(|(slot, field)| (field.members.iter().rfind(|member| member.is_name()), slot));
    last.filter_map(|(name, slot)| Some((name?, slot))).collect()
}

/// The fields whose values are being read. Each is there once, in the order of their depths.
struct DocumentSearch<'f> {
    names: Vec<(&'f FoldedName, usize)>,
    depth: i64,
    /// The slots of fields, and the depths at which their values began.
    open: Vec<(usize, i64)>,
    /// Texts that were added.
    texts: usize,
}

impl DocumentSearch<'_> {
    /// Behind this name comes a value.
    fn open_named(&mut self, name: &[u8]) {
        let hash = hash_folded(letters(name));
        for (_, slot) in self.names.iter().filter(|(known, _)| known.is(hash, letters(name))) {
            if !self.open.iter().any(|(open, _)| open == slot) {
                self.open.push((*slot, self.depth));
            }
        }
    }

    /// Values that began at this depth or below end.
    fn close(&mut self, depth: i64) {
        while self.open.last().is_some_and(|(_, began)| *began >= depth) {
            self.open.pop();
        }
    }

    fn add(&mut self, text: &[u8], found: &mut FoundInBody) {
        self.texts += 1;
        for (slot, _) in &self.open {
            match self.texts > MAX_TEXTS {
                true => found.has_too_many(*slot),
                false => found.add(*slot, text),
            }
        }
        self.open.retain(|(slot, _)| found.takes_more(*slot));
    }
}

enum LenientToken<'a> {
    Text(LenientText<'a>),
    /// The text before it is a name.
    Names,
    Separates,
    Opens,
    Closes,
}

/// A text, with quotes or without.
struct LenientText<'a> {
    written: &'a [u8],
    is_quoted: bool,
}

impl<'a> LenientText<'a> {
    /// The text without escapes.
    fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.is_quoted || memchr::memchr(b'\\', self.written).is_none() {
            return self.written;
        }
        unescape(self.written, buffer);
        buffer
    }
}

struct LenientTokens<'a> {
    rest: &'a [u8],
    /// Whether `#` begins a comment, as for Gson; to others it is a letter.
    has_hash_comments: bool,
}

impl<'a> Iterator for LenientTokens<'a> {
    type Item = LenientToken<'a>;

    fn next(&mut self) -> Option<LenientToken<'a>> {
        loop {
            let (&first, after) = self.rest.split_first()?;
            let (token, length) = match first {
                b'"' | b'\'' => {
                    let end = end_of_quoted(after, first);
                    let text = LenientText { written: &after[..end], is_quoted: true };
                    (Some(LenientToken::Text(text)), end + 2)
                }
                b'/' if after.starts_with(b"*") => (None, 1 + end_of(after, b"*/")),
                b'/' if after.starts_with(b"/") => (None, 1 + end_of(after, b"\n")),
                b'#' if self.has_hash_comments => (None, 1 + end_of(after, b"\n")),
                b':' | b'=' => (Some(LenientToken::Names), 1),
                b',' | b';' => (Some(LenientToken::Separates), 1),
                b'{' | b'[' => (Some(LenientToken::Opens), 1),
                b'}' | b']' => (Some(LenientToken::Closes), 1),
                _ if !is_bare(first) => (None, 1),
                _ => {
                    let end = self.rest.iter().position(|byte| !is_bare(*byte)).unwrap_or(self.rest.len());
                    let text = LenientText { written: &self.rest[..end], is_quoted: false };
                    (Some(LenientToken::Text(text)), end)
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
    BARE[usize::from(byte)]
}

const BARE: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        let is_mark =
            matches!(byte, b'"' | b'\'' | b':' | b'=' | b',' | b';' | b'{' | b'}' | b'[' | b']' | b'/');
        table[byte as usize] = !(byte.is_ascii_whitespace() || byte.is_ascii_control() || is_mark);
        byte += 1;
    }
    table
};

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

/// A text without its escapes; pairs of surrogates are one character.
fn unescape(text: &[u8], decoded: &mut Vec<u8>) {
    decoded.clear();
    let mut rest = text;
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
            Some(unit) => {
                rest = &after[digits..];
                let low = rest.strip_prefix(b"\\u").and_then(|digits| hex(digits, 4));
                let pair = low.filter(|_| digits == 4).and_then(|low| letter_of_pair(unit, low));
                if pair.is_some() {
                    rest = &rest[6..];
                }
                let letter = pair.or(char::from_u32(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
                decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => decoded.push(control(escaped)),
        }
    }
}

/// The character of a pair of surrogates.
fn letter_of_pair(high: u32, low: u32) -> Option<char> {
    let (high, low) = (u16::try_from(high).ok()?, u16::try_from(low).ok()?);
    let is_pair = matches!(high, 0xd800..0xdc00) && matches!(low, 0xdc00..0xe000);
    char::decode_utf16([high, low]).next()?.ok().filter(|_| is_pair)
}

/// The character of a short escape.
fn control(escaped: u8) -> u8 {
    match escaped {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => other,
    }
}

/// Texts after names of fields that are read in one document. A document with more of them is ambiguous.
const MAX_TEXTS: usize = 1024;
