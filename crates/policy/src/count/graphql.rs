//! Counts fields of GraphQL documents: a request can have several aliases of a field, and several documents.
//!
//! Servers find documents in several places. It reads all of them, whatever the headers say, and the largest number is the
//! cost: the body as JSON, as a form, as parts or as a document, and the query. What a server makes of one document is left
//! to [`document`].

mod document;
mod envelope;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use super::UnreadableBody;
use crate::field::multipart_parts;
use crate::pairs::{name_and_value, split};
use crate::urlencoded::readings;

/// The number of these fields that the request has a server resolve; 0 if it has no document.
pub(super) fn count(
    fields: &[String],
    headers: &HeaderMap,
    query: Option<&str>,
    body: &[u8],
) -> Result<u32, UnreadableBody> {
    let query = query.unwrap_or_default().as_bytes();
    let in_query = in_form(query, fields)?;
    if !body.is_empty() {
        // A server takes the document in the query or that in the body.
        return Ok(in_body(fields, headers, body)?.max(in_query.unwrap_or(0)));
    }
    match in_query {
        None if names_any(query, &PERSISTED) => Err(UnreadableBody),
        found => Ok(found.unwrap_or(0)),
    }
}

fn in_body(fields: &[String], headers: &HeaderMap, body: &[u8]) -> Result<u32, UnreadableBody> {
    let mut found = in_text(body, fields)?.max(in_form(body, fields)?);
    for kind in headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes) {
        found = found.max(in_parts(kind, body, fields)?);
    }
    found.ok_or(UnreadableBody)
}

/// A request as JSON, several of them, or a document; `None` for another format. What begins like JSON is read as nothing
/// else but a document, since servers have readers of JSON that take more than others.
fn in_text(text: &[u8], fields: &[String]) -> Result<Option<u32>, UnreadableBody> {
    let start = text.iter().position(u8::is_ascii_graphic).unwrap_or(text.len());
    let text = &text[start..];
    if !text.starts_with(b"{") && !text.starts_with(b"[") {
        return Ok(document::count(text, fields));
    }
    let found = match envelope::count(text, fields) {
        Some(found) => found,
        None => document::count(text, fields),
    };
    found.map(Some).ok_or(UnreadableBody)
}

/// The documents in a form or a query; `None` if there are none.
fn in_form(text: &[u8], fields: &[String]) -> Result<Option<u32>, UnreadableBody> {
    let mut found = None;
    for (name, value) in pairs(text) {
        if is_called(name, "query") {
            let counts = readings(value).filter_map(|text| document::count(&text, fields));
            found = added(found, counts.max());
        } else if is_called(name, "operations") {
            for text in readings(value) {
                found = added(found, in_text(&text, fields)?);
            }
        }
    }
    Ok(found)
}

/// The documents in parts (GraphQL multipart request specification); `None` if there are none, or no parts.
fn in_parts(kind: &[u8], body: &[u8], fields: &[String]) -> Result<Option<u32>, UnreadableBody> {
    let mut found = None;
    for part in multipart_parts(kind, body).unwrap_or_default() {
        let is = |known: &str| part.names().any(|name| name.eq_ignore_ascii_case(known.as_bytes()));
        if is("query") || is("operations") {
            found = added(found, in_text(part.content, fields)?);
        }
    }
    Ok(found)
}

fn names_any(query: &[u8], names: &[&str]) -> bool {
    pairs(query).any(|(name, _)| names.iter().any(|known| is_called(name, known)))
}

/// Names and values between `&`, and between `;` as some servers read it.
fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let with_semicolons = memchr::memchr(b';', text).map(|_| split(text, b';'));
    split(text, b'&').chain(with_semicolons.into_iter().flatten()).map(name_and_value)
}

fn is_called(sent: &[u8], known: &str) -> bool {
    readings(sent).any(|name| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// All of them count: readers differ in which one of several they take.
fn added(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// What names a document that the server has: Apollo, Relay, Hot Chocolate, Mercurius, WPGraphQL.
const PERSISTED: [&str; 7] =
    ["extensions", "id", "queryId", "documentId", "doc_id", "operationId", "persisted"];

#[cfg(test)]
mod tests;
