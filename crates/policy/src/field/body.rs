//! Reads a body in each way that is possible for it.
//!
//! It goes by the headers and by the look of the body, since applications go by the one or the other. A possible way
//! has to succeed to the end: a body that is almost JSON is unreadable even if a form field is looked up, because some
//! application would find something in it. [`lenient`] finds what such an application would find.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::super::legibility;
use super::name::FieldName;
use super::{Field, FieldReadError, TooManyValues, Values, form, json, lenient, multipart};

/// Adds the values of the fields in the body; `names` are their names in a form. A form field is looked up in a
/// document as well, and vice versa: frameworks that accept both merge them.
pub(super) fn find(
    fields: &[Field],
    names: &[FieldName],
    (headers, body): (&HeaderMap, &[u8]),
    found: &mut Values,
) -> Result<(), TooManyValues> {
    if body.is_empty() {
        return Ok(());
    }
    match find_strictly(fields, names, headers, body, found) {
        Ok(()) => Ok(()),
        Err(FieldReadError::TooMany(error)) => Err(error),
        Err(FieldReadError::Unreadable) => {
            found.is_unreadable = true;
            lenient::find(fields, names, headers, body, found)
        }
    }
}

fn find_strictly(
    fields: &[Field],
    names: &[FieldName],
    headers: &HeaderMap,
    body: &[u8],
    found: &mut Values,
) -> Result<(), FieldReadError> {
    legibility::check_headers(headers).map_err(|_| FieldReadError::Unreadable)?;
    let kind = content_type(headers)?;
    let is_plain_form = kind.eq_ignore_ascii_case(FORM);
    let is = |word: &str| {
        !is_plain_form && kind.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !is("multipart") {
        form::find(body, names, found)?;
    } else if !names.is_empty() {
        for part in multipart::parts(kind, body).map_err(|_| FieldReadError::Unreadable)? {
            if part.names().any(|sent| names.iter().any(|name| name.is(&sent))) {
                found.add(part.content)?;
            }
        }
    }
    let is_declared = is("json");
    if !is_declared && !json::looks_like_it(body) {
        return Ok(());
    }
    for (field, members) in fields.iter().filter_map(|field| Some((field, field.members()?))) {
        match json::find(body, &members, found) {
            // A form may begin like a document without being declared as one.
            Err(FieldReadError::Unreadable) if !is_declared && matches!(field, Field::Form(_)) => {
                lenient::find(fields, names, headers, body, found)?;
            }
            read => read?,
        }
    }
    Ok(())
}

/// The content type; empty if there is none.
fn content_type(headers: &HeaderMap) -> Result<&[u8], FieldReadError> {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let first = lines.next().map_or(&b""[..], |value| value.as_bytes());
    if lines.next().is_some() { Err(FieldReadError::Unreadable) } else { Ok(first) }
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";
