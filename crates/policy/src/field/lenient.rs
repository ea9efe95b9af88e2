//! Finds what lenient readers would find in a body that strict ones refuse: as a form, as parts or as a document,
//! whatever the headers say.
//!
//! Its result is never complete; [`body`](super::body) marks such a body as unreadable. Readers differ about broken
//! input, so this one finds too much rather than too little, and ignores delimiters and nesting.

mod document;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use memchr::{memchr2, memchr2_iter, memmem};
use smallvec::SmallVec;

use self::document::find as find_in_document;
use super::super::legibility::{charsets, contains_ascii, is_known};
use super::body_fields::FoundInBody;
use super::encoding::TextEncoding;
use super::lookup::FieldNames;
use super::name::letters;
use super::{basic, form, json};

/// Adds what may be a value of a field, in all encodings that the body may have.
pub(super) fn find(names: &FieldNames, headers: &HeaderMap, body: &[u8], found: &mut FoundInBody) {
    let kinds = headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
    let labels: Vec<String> = kinds.flat_map(charsets).collect();
    let Some(encodings) = TextEncoding::possible(&labels, body) else { return found.all_have_too_many() };
    let mut find = |text: &[u8], encodings: &[TextEncoding]| {
        form::find(text, names, encodings, found);
        find_in_parts(text, names, found);
        if json::looks_like_it(text) {
            find_in_document(text, names.in_body(), found);
        }
    };
    find(body, &encodings);
    for encoding in encodings {
        find(&encoding.decode(body), &[encoding]);
    }
}

