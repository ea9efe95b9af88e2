//! What lenient readers find in a body that strict ones refuse: a form, parts or a document, whatever the headers say.
//!
//! It says of nothing that it is all: that such a body is unreadable is said by [`body`](super::body). Every reader has its
//! own way with what is broken, so this one finds too much rather than too little, and knows no delimiters and no nesting.

mod document;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use memchr::{memchr2, memchr2_iter, memmem};

use self::document::find as find_in_document;
use super::super::count::charsets;
use super::super::urlencoded::decode;
use super::encoding::TextEncoding;
use super::name::FieldName;
use super::{Field, TooManyValues, Values, basic, form, json};

/// Adds what may be a value of one of these fields, in all letters in which the body may be written.
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
    for letters in TextEncoding::possible(&labels, body) {
        let text = letters.decode(body);
        find(&text, found)?;
        find_encoded(&text, names, letters, found)?;
        find_encoded(body, names, letters, found)?;
    }
    Ok(())
}

/// Adds fields of a form whose names or values are in these letters behind their percent signs.
fn find_encoded(
    text: &[u8],
    names: &[FieldName],
    letters: TextEncoding,
    found: &mut Values,
) -> Result<(), TooManyValues> {
    for field in form::split(text, b'&') {
        let (sent, value) = form::name_and_value(field);
        let sent = decode(sent, false);
        // Most names are ASCII, and no letters are looked up for what is too long for a name.
        let is_named = |sent: &[u8]| names.iter().any(|name| name.is(sent));
        if is_named(&sent) || (sent.len() <= MAX_NAME_LEN && is_named(&letters.decode(&sent))) {
            add_decoded(letters, &decode(value, false), found)?;
        }
    }
    Ok(())
}

/// Adds a value that was written in these letters, if it can have been.
fn add_decoded(letters: TextEncoding, value: &[u8], found: &mut Values) -> Result<(), TooManyValues> {
    let value = letters.decode(value);
    let is_broken = memmem::find(&value, "\u{fffd}".as_bytes()).is_some();
    if value.is_empty() || is_broken { Ok(()) } else { found.add(&value) }
}

/// Adds what stands behind the empty line behind each head that names one of these fields.
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
        // Without an empty line there is no part behind this one either.
        let Some(start) = end_of_head(text, at) else { return Ok(()) };
        let blanks = text[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let content = &text[start..text.len().min(start + blanks + MAX_VALUE_LEN)];
        let content = &content[..memmem::find(content, b"\n--").unwrap_or(content.len())];
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        found.add(content)?;
        let lines = &text[head.max(at.saturating_sub(MAX_NAME_LEN))..start];
        if lines.to_ascii_lowercase().windows(6).any(|part| part == b"base64") {
            let letters = content.iter().copied().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=');
            basic::decode(letters.collect()).map_or(Ok(()), |content| found.add(&content))?;
        }
        for letters in TextEncoding::possible(&charsets(lines), content) {
            add_decoded(letters, content, found)?;
        }
        head = start;
    }
    Ok(())
}

/// Whether a parameter `name` begins here, or `name*` (RFC 5987), and names one of these fields.
fn is_named_at(text: &[u8], at: usize, names: &[FieldName]) -> bool {
    if at > 0 && text[at - 1].is_ascii_alphanumeric() {
        return false;
    }
    let line = &text[at..text.len().min(at + MAX_NAME_LEN)];
    // PHP takes a line without a colon for the rest of the one before it.
    let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut letters = line.iter().filter(|byte| !breaks(byte));
    let is_word =
        b"name".iter().all(|wanted| letters.next().is_some_and(|byte| byte.eq_ignore_ascii_case(wanted)));
    let is_one_line = || memchr2(b'\r', b'\n', line).is_none();
    let joined = || line.iter().copied().filter(|byte| !breaks(byte)).collect::<Vec<u8>>();
    is_word && (is_parameter(line, names) || (!is_one_line() && is_parameter(&joined(), names)))
}

fn is_parameter(line: &[u8], names: &[FieldName]) -> bool {
    let rest = line.get(4..).unwrap_or_default();
    let is_extended = rest.trim_ascii_start().starts_with(b"*");
    let letters = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_digit() || *byte == b'*';
    let equals = rest.iter().position(|byte| !letters(byte)).unwrap_or(rest.len());
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

/// Where the content of the part begins in whose head this is.
fn end_of_head(text: &[u8], at: usize) -> Option<usize> {
    let mut ends = memchr2_iter(b'\n', b'\r', &text[at..]).map(|end| at + end);
    ends.find_map(|end| {
        EMPTY_LINES.iter().find(|line| text[end..].starts_with(line)).map(|line| end + line.len())
    })
}

/// To C a line is empty if it begins with a zero byte.
const EMPTY_LINES: [&[u8]; 5] = [b"\r\n\r\n", b"\n\r\n", b"\n\n", b"\r\r", b"\n\0"];
/// Parts that name a field. Each may be looked at for as long as a value is.
const MAX_PARTS: usize = 32;
/// Bytes in which a name stands, with what is written around it.
const MAX_NAME_LEN: usize = 256;
/// Bytes of a value behind its blanks: of an account's name as many letters are looked at as fit in there in any encoding.
const MAX_VALUE_LEN: usize = 1024;
