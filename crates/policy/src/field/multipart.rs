//! `multipart/form-data` (RFC 7578) as browsers, curl and the common libraries write it, and in no other form.
//!
//! It finds the parts and decodes nothing in them. It repairs and tolerates nothing: a delimiter is at the
//! beginning of a line, from the first byte to the last, and nowhere else. Any other body is [`UnreadableBody`],
//! because the readers behind us disagree about it.

use std::borrow::Cow;

use super::super::legibility::{UnreadableBody, is_legible};
use memchr::memmem::Finder;
use percent_encoding::percent_decode;

/// One part of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FormPart<'a> {
    /// The name between the quotes, as sent.
    name: &'a [u8],
    /// The content of the field or file.
    pub(crate) content: &'a [u8],
}

impl<'a> FormPart<'a> {
    /// The name as sent and decoded: browsers write `%22` for a quote, and not every reader decodes it.
    pub(crate) fn names(&self) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
        [Cow::Borrowed(self.name), percent_decode(self.name).into()].into_iter()
    }
}

/// The parts of a body of this type.
pub(crate) fn parts<'a>(kind: &[u8], body: &'a [u8]) -> Result<Vec<FormPart<'a>>, UnreadableBody> {
    let delimiter = [b"--", boundary(kind)?].concat();
    let mut pieces = MultipartPieces { rest: Some(body), delimiter: Finder::new(&delimiter) };
    // PHP skips text before the first delimiter, others expect the delimiter first.
    if pieces.next() != Some(b"") {
        return Err(UnreadableBody);
    }
    let mut parts = Vec::new();
    while let Some(piece) = pieces.next() {
        // A piece follows a delimiter. Two dashes mark the end, and only the end.
        if pieces.rest.is_none() {
            return if matches!(piece, b"--" | b"--\r\n") { Ok(parts) } else { Err(UnreadableBody) };
        }
        let lines = piece.strip_prefix(b"\r\n").and_then(|piece| piece.strip_suffix(b"\r\n"));
        parts.push(part(lines.ok_or(UnreadableBody)?)?);
    }
    Err(UnreadableBody)
}

/// The pieces between delimiters, wherever they are.
struct MultipartPieces<'a, 'd> {
    rest: Option<&'a [u8]>,
    delimiter: Finder<'d>,
}