/// Adds the content after the head of each part that names a field.
fn find_in_parts(text: &[u8], names: &FieldNames, found: &mut FoundInBody) {
    let (mut head, mut times) = (0, 0);
    // Where text is looked at several times, it is not for long.
    let mut budget = text.len().saturating_mul(LOOKS).saturating_add(LOOKS * MAX_NAME_LEN);
    for at in memchr2_iter(b'n', b'N', text) {
        if at < head || !begins_parameter(text, at) {
            continue;
        }
        let line = &text[at..text.len().min(at + MAX_NAME_LEN)];
        if hides_its_name(line) {
            return found.all_have_too_many();
        }
        let Some(name) = PartName::in_line(line, names, &mut budget) else {
            if budget == 0 {
                return found.all_have_too_many();
            }
            continue;
        };
        times += 1;
        if times > MAX_PARTS {
            return found.all_have_too_many();
        }
        // Without an empty line there is no further part.
        let Some(start) = end_of_head(text, at) else { return };
        let blanks = text[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let content = &text[start..text.len().min(start + blanks + MAX_VALUE_LEN)];
        // Some readers end lines with a carriage return alone.
        if let Some(end) = memmem::find(content, b"\r--") {
            name.add(names, &content[..end], found);
        }
        let content = &content[..memmem::find(content, b"\n--").unwrap_or(content.len())];
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        name.add(names, content, found);
        // From the end of the head before: a client puts any lines in front of the name.
        let lines = &text[head..start];
        let labels: Vec<String> = charsets(lines).iter().map(|label| first_line(label)).collect();
        let lines = lines.to_ascii_lowercase();
        if !labels.iter().all(|label| is_known(label)) || is_coded(&lines) {
            return found.all_have_too_many();
        }
        if memmem::find(&lines, b"base64").is_some() {
            let coded: Vec<u8> = content.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            basic::readings(&coded).for_each(|content| name.add(names, &content, found));
        }
        let Some(encodings) = TextEncoding::possible(&labels, content) else {
            return found.all_have_too_many();
        };
        for encoding in encodings {
            encoding.decode_value(content).iter().for_each(|content| name.add(names, content, found));
        }
        head = start;
    }
}

/// Whether a parameter `name` or `name*` (RFC 5987) may begin at this position.
fn begins_parameter(text: &[u8], at: usize) -> bool {
    if at > 0 && text[at - 1].is_ascii_alphanumeric() {
        return false;
    }
    let mut bytes = text[at..].iter().filter(|byte| !is_break(byte));
    b"name".iter().all(|expected| bytes.next().is_some_and(|byte| byte.eq_ignore_ascii_case(expected)))
}

/// Whether a parameter says its name in pieces (`name*0=us; name*1=er`, RFC 2231) or in a charset that hides ASCII. No
/// browser does.
fn hides_its_name(line: &[u8]) -> bool {
    let mut rest =
        line.iter().copied().filter(|byte| !is_break(byte)).skip(4).skip_while(u8::is_ascii_whitespace);
    if rest.next() != Some(b'*') {
        return false;
    }
    let mut rest = rest.filter(|byte| !byte.is_ascii_whitespace()).peekable();
    let mut is_in_pieces = false;
    while rest.next_if(u8::is_ascii_digit).is_some() {
        is_in_pieces = true;
    }
    let _ = rest.next_if_eq(&b'*');
    match rest.next() {
        Some(b'=') if !is_in_pieces => {
            let label: Vec<u8> =
                rest.take(MAX_LABEL_LEN).take_while(|byte| !matches!(byte, b';' | b',')).collect();
            let charset =
                label.split(|byte| *byte == b'\'').next().filter(|charset| charset.len() < label.len());
            let charset = charset.map(|charset| String::from_utf8_lossy(charset).to_ascii_lowercase());
            let charset = charset.as_deref().map(|charset| charset.trim_matches('"'));
            charset.is_some_and(|charset| !charset.is_empty() && !contains_ascii(charset))
        }
        sign => is_in_pieces && sign == Some(b'='),
    }
}

/// Whether a header among these lines, in lower case, says that the content is coded in another way than Base64: some
/// readers decode `quoted-printable` and `x-uuencode`.
fn is_coded(lines: &[u8]) -> bool {
    memmem::find_iter(lines, TRANSFER_ENCODING).any(|at| {
        let value = lines[at + TRANSFER_ENCODING.len()..].trim_ascii_start();
        let Some(value) = value.strip_prefix(b":") else { return false };
        let value = value.trim_ascii_start();
        let end = value.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
        !PLAIN_ENCODINGS.contains(&&value[..end.unwrap_or(value.len())])
    })
}

/// A label in the middle of other lines, without quotes.
fn first_line(label: &str) -> String {
    label.lines().next().unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
}

/// PHP reads a line without a colon as a continuation of the line before.
fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// The names that a part may have: as they were sent, and without their percent-encoding.
#[derive(Default)]
struct PartName(SmallVec<[Vec<u8>; 2]>);

impl PartName {
    /// The names in these lines that are those of fields, in one line or across breaks. What is looked at is taken from
    /// `budget`; nothing is read without.
    fn in_line(line: &[u8], names: &FieldNames, budget: &mut usize) -> Option<Self> {
        let (first, length) = parameter_value(line);
        *budget = budget.saturating_sub(length);
        let mut found = Self::default();
        if let Some(value) = first {
            if value.first().is_some_and(|first| !names.could_begin(first)) {
                return None;
            }
            found.add_spellings(value, names);
        }
        // What follows a break makes no difference to what ends before.
        let is_one_line = memchr2(b'\r', b'\n', &line[..line.len().min(length + 1)]).is_none();
        let joins: &[fn(&[u8]) -> JoinedLines] = match found.0.is_empty() {
            _ if is_one_line || *budget == 0 => &[],
            true => &[without_breaks, without_folds],
            // Its first half may be the name of another field.
            false if behind_fold(line.get(length..).unwrap_or_default()).is_some() => &[without_folds],
            false => &[],
        };
        for join in joins {
            let joined = join(line);
            *budget = budget.saturating_sub(joined.len());
            parameter_value(&joined).0.into_iter().for_each(|value| found.add_spellings(value, names));
        }
        (!found.0.is_empty()).then_some(found)
    }

    /// Adds what this value means, if it is the name of a field.
    fn add_spellings(&mut self, value: ParameterValue<'_>, names: &FieldNames) {
        if !value.first().is_some_and(|first| names.could_begin(first)) {
            return;
        }
        let ParameterValue { text, is_extended } = value;
        let text = match text.iter().rposition(|byte| *byte == b'\'') {
            Some(quote) if is_extended => &text[quote + 1..],
            _ => text,
        };
        let sent: Vec<u8> = text.iter().copied().filter(|byte| !value.leaves_out(*byte)).collect();
        let decoded = memchr::memchr(b'%', &sent).map(|_| percent_encoding::percent_decode(&sent).collect());
        let spellings: SmallVec<[Vec<u8>; 2]> = std::iter::once(sent).chain(decoded).collect();
        let mut is_known = false;
        spellings.iter().for_each(|sent| names.for_each_decoded(letters(sent), |_| is_known = true));
        if is_known {
            self.0.extend(spellings);
        }
    }

    fn add(&self, names: &FieldNames, value: &[u8], found: &mut FoundInBody) {
        self.0.iter().for_each(|sent| names.add_named(sent, value, found));
    }
}

fn without_breaks(line: &[u8]) -> JoinedLines {
    line.iter().copied().filter(|byte| !is_break(byte)).collect()
}

/// Without breaks that blanks follow, and these blanks: some readers join folded lines so.
fn without_folds(line: &[u8]) -> JoinedLines {
    let mut joined = JoinedLines::new();
    let mut rest = line;
    while let Some((first, after)) = rest.split_first() {
        if let Some(behind) = behind_fold(rest) {
            rest = behind;
        } else {
            joined.push(*first);
            rest = after;
        }
    }
    joined
}

/// What is behind a break and its blanks, if this begins so.
fn behind_fold(text: &[u8]) -> Option<&[u8]> {
    let behind = text
        .strip_prefix(b"\r\n")
        .or_else(|| text.split_first().filter(|(first, _)| is_break(first)).map(|(_, behind)| behind))?;
    let blanks = behind.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (blanks > 0).then(|| &behind[blanks..])
}

type JoinedLines = SmallVec<[u8; MAX_NAME_LEN]>;

/// The value of a parameter, whose name may be a `name*`.
#[derive(Clone, Copy)]
struct ParameterValue<'a> {
    text: &'a [u8],
    is_extended: bool,
}

