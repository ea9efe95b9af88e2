//! Where in a request a value stands: `form:username`, `json:/user/email`, `query:NAME`, `header:NAME`, `basic`.
//!
//! It finds values and understands none. The surprising thing: what comes several times has several values, all of
//! them, because nobody knows which of them the application takes.

mod basic;
mod body;
mod form;
mod json;
mod multipart;
mod name;

use http::HeaderName;
use smallvec::SmallVec;

use self::name::Name;
use super::attempt::{Attempt, Body};
use super::key::TooManyValues;
use super::query;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A field of a form in the body, urlencoded or multipart.
    Form(String),
    /// What a JSON pointer (RFC 6901) finds in the body.
    Json(String),
    /// A parameter of the query.
    Query(String),
    /// A header.
    Header(HeaderName),
    /// `Authorization: Basic` (RFC 7617).
    Basic,
}

/// Which half of `Authorization: Basic` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// What stands before the colon.
    User,
    /// What stands behind it.
    Password,
}

/// The distinct values of some fields, at most eight; never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values(SmallVec<[Vec<u8>; 1]>);

/// Why nobody can say what stands in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoValues {
    /// The body can be read in several ways, or not at all.
    #[error("the body cannot be read")]
    Unreadable,
    /// More values than could honestly be meant.
    #[error(transparent)]
    TooMany(#[from] TooManyValues),
}

impl Field {
    /// A field of a form; `None` if a form has no fields of this name. Upper and lower case, and the number of
    /// separators between its words, make no difference.
    #[must_use]
    pub fn form(name: &str) -> Option<Self> {
        name::is_name(name).then(|| Self::Form(name.to_owned()))
    }

    /// A parameter of the query; `None` as for a form.
    #[must_use]
    pub fn query(name: &str) -> Option<Self> {
        name::is_name(name).then(|| Self::Query(name.to_owned()))
    }

    /// What this pointer finds; `None` if it is none (RFC 6901, section 3), or if it means the whole document.
    #[must_use]
    pub fn json(pointer: &str) -> Option<Self> {
        json::is_pointer(pointer).then(|| Self::Json(pointer.to_owned()))
    }

    /// Its name, if it is looked for in the query.
    fn in_query(&self) -> Option<&String> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(name),
            Self::Json(_) | Self::Header(_) | Self::Basic => None,
        }
    }

    /// Whether it stands in the body.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self, Self::Form(_) | Self::Json(_))
    }
}

/// The values of all these fields together; empty if there is none.
///
/// A field of a form is looked for in the query as well: most frameworks hand out both as one (`$_REQUEST`,
/// `getParameter`, `params`, `FormValue`).
///
/// # Errors
/// See [`NoValues`].
pub fn values(fields: &[Field], half: Half, attempt: &Attempt<'_>) -> Result<Values, NoValues> {
    let mut found = Values::default();
    if let Some(query) = attempt.query {
        form::find(query.as_bytes(), &names(fields, Field::in_query), &mut found)?;
    }
    for field in fields {
        match field {
            Field::Header(name) => {
                for (_, value) in attempt.headers.iter().filter(|(known, _)| is_read_as(known, name)) {
                    found.add(value.as_bytes())?;
                }
            }
            Field::Basic => basic::find(attempt.headers, half, &mut found)?,
            Field::Query(_) | Field::Form(_) | Field::Json(_) => {}
        }
    }
    match attempt.body {
        _ if !fields.iter().any(Field::is_in_body) => {}
        Body::Unread => {}
        Body::TooLong => return Err(NoValues::Unreadable),
        Body::Whole(body) => body::find(fields, attempt.headers, body, &mut found)?,
    }
    Ok(found)
}

/// Names of parameters whose values are nobody's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateNames(Vec<Name>);

impl PrivateNames {
    /// Those of these fields, as far as they are looked for in a query.
    pub(super) fn of<'f>(fields: impl Iterator<Item = &'f Field>) -> Self {
        let mut written: Vec<&str> = fields.filter_map(Field::in_query).map(String::as_str).collect();
        written.sort_unstable();
        written.dedup();
        Self(written.into_iter().map(Name::new).collect())
    }

    /// Whether a parameter, its name as it was sent, would be read as one of the fields, or sounds like a password.
    #[must_use]
    pub fn contain(&self, sent: &str) -> bool {
        query::sounds_like_a_password(&query::decode(sent).to_lowercase())
            || form::is_one_of(sent.as_bytes(), &self.0)
    }
}

/// What of a query could be a value of one of these fields: all that they have to look at.
pub(super) fn narrowed<'f>(query: &str, fields: impl Iterator<Item = &'f Field>) -> String {
    form::narrowed(query, &PrivateNames::of(fields).0)
}

/// The names of some of these fields, as forms have them.
fn names<'f>(fields: &'f [Field], name: impl Fn(&'f Field) -> Option<&'f String>) -> SmallVec<[Name; 2]> {
    fields.iter().filter_map(name).map(|name| Name::new(name)).collect()
}

/// CGI and its heirs know headers as environment variables, whose names have underscores.
fn is_read_as(known: &HeaderName, wanted: &HeaderName) -> bool {
    let folded = |name: &HeaderName| name.as_str().replace('_', "-");
    known == wanted || folded(known) == folded(wanted)
}

impl Values {
    /// Each of them, as the application would see it after decoding.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, value: &[u8]) -> Result<(), TooManyValues> {
        let value = shortened(value);
        if self.iter().any(|known| known == value) {
            return Ok(());
        }
        if self.0.len() >= TooManyValues::MOST {
            return Err(TooManyValues);
        }
        self.0.push(value.to_vec());
        Ok(())
    }
}

/// A long one begins with its first letter: blanks in front of a name must not push it out.
fn shortened(value: &[u8]) -> &[u8] {
    if value.len() <= LONGEST {
        return value;
    }
    let value = value.trim_ascii_start();
    &value[..value.len().min(LONGEST)]
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Values({} hidden)", self.0.len())
    }
}

/// Bytes of a value that are looked at.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests;
