//! Counts the calls in an XML-RPC body: one, or the number of calls in a `system.multicall`.
//!
//! It reads events, builds no tree and resolves no entities. XML-RPC readers differ in what they read as the name of a
//! struct's member, so it counts several things, and the largest number is the cost: WordPress's IXR uses a name that
//! was left over from elsewhere, Python's `xmlrpc` reads any text as a name.

mod counter;
mod name_match;

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::attributes::{AttrError, Attribute};
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};

use self::counter::CallCounter;
use super::UnreadableBody;
use crate::legibility::contains_ascii;

/// The number of calls in a body that begins with a visible byte; 1 for a body that is no XML.
pub(super) fn count(body: &[u8], name: &str) -> Result<u32, UnreadableBody> {
    if body.starts_with(EBCDIC) {
        return Err(UnreadableBody);
    }
    if !body.starts_with(b"<") {
        return Ok(1);
    }
    let text = as_text(body);
    check_pieces(&text)?;
    let mut reader = Reader::from_str(&text);
    reader.config_mut().check_comments = true;
    reader.config_mut().expand_empty_elements = true;
    let mut counter = CallCounter::new(local_name(name));
    loop {
        match reader.read_event().map_err(|_| UnreadableBody)? {
            Event::Start(tag) => {
                check_attributes(&tag)?;
                counter.open(tag.name().as_ref())?;
            }
            Event::End(tag) => counter.close(tag.name().as_ref()),
            Event::Text(text) => counter.text(text.bytes())?,
            Event::CData(text) => counter.text(text.bytes())?,
            Event::GeneralRef(reference) => counter.text(std::iter::once(letter(&reference)?))?,
            Event::Decl(declaration) => check_declaration(&declaration)?,
            // Entities could hide any text.
            Event::DocType(_) => return Err(UnreadableBody),
            Event::Comment(_) | Event::PI(_) | Event::Empty(_) => {}
            Event::Eof => return counter.finish(),
        }
    }
}

/// A name without its prefix.
fn local_name(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// The body as text. Bytes below 128 are ASCII in every accepted encoding, and only those matter.
fn as_text(body: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(body.iter().copied().map(char::from).collect()),
    }
}

/// Refuses bodies from which IXR and similar readers would cut more than the declaration. They remove it with a pattern
/// before they parse: from any `<?xml` at any position, up to the last `?>` of its line.
fn check_pieces(text: &str) -> Result<(), UnreadableBody> {
    let declared = text.get(..PIECE.len()).is_some_and(|start| start.eq_ignore_ascii_case(PIECE));
    let rest = if declared {
        let end = text.find("?>").ok_or(UnreadableBody)? + "?>".len();
        let rest = &text[end..];
        if rest.lines().next().is_some_and(|line| line.contains("?>")) {
            return Err(UnreadableBody);
        }
        rest
    } else {
        text
    };
    let mut starts = rest.match_indices("<?");
    let again = starts
        .any(|(at, _)| rest.get(at..at + PIECE.len()).is_some_and(|start| start.eq_ignore_ascii_case(PIECE)));
    if again { Err(UnreadableBody) } else { Ok(()) }
}

/// Accepts only XML 1.0: newer versions have more characters that end a name.
fn check_declaration(declaration: &BytesDecl<'_>) -> Result<(), UnreadableBody> {
    let version = declaration.version().map_err(|_| UnreadableBody)?;
    let encoding = declaration.encoding().transpose().map_err(|_| UnreadableBody)?;
    let legible = encoding.is_none_or(|label| contains_ascii(label.trim()));
    if &*version == "1.0" && legible { Ok(()) } else { Err(UnreadableBody) }
}

/// Refuses malformed attributes: a lenient reader may end such a tag elsewhere.
fn check_attributes(tag: &BytesStart<'_>) -> Result<(), UnreadableBody> {
    let mut attributes = tag.attributes();
    // Checking for duplicates would take quadratic time.
    let legible = |attribute: Result<Attribute<'_>, AttrError>| {
        attribute.is_ok_and(|attribute| !attribute.value.contains('<'))
    };
    if attributes.with_checks(false).all(legible) { Ok(()) } else { Err(UnreadableBody) }
}

/// The byte of a reference: a visible ASCII character, or 0 for any other.
fn letter(reference: &BytesRef<'_>) -> Result<u8, UnreadableBody> {
    if let Some(letter) = reference.resolve_char_ref().map_err(|_| UnreadableBody)? {
        return Ok(u8::try_from(letter).unwrap_or(0));
    }
    match &**reference {
        "amp" => Ok(b'&'),
        "lt" => Ok(b'<'),
        "gt" => Ok(b'>'),
        "quot" => Ok(b'"'),
        "apos" => Ok(b'\''),
        _ => Err(UnreadableBody),
    }
}

const PIECE: &str = "<?xml";
/// `<?xm` in EBCDIC, which libxml2 recognises.
const EBCDIC: &[u8] = b"\x4c\x6f\xa7\x94";

#[cfg(test)]
mod tests;
