//! Where in a request a value stands: `form:username`, `json:/user/email`, `query:NAME`, `header:NAME`, `basic`.
//!
//! It finds values and understands none. The surprising thing: what comes several times has several values, all of
//! them, because nobody knows which of them the application takes.

use http::HeaderName;
use smallvec::SmallVec;

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
    /// Whether it stands in the body.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self, Self::Form(_) | Self::Json(_))
    }
}

/// The values of all these fields together; empty if there is none.
///
/// # Errors
/// See [`NoValues`].
pub fn values(fields: &[Field], half: Half, attempt: &Attempt<'_>) -> Result<Values, NoValues> {
    let _ = half;
    let mut found = Values::default();
    for field in fields {
        match field {
            Field::Query(name) => {
                let pairs = query::pairs(attempt.query.unwrap_or_default());
                for (_, value) in pairs.filter(|(known, _)| *known == query::fold_name(name)) {
                    found.add(value.as_bytes())?;
                }
            }
            Field::Header(name) => {
                for value in attempt.headers.get_all(name) {
                    found.add(value.as_bytes())?;
                }
            }
            Field::Form(_) | Field::Json(_) if attempt.body != Body::Unread => {
                return Err(NoValues::Unreadable);
            }
            Field::Form(_) | Field::Json(_) | Field::Basic => {}
        }
    }
    Ok(found)
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

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Values({} hidden)", self.0.len())
    }
}