impl<'a> Iterator for MultipartPieces<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = self.delimiter.find(rest);
        self.rest = end.map(|end| &rest[end + self.delimiter.needle().len()..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

/// The boundary of a content type with no other parameter than a charset.
fn boundary(kind: &[u8]) -> Result<&[u8], UnreadableBody> {
    let (word, parameters) = kind.split_at_checked(MULTIPART.len()).ok_or(UnreadableBody)?;
    if !word.eq_ignore_ascii_case(MULTIPART) {
        return Err(UnreadableBody);
    }
    let mut boundary = None;
    for (name, value) in HeaderParameters(parameters) {
        match name {
            // PHP searches this word at any position, and in lower case first.
            b"boundary" if boundary.is_none() => boundary = Some(value),
            b"charset" => {}
            _ => return Err(UnreadableBody),
        }
    }
    let boundary = boundary.ok_or(UnreadableBody)?;
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
    // RFC 2046, 5.1.1, without blanks.
    let is_sound = (1..=70).contains(&boundary.len()) && boundary.iter().all(is_allowed);
    if is_sound { Ok(boundary) } else { Err(UnreadableBody) }
}

/// Parses a part: header lines, an empty line, and the content.
fn part(piece: &[u8]) -> Result<FormPart<'_>, UnreadableBody> {
    let end = position(piece, b"\r\n\r\n").ok_or(UnreadableBody)?;
    let (head, content) = (&piece[..end], &piece[end + 4..]);
    let (mut name, mut kinds, mut encodings) = (None, 0, 0);
    for line in CrlfLines(Some(head)) {
        let colon = line.iter().position(|byte| *byte == b':').ok_or(UnreadableBody)?;
        let value = line[colon + 1..].trim_ascii();
        if !is_plain(line) {
            return Err(UnreadableBody);
        }
        match line[..colon].to_ascii_lowercase().as_slice() {
            b"content-disposition" if name.is_none() => name = Some(name_in(value)?),
            // Some readers decode a part in UTF-16, others take its bytes as they are.
            b"content-type" if kinds == 0 && is_legible(value) && !is_nested(value) => kinds += 1,
            b"content-transfer-encoding" if encodings == 0 && is_identity(value) => encodings += 1,
            b"content-length" if value.iter().all(u8::is_ascii_digit) => {}
            _ => return Err(UnreadableBody),
        }
    }
    Ok(FormPart { name: name.ok_or(UnreadableBody)?, content })
}

/// Whether readers agree about a header line: PHP cuts a long line in two, a folded line belongs to the line before,
/// and a single line feed or carriage return ends a line for some readers.
fn is_plain(line: &[u8]) -> bool {
    let is_folded = line.first().is_none_or(u8::is_ascii_whitespace);
    line.len() <= MAX_LINE_LEN && !is_folded && !line.iter().any(u8::is_ascii_control)
}

fn is_nested(kind: &[u8]) -> bool {
    kind.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
}

fn is_identity(encoding: &[u8]) -> bool {
    IDENTITIES.iter().any(|known| encoding.eq_ignore_ascii_case(known))
}

/// The name of a disposition with no other parameter than a file name.
fn name_in(disposition: &[u8]) -> Result<&[u8], UnreadableBody> {
    let (word, parameters) = disposition.split_at_checked(FORM_DATA.len()).ok_or(UnreadableBody)?;
    if !word.eq_ignore_ascii_case(FORM_DATA) {
        return Err(UnreadableBody);
    }
    let (mut found, mut files) = (None, 0);
    for (name, value) in HeaderParameters(parameters) {
        match name {
            b"name" if found.is_none() => found = Some(value),
            b"filename" if files == 0 => files += 1,
            _ => return Err(UnreadableBody),
        }
    }
    found.ok_or(UnreadableBody)
}

/// Iterates over `; name=value; name="value"`. Text that does not fit yields an empty name, and is the last item.
struct HeaderParameters<'a>(&'a [u8]);

impl<'a> Iterator for HeaderParameters<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((name, value, rest)) = parameter(self.0) else {
            self.0 = b"";
            return Some((b"", b""));
        };
        self.0 = rest;
        Some((name, value))
    }
}

/// The first parameter and the rest. Escapes are refused, because readers decode them in three ways; an unquoted value
/// has only characters that no reader takes as its end.
fn parameter(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = text.strip_prefix(b";")?;
    let text = text.trim_ascii_start();
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&text[..equals], &text[equals + 1..]);
    if let Some(quoted) = value.strip_prefix(b"\"") {
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let is_plain = !quoted[..end].contains(&b'\\');
        return is_plain.then_some((name, &quoted[..end], &quoted[end + 1..]));
    }
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._/:[]".contains(byte);
    let end = value.iter().position(|byte| !is_allowed(byte)).unwrap_or(value.len());
    (end > 0).then_some((name, &value[..end], &value[end..]))
}

/// Iterates over lines that end in CR LF.
struct CrlfLines<'a>(Option<&'a [u8]>);

impl<'a> Iterator for CrlfLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let end = position(rest, b"\r\n");
        self.0 = end.map(|end| &rest[end + 2..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

fn position(text: &[u8], pattern: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, pattern)
}

const MULTIPART: &[u8] = b"multipart/form-data";
const FORM_DATA: &[u8] = b"form-data";
const IDENTITIES: [&[u8]; 3] = [b"7bit", b"8bit", b"binary"];
/// Bytes of one line of a part's head at most.
const MAX_LINE_LEN: usize = 1024;

#[cfg(test)]
mod tests;
