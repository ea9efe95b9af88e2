//! Which ways there are to read a body, and all of them.
//!
//! It decides by what the headers say and by what the body looks like, since applications go by the one or by the
//! other. A way that is open has to lead to the end: a body that is almost JSON is unreadable also where a form is looked
//! for, because some reader would make something of it. What it would make of it is left to [`loose`].

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::super::count;
use super::name::FieldName;
use super::{Field, FieldReadError, TooManyValues, Values, form, json, lenient, multipart, names};

/// Adds the values of the fields that are in the body. What is looked for in a form is looked for in a document too, and
/// the other way round: frameworks that take both hand them out as one.
pub(super) fn find(
    fields: &[Field],
    headers: &HeaderMap,
    body: &[u8],
    found: &mut Values,
) -> Result<(), TooManyValues> {
    if body.is_empty() {
        return Ok(());
    }
    let names = names(fields, Field::in_body);
    match find_strictly(fields, &names, headers, body, found) {
        Ok(()) => Ok(()),
        Err(FieldReadError::TooMany(error)) => Err(error),
        Err(FieldReadError::Unreadable) => {
            found.is_unreadable = true;
            lenient::find(fields, &names, headers, body, found)
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
    count::check_headers(headers).map_err(|_| FieldReadError::Unreadable)?;
    let kind = content_type(headers)?;
    let says = |word: &str| kind.to_ascii_lowercase().windows(word.len()).any(|part| part == word.as_bytes());
    if !says("multipart") {
        form::find(body, names, found)?;
    } else if !names.is_empty() {
        for part in multipart::parts(kind, body).map_err(|_| FieldReadError::Unreadable)? {
            if part.names().any(|sent| names.iter().any(|name| name.is(&sent))) {
                found.add(part.content)?;
            }
        }
    }
    let is_said = says("json");
    if !is_said && !json::looks_like_it(body) {
        return Ok(());
    }
    for (field, members) in fields.iter().filter_map(|field| Some((field, field.members()?))) {
        match json::find(body, &members, found) {
            // A form may begin like a document, and nothing says that it is one.
            Err(FieldReadError::Unreadable) if !is_said && matches!(field, Field::Form(_)) => {
                lenient::find(fields, names, headers, body, found)?;
            }
            read => read?,
        }
    }
    Ok(())
}

/// What the body is said to be; empty if nothing is said.
fn content_type(headers: &HeaderMap) -> Result<&[u8], FieldReadError> {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let first = lines.next().map_or(&b""[..], |value| value.as_bytes());
    if lines.next().is_some() { Err(FieldReadError::Unreadable) } else { Ok(first) }
}
