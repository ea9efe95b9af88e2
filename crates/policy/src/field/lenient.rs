//! Finds what lenient readers would find in a body that strict ones refuse: as a form, as parts or as a document,
//! whatever the headers say.
//!
//! Its result is never complete; [`body`](super::body) marks such a body as unreadable. Readers differ about broken
//! input, so this one finds too much rather than too little, and ignores delimiters and nesting.

mod document;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use memchr::{memchr2, memchr2_iter, memmem};

use self::document::find as find_in_document;
use super::super::legibility::charsets;
use super::super::urlencoded::decode;
use super::encoding::TextEncoding;
use super::name::FieldName;
use super::{Field, TooManyValues, Values, basic, form, json};

/// Adds what may be a value of one of these fields, in all encodings that the body may have.
pub(super) fn find(
    fields: &[Field],
    names: &[FieldName],
    headers: &HeaderMap,
    body: &[u8],
    found: &mut Values,
) -> Result<(), TooManyValues> {
    let members: Vec<Vec<String>> = fields.iter().filter_map(Field::members).collect();
    let find = |text: &[u8], found: &mut Values| {
        form::find(text, names, found)?;
        find_in_parts(text, names, found)?;
        if json::looks_like_it(text) { find_in_document(text, &members, found) } else { Ok(()) }
    };
    find(body, found)?;
    let kinds = headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
    let labels: Vec<String> = kinds.flat_map(charsets).collect();
    for encoding in TextEncoding::possible(&labels, body) {
        let text = encoding.decode(body);
        find(&text, found)?;
        find_encoded(&text, names, encoding, found)?;
        find_encoded(body, names, encoding, found)?;
    }
    Ok(())
}

/// Adds fields of a form whose percent-encoded names or values are in this encoding.
fn find_encoded(
    text: &[u8],
    names: &[FieldName],
    encoding: TextEncoding,
    found: &mut Values,
) -> Result<(), TooManyValues> {
    for field in form::split(text, b'&') {
        let (sent, value) = form::name_and_value(field);
        let sent = decode(sent, false);
        // Most names are ASCII, and overlong names are not decoded again.
        let is_named = |sent: &[u8]| names.iter().any(|name| name.is(sent));
        if is_named(&sent) || (sent.len() <= MAX_NAME_LEN && is_named(&encoding.decode(&sent))) {
            add_decoded(encoding, &decode(value, false), found)?;
        }
    }
    Ok(())
}

/// Adds a value in this encoding, if it is valid.
fn add_decoded(encoding: TextEncoding, value: &[u8], found: &mut Values) -> Result<(), TooManyValues> {
    let value = encoding.decode(value);
    let is_broken = memmem::find(&value, "\u{fffd}".as_bytes()).is_some();
    if value.is_empty() || is_broken { Ok(()) } else { found.add(&value) }
}

/// Adds the content after the head of each part that names one of these fields.
fn find_in_parts(text: &[u8], names: &[FieldName], found: &mut Values) -> Result<(), TooManyValues> {
    let (mut head, mut times) = (0, 0);
    for at in memchr2_iter(b'n', b'N', text) {
        if at < head || !is_named_at(text, at, names) {
            continue;
        }
        times += 1;
        if times > MAX_PARTS {
            return Err(TooManyValues);
        }
        // Without an empty line there is no further part.
        let Some(start) = end_of_head(text, at) else { return Ok(()) };
        let blanks = text[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let content = &text[start..text.len().min(start + blanks + MAX_VALUE_LEN)];
        let content = &content[..memmem::find(content, b"\n--").unwrap_or(content.len())];
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        found.add(content)?;
        let lines = &text[head.max(at.saturating_sub(MAX_NAME_LEN))..start];
        if lines.to_ascii_lowercase().windows(6).any(|part| part == b"base64") {
            let coded = content.iter().copied().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=');
            basic::decode(coded.collect()).map_or(Ok(()), |content| found.add(&content))?;
        }
        for encoding in TextEncoding::possible(&charsets(lines), content) {
            add_decoded(encoding, content, found)?;
        }
        head = start;
    }
    Ok(())
}

/// Whether a parameter `name` or `name*` (RFC 5987) begins at this position and names one of these fields.
fn is_named_at(text: &[u8], at: usize, names: &[FieldName]) -> bool {
    if at > 0 && text[at - 1].is_ascii_alphanumeric() {
        return false;
    }
    let line = &text[at..text.len().min(at + MAX_NAME_LEN)];
    // PHP reads a line without a colon as a continuation of the line before.
    let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut bytes = line.iter().filter(|byte| !breaks(byte));
    let is_word =
        b"name".iter().all(|expected| bytes.next().is_some_and(|byte| byte.eq_ignore_ascii_case(expected)));
    let is_one_line = || memchr2(b'\r', b'\n', line).is_none();
    let joined = || line.iter().copied().filter(|byte| !breaks(byte)).collect::<Vec<u8>>();
    is_word && (is_parameter(line, names) || (!is_one_line() && is_parameter(&joined(), names)))
}

fn is_parameter(line: &[u8], names: &[FieldName]) -> bool {
    let rest = line.get(4..).unwrap_or_default();
    let is_extended = rest.trim_ascii_start().starts_with(b"*");
    let is_filler = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_digit() || *byte == b'*';
    let equals = rest.iter().position(|byte| !is_filler(byte)).unwrap_or(rest.len());
    let Some(value) = rest[equals..].strip_prefix(b"=") else { return false };
    let value = value.trim_ascii_start();
    let quoted = value.first().copied().filter(|byte| matches!(byte, b'"' | b'\'') && !is_extended);
    let value = if quoted.is_some() { &value[1..] } else { value };
    let is_end = |byte: &u8| match quoted {
        Some(quote) => *byte == quote,
        None => matches!(byte, b';' | b'\r' | b'\n' | b',' | b' '),
    };
    let mut value = value[..value.iter().position(is_end).unwrap_or(value.len())].to_vec();
    if is_extended {
        value.retain(|byte| *byte != b'"');
        let start = value.iter().rposition(|byte| *byte == b'\'').map_or(0, |quote| quote + 1);
        value.drain(..start);
    }
    value.retain(|byte| *byte != b'\\');
    let decoded: Vec<u8> = percent_encoding::percent_decode(&value).collect();
    names.iter().any(|name| name.is(&value) || name.is(&decoded))
}

/// The start of the content after the head that contains this position.
fn end_of_head(text: &[u8], at: usize) -> Option<usize> {
    let mut ends = memchr2_iter(b'\n', b'\r', &text[at..]).map(|end| at + end);
    ends.find_map(|end| {
        EMPTY_LINES.iter().find(|line| text[end..].starts_with(line)).map(|line| end + line.len())
    })
}

/// C reads a line that begins with a zero byte as empty.
const EMPTY_LINES: [&[u8]; 5] = [b"\r\n\r\n", b"\n\r\n", b"\n\n", b"\r\r", b"\n\0"];
/// Parts that name a field at most. Reading each may take as long as a value is.
const MAX_PARTS: usize = 32;
/// Bytes of a name at most, with the text around it.
const MAX_NAME_LEN: usize = 256;
/// Bytes of a value after its blanks at most: enough for the characters of an account name that count, in any encoding.
const MAX_VALUE_LEN: usize = 1024;
