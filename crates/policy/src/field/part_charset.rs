//! `_charset_` (RFC 7578, 4.6): a part that names the charset of all parts.
//!
//! Browsers put the charset of their page there. None of them uses a charset that hides ASCII: then the contents of the other
//! parts are unknown.

use memchr::memmem;

use super::super::legibility;

/// Whether the parts of a body of this type are said to be in a charset that hides ASCII.
pub(super) fn hides_ascii(kind: Option<&[u8]>, body: &[u8]) -> bool {
    let is_multipart =
        |kind: &[u8]| kind.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"));
    // An application may take any of several types.
    kind.is_none_or(is_multipart)
        && memmem::find_iter(body, NAME).any(|at| legibility::hides_ascii(&label(&body[at..])))
}

/// The label behind the head that this text begins in.
fn label(text: &[u8]) -> String {
    let text = &text[..text.len().min(MAX_LEN)];
    let mut lines = text.split(|byte| matches!(byte, b'\r' | b'\n')).skip(1);
    let is_of_head = |line: &&[u8]| line.is_empty() || line.contains(&b':');
    String::from_utf8_lossy(lines.find(|line| !is_of_head(line)).unwrap_or_default())
        .trim()
        .to_ascii_lowercase()
}

const NAME: &[u8] = b"_charset_";
/// Bytes that are looked at behind the name.
const MAX_LEN: usize = 512;
