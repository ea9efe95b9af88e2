//! Reads a body in each way that is possible for it, once for all fields.
//!
//! It goes by the headers and by the look of the body, since applications go by the one or the other. A possible way
//! has to succeed to the end: a body that is almost JSON is unreadable even if a form field is looked up, because some
//! application would find something in it. [`lenient`] finds what such an application would find.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::super::legibility;
use super::body_fields::FoundInBody;
use super::lookup::FieldNames;
use super::{form, json, lenient, multipart, part_charset};

/// The body can be read in several ways, or not at all.
struct AmbiguousBody;

/// What the body holds for each field. A form field is looked up in a document as well, and vice versa: frameworks that
/// accept both merge them.
pub(super) fn find(names: &FieldNames, headers: &HeaderMap, body: &[u8]) -> FoundInBody {
    let mut found = names.in_body().none_found();
    if body.is_empty() {
        return found;
    }
    let kind = content_type(headers);
    if part_charset::hides_ascii(kind, body) {
        found.all_have_too_many();
        return found;
    }
    if find_strictly(names, kind, headers, body, &mut found).is_err() {
        found.all_are_unreadable();
        lenient::find(names, headers, body, &mut found);
    }
    found
}

fn find_strictly(
    names: &FieldNames,
    kind: Option<&[u8]>,
    headers: &HeaderMap,
    body: &[u8],
    found: &mut FoundInBody,
) -> Result<(), AmbiguousBody> {
    let kind = kind.filter(|kind| legibility::is_legible(kind)).ok_or(AmbiguousBody)?;
    let is_plain_form = kind.eq_ignore_ascii_case(FORM);
    let is = |word: &str| {
        !is_plain_form && kind.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !is("multipart") {
        form::find(body, names, &[], found);
    } else {
        for part in multipart::parts(kind, body).map_err(|_| AmbiguousBody)? {
            part.names().for_each(|sent| names.add_named(&sent, part.content, found));
        }
    }
    let is_declared = is("json");
    if !is_declared && !json::looks_like_it(body) {
        return Ok(());
    }
    let read = json::find(body, names.in_body(), found);
    if read == Err(json::UnreadDocument::TooDeep) || (is_declared && read.is_err()) {
        return Err(AmbiguousBody);
    }
    // A form may begin like a document without being declared as one.
    let is_ambiguous =
        |slot: usize| is_declared || names.in_body().at(slot).is_some_and(|field| !field.is_of_form());
    let odd = match read {
        Ok(odd) => odd,
        Err(_) => names.in_body().iter().map(|(slot, _)| slot).collect(),
    };
    odd.iter().filter(|slot| is_ambiguous(**slot)).for_each(|slot| found.is_unreadable(*slot));
    if !odd.is_empty() {
        lenient::find(names, headers, body, found);
    }
    Ok(())
}

/// Whether the headers leave open that a body is readable.
pub(super) fn is_legible_by_head(headers: &HeaderMap) -> bool {
    content_type(headers).is_some_and(legibility::is_legible)
}

/// The content type; empty if there is none, `None` if there are several.
fn content_type(headers: &HeaderMap) -> Option<&[u8]> {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let first = lines.next().map_or(&b""[..], |value| value.as_bytes());
    if lines.next().is_some() { None } else { Some(first) }
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";
