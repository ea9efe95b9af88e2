//! What several admin pages read of a request: a bounded body, JSON fields, a query, an escaped path.
//!
//! An unknown field is a mistake: it may be misspelt.

use std::error::Error;

use http::StatusCode;
use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::{Body, Bytes};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use tollgate_grammar::Mistake;

use super::response::{AdminResponse, problem};

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct AdminProblem {
    pub(super) status: StatusCode,
    pub(super) detail: String,
}

impl AdminProblem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }
}

impl From<AdminProblem> for AdminResponse {
    fn from(AdminProblem { status, detail }: AdminProblem) -> Self {
        problem(status, &detail)
    }
}

impl From<Mistake> for AdminProblem {
    fn from(mistake: Mistake) -> Self {
        wrong(mistake.to_string())
    }
}

/// The whole body.
pub(super) async fn body_of<B>(body: B, max_len: usize) -> Result<Bytes, AdminProblem>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let too_long = || {
        let detail = format!("a body has to arrive whole and may have {} KiB", max_len / 1024);
        AdminProblem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    // A length that is told is refused before a byte is read.
    if body.size_hint().lower() > max_len as u64 {
        return Err(too_long());
    }
    Limited::new(body, max_len).collect().await.map(Collected::to_bytes).map_err(|_| too_long())
}

/// The fields of a JSON object; none if the body is empty.
pub(super) async fn fields_of<B>(body: B) -> Result<Map<String, Value>, AdminProblem>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    parse_fields(&body_of(body, MAX_BODY_LEN).await?)
}

pub(super) fn parse_fields(body: &[u8]) -> Result<Map<String, Value>, AdminProblem> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    // The parser's own message may quote what was sent; the position is enough.
    serde_json::from_slice(body).map_err(|error| {
        wrong(format!("the body is not a JSON object: line {}, column {}", error.line(), error.column()))
    })
}

/// Refuses fields that a request has no use for.
pub(super) fn has_only(fields: &Map<String, Value>, known: &[&str]) -> Result<(), AdminProblem> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(wrong(format!("`{}` means nothing here", name.escape_debug()))),
        None => Ok(()),
    }
}

/// A field with text, if it is there; `what` says what it has to be.
pub(super) fn optional_text<'f>(
    fields: &'f Map<String, Value>,
    name: &str,
    what: &str,
) -> Result<Option<&'f str>, AdminProblem> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(format!("`{name}` has to be {what}"))),
    }
}

/// A field with text.
pub(super) fn text<'f>(
    fields: &'f Map<String, Value>,
    name: &str,
    what: &str,
) -> Result<&'f str, AdminProblem> {
    optional_text(fields, name, what)?.ok_or_else(|| wrong(format!("`{name}` has to be {what}")))
}

/// Names and values of a query.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, AdminProblem> {
    let decoded = |text: &str| {
        let bytes: Vec<u8> = percent_decode_str(&text.replace('+', " ")).collect();
        String::from_utf8(bytes).map_err(|_| wrong("the query is not UTF-8"))
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// A part of a path with its escapes decoded.
pub(super) fn unescaped(part: &str) -> Result<String, AdminProblem> {
    let is_escape = |rest: &str| {
        rest.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    if !part.split('%').skip(1).all(is_escape) {
        return Err(wrong("the path holds a percent sign that escapes nothing"));
    }
    String::from_utf8(percent_decode_str(part).collect()).map_err(|_| wrong("the path is not UTF-8"))
}

pub(super) fn wrong(detail: impl Into<String>) -> AdminProblem {
    AdminProblem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
}

/// Bytes of a body with fields.
pub(super) const MAX_BODY_LEN: usize = 64 * 1024;
