//! What several targets share: the values of a field in a request that consists of a body.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::field::{Field, Half, values};

/// The values of a field.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// At most eight values.
    Values(Vec<Vec<u8>>),
    /// More than eight.
    TooMany,
    /// The body cannot be read.
    Unreadable,
}

/// A field of a form.
///
/// # Panics
/// If it has no name.
#[must_use]
pub fn form(name: &str) -> Field {
    Field::form(name).expect("a name")
}

/// A pointer into a JSON document.
///
/// # Panics
/// If it is no pointer.
#[must_use]
pub fn json(pointer: &str) -> Field {
    Field::json(pointer).expect("a pointer")
}

/// The values of a field in a body of this type.
#[must_use]
pub fn read(field: &Field, kind: &'static str, body: &[u8]) -> Answer {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
    let attempt = Attempt {
        method: &Method::POST,
        path: "/",
        query: None,
        host: "",
        client: Client::UnixSocket,
        headers: &headers,
        body: AttemptBody::Whole(body),
        descriptor: None,
        tls: None,
    };
    match values(std::slice::from_ref(field), Half::User, &attempt) {
        Ok(found) if found.is_unreadable() => Answer::Unreadable,
        Ok(found) => Answer::Values(found.iter().map(<[u8]>::to_vec).collect()),
        Err(_) => Answer::TooMany,
    }
}
