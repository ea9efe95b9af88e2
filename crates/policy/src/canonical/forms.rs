//! The forms of a path: as sent, decoded once and decoded twice, each also as lenient servers fold its characters.
//!
//! It knows bytes and no segments. Encoded slashes and backslashes stay distinct from literal ones, as
//! [`ENCODED_SLASH`] and [`ENCODED_BACKSLASH`], because some servers separate by them and others do not.

use memchr::{memchr, memchr2};
use percent_encoding::percent_decode;
use smallvec::SmallVec;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use super::TooManyReadings;

/// The path as sent, decoded once and decoded twice, each also with overlong and compatibility characters folded, and
/// cut where an encoded `?` or `#` would end it.
pub(super) fn forms(path: &str) -> Result<SmallVec<[Vec<u8>; 4]>, TooManyReadings> {
    let once = decode(path.as_bytes());
    let twice = if memchr(b'%', &once).is_some() { Some(decode(&once)) } else { None };
    let mut all = SmallVec::new();
    for decoded in [Some(once), twice, Some(path.as_bytes().to_vec())].into_iter().flatten() {
        let folded = fold_unicode(&decoded)?;
        for form in [Some(decoded), folded].into_iter().flatten() {
            if let Some(end) = memchr2(b'?', b'#', &form) {
                push_new(&mut all, form[..end].to_vec());
            }
            push_new(&mut all, form);
        }
    }
    Ok(all)
}

fn push_new(all: &mut SmallVec<[Vec<u8>; 4]>, form: Vec<u8>) {
    if !all.contains(&form) {
        all.push(form);
    }
}

/// Percent-decoding that keeps an encoded slash or backslash distinct from a literal one.
pub(super) fn decode(bytes: &[u8]) -> Vec<u8> {
    let mut marked = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr(b'%', rest) {
        marked.extend_from_slice(&rest[..at]);
        let (byte, length) = match encoded_byte(rest, at) {
            Some(b'/') => (ENCODED_SLASH, 3),
            Some(b'\\') => (ENCODED_BACKSLASH, 3),
            Some(byte) => (byte, 3),
            None => (b'%', 1),
        };
        marked.push(byte);
        rest = &rest[at + length..];
    }
    marked.extend_from_slice(rest);
    marked
}

/// The percent-encoded byte at a position, if there is one.
pub(super) fn encoded_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let three = bytes.get(at..at + 3)?;
    let is_encoded = three[0] == b'%' && three[1].is_ascii_hexdigit() && three[2].is_ascii_hexdigit();
    if is_encoded { percent_decode(three).next() } else { None }
}

/// Folds overlong UTF-8 (`C0 AF` for a slash) and compatibility characters (full width) to ASCII, as lenient servers
/// do; `None` if there is nothing to fold.
fn fold_unicode(bytes: &[u8]) -> Result<Option<Vec<u8>>, TooManyReadings> {
    if bytes.is_ascii() {
        return Ok(None);
    }
    let mut shortened = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, length) = match bytes[at..] {
            [lead @ (0xC0 | 0xC1), tail @ 0x80..=0xBF, ..] => ((lead & 1) << 6 | (tail & 0x3F), 2),
            [0xE0, middle @ (0x80 | 0x81), tail @ 0x80..=0xBF, ..] => ((middle & 1) << 6 | (tail & 0x3F), 3),
            [byte, ..] => (byte, 1),
            [] => break,
        };
        shortened.push(byte);
        at += length;
    }
    match String::from_utf8(shortened) {
        Ok(text) if is_nfkc_quick(text.chars()) == IsNormalized::Yes => Ok(Some(text.into_bytes())),
        Ok(text) => compatible(&text).map(Some),
        Err(bytes) => Ok(Some(bytes.into_bytes())),
    }
}

/// NFKC. One character can become eighteen, so the output is bounded, too.
fn compatible(text: &str) -> Result<Vec<u8>, TooManyReadings> {
    if text.chars().nth(MAX_FOLDED).is_some() {
        return Err(TooManyReadings);
    }
    let mut folded = String::with_capacity(text.len());
    for (count, letter) in text.nfkc().enumerate() {
        if count >= MAX_FOLDED {
            return Err(TooManyReadings);
        }
        folded.push(letter);
    }
    Ok(folded.into_bytes())
}

// `check` refuses control bytes, so they are free to mark encoded separators.
pub(super) const ENCODED_SLASH: u8 = 1;
pub(super) const ENCODED_BACKSLASH: u8 = 2;

/// Characters that NFKC reads or writes at most. File names that macOS decomposes have half as many.
const MAX_FOLDED: usize = 512;
