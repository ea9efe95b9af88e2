//! `multipart/form-data` (RFC 7578) as browsers, curl and the common libraries write it, and in no other form.
//!
//! It finds the parts and decodes nothing in them. The surprising thing: no repair, no tolerance. The delimiter stands
//! at the beginnings of lines, from the first byte to the last, and nowhere else; whatever is written otherwise is
//! [`UnreadableBody`], because the readers behind us disagree about it.

use std::borrow::Cow;

use super::super::count::{UnreadableBody, is_legible};
use percent_encoding::percent_decode;

/// One part of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FormPart<'a> {
    /// Between the quotes, as sent.
    name: &'a [u8],
    /// Of a field or of a file.
    pub(super) content: &'a [u8],
}

impl<'a> FormPart<'a> {
    /// Browsers write `%22` for a quote, and not every reader knows.
    pub(super) fn names(&self) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
        [Cow::Borrowed(self.name), percent_decode(self.name).into()].into_iter()
    }
}

/// The parts of a body of this type.
pub(super) fn parts<'a>(kind: &[u8], body: &'a [u8]) -> Result<Vec<FormPart<'a>>, UnreadableBody> {
    let delimiter = [b"--", boundary(kind)?].concat();
    let mut pieces = MultipartPieces { rest: Some(body), delimiter: &delimiter };
    // PHP passes over what stands before the first delimiter, others look for it at once.
    if pieces.next() != Some(b"") {
        return Err(UnreadableBody);
    }
    let mut parts = Vec::new();
    while let Some(piece) = pieces.next() {
        // A piece is what follows a delimiter: two dashes are the end, and only the end.
        if pieces.rest.is_none() {
            return if matches!(piece, b"--" | b"--\r\n") { Ok(parts) } else { Err(UnreadableBody) };
        }
        let lines = piece.strip_prefix(b"\r\n").and_then(|piece| piece.strip_suffix(b"\r\n"));
        parts.push(part(lines.ok_or(UnreadableBody)?)?);
    }
    Err(UnreadableBody)
}

/// What stands between the delimiters, wherever they are.
struct MultipartPieces<'a, 'd> {
    rest: Option<&'a [u8]>,
    delimiter: &'d [u8],
}

impl<'a> Iterator for MultipartPieces<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = position(rest, self.delimiter);
        self.rest = end.map(|end| &rest[end + self.delimiter.len()..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

/// The boundary in a content type that has nothing else but a charset.
fn boundary(kind: &[u8]) -> Result<&[u8], UnreadableBody> {
    let (word, parameters) = kind.split_at_checked(MULTIPART.len()).ok_or(UnreadableBody)?;
    if !word.eq_ignore_ascii_case(MULTIPART) {
        return Err(UnreadableBody);
    }
    let mut boundary = None;
    for (name, value) in HeaderParameters(parameters) {
        match name {
            // PHP looks for this word wherever it stands, and in small letters first.
            b"boundary" if boundary.is_none() => boundary = Some(value),
            b"charset" => {}
            _ => return Err(UnreadableBody),
        }
    }
    let boundary = boundary.ok_or(UnreadableBody)?;
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(byte);
    // RFC 2046, 5.1.1, without blanks.
    let is_sound = (1..=70).contains(&boundary.len()) && boundary.iter().all(letter);
    if is_sound { Ok(boundary) } else { Err(UnreadableBody) }
}

/// Header lines, an empty line, and the content.
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
            // What is written in UTF-16 is decoded by some and taken as it is by others.
            b"content-type" if kinds == 0 && is_legible(value) && !is_nested(value) => kinds += 1,
            b"content-transfer-encoding" if encodings == 0 && is_identity(value) => encodings += 1,
            b"content-length" if value.iter().all(u8::is_ascii_digit) => {}
            _ => return Err(UnreadableBody),
        }
    }
    Ok(FormPart { name: name.ok_or(UnreadableBody)?, content })
}

/// A line of a head: PHP cuts a long one in two, a folded one belongs to the line before, and a line feed or a carriage
/// return alone ends one for some.
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

/// The name in a disposition that has nothing else but the name of a file.
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

/// `; name=value; name="value"`. What does not fit has an empty name, and is the last.
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

/// The first parameter and what follows it. Escapes are read in three ways, so there are none; what is not quoted has
/// only letters that nobody takes for the end.
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
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._/:[]".contains(byte);
    let end = value.iter().position(|byte| !letter(byte)).unwrap_or(value.len());
    (end > 0).then_some((name, &value[..end], &value[end..]))
}

/// Lines that end in CR LF.
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

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

const MULTIPART: &[u8] = b"multipart/form-data";
const FORM_DATA: &[u8] = b"form-data";
const IDENTITIES: [&[u8]; 3] = [b"7bit", b"8bit", b"binary"];
/// Bytes of one line of a part's head.
const MAX_LINE_LEN: usize = 1024;

#[cfg(test)]
mod tests;
