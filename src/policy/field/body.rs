//! Which ways there are to read a body, and all of them.
//!
//! It decides by what the headers say and by what the body looks like, since applications go by the one or by the
//! other. The surprising thing: a way that is open has to lead to the end. A body that is almost JSON is unreadable
//! also where a form is looked for, because some reader would make something of it.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::super::count;
use super::name::Name;
use super::{Field, NoValues, Values, form, json, multipart, names};

/// Adds the values of the fields that are in the body.
pub(super) fn find(
    fields: &[Field],
    headers: &HeaderMap,
    body: &[u8],
    found: &mut Values,
) -> Result<(), NoValues> {
    if body.is_empty() {
        return Ok(());
    }
    count::check_headers(headers).map_err(|_| NoValues::Unreadable)?;
    let kind = content_type(headers)?;
    let says = |word: &str| kind.to_ascii_lowercase().windows(word.len()).any(|part| part == word.as_bytes());
    let names =
        names(fields, |field| if let Field::Form(name) = field { Some(Name::new(name)) } else { None });
    if !says("multipart") {
        form::find(body, &names, found)?;
    } else if !names.is_empty() {
        for part in multipart::parts(kind, body).map_err(|_| NoValues::Unreadable)? {
            if part.names().any(|sent| names.iter().any(|name| name.is(&sent))) {
                found.add(part.content)?;
            }
        }
    }
    for field in fields {
        match field {
            Field::Form(written) if says("json") => json::find(body, &Name::members(written), found)?,
            Field::Json(pointer) if says("json") || json::looks_like_it(body) => {
                json::find(body, &json::members(pointer), found)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What the body is said to be; empty if nothing is said.
fn content_type(headers: &HeaderMap) -> Result<&[u8], NoValues> {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let first = lines.next().map_or(&b""[..], |value| value.as_bytes());
    if lines.next().is_some() { Err(NoValues::Unreadable) } else { Ok(first) }
}