impl ParameterValue<'_> {
    /// The first byte of the name: nearly all are ruled out by it. The charset of an extended value comes first.
    fn first(self) -> Option<u8> {
        let mut text = self.text;
        if self.is_extended
            && let Some(quote) = text.iter().rposition(|byte| *byte == b'\'')
        {
            text = &text[quote + 1..];
        }
        text.iter().copied().find(|byte| !self.leaves_out(*byte))
    }

    fn leaves_out(self, byte: u8) -> bool {
        byte == b'\\' || (self.is_extended && byte == b'"')
    }
}

/// The value of the parameter that begins here, and how many bytes say so.
fn parameter_value(line: &[u8]) -> (Option<ParameterValue<'_>>, usize) {
    let rest = line.get(4..).unwrap_or_default();
    let is_filler = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_digit() || *byte == b'*';
    let is_extended = rest.trim_ascii_start().starts_with(b"*");
    let equals = rest.iter().position(|byte| !is_filler(byte)).unwrap_or(rest.len());
    let Some(value) = rest[equals..].strip_prefix(b"=") else { return (None, 4 + equals) };
    let value = value.trim_ascii_start();
    let quoted = value.first().copied().filter(|byte| matches!(byte, b'"' | b'\'') && !is_extended);
    let value = if quoted.is_some() { &value[1..] } else { value };
    let is_end = |byte: &u8| match quoted {
        Some(quote) => *byte == quote,
        None => matches!(byte, b';' | b'\r' | b'\n' | b',' | b' '),
    };
    let text = &value[..value.iter().position(is_end).unwrap_or(value.len())];
    (Some(ParameterValue { text, is_extended }), line.len() - value.len() + text.len())
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
const TRANSFER_ENCODING: &[u8] = b"content-transfer-encoding";
/// What is read as it is, and Base64, which is decoded.
const PLAIN_ENCODINGS: [&[u8]; 5] = [b"", b"7bit", b"8bit", b"binary", b"base64"];
/// Bytes of a charset's label at most.
const MAX_LABEL_LEN: usize = 64;
/// How often a byte is looked at for names of parts, on average.
const LOOKS: usize = 2;
/// Parts that name a field at most. Reading each may take as long as a value is.
const MAX_PARTS: usize = 32;
/// Bytes of a name at most, with the text around it.
const MAX_NAME_LEN: usize = 256;
/// Bytes of a value after its blanks at most: enough for the characters of an account name that count, in any encoding.
const MAX_VALUE_LEN: usize = 1024;
