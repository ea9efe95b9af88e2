//! Where in a request a value stands: `form:username`, `json:/user/email`, `query:NAME`, `header:NAME`, `basic`.
//!
//! It finds values and understands none. The surprising thing: what comes several times has several values, all of
//! them, because nobody knows which of them the application takes.

mod basic;
mod body;
mod form;
mod json;
mod known;
mod multipart;
mod name;

use http::HeaderName;
use smallvec::SmallVec;

pub(super) use self::known::{Known, Places, Sent};
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

    /// Its name, if it is looked for in the query. Frameworks that take JSON hand out its members and the query as one.
    fn in_query(&self) -> Option<Name> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(Name::new(name)),
            Self::Json(pointer) => Some(Name::new(&json::members(pointer).join("_"))),
            Self::Header(_) | Self::Basic => None,
        }
    }

    /// Its name, if it is looked for in the cookies.
    fn in_cookies(&self) -> Option<Name> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(Name::new(name)),
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
/// A field of a form is looked for in the query and in the cookies as well: most frameworks hand out body and query as one
/// (`getParameter`, `params`, `FormValue`), PHP without a php.ini and ASP all three (`$_REQUEST`, `Request`). A cookie that
/// remembers another name than the one that was typed is one more account: an application that takes the cookie first does
/// not know the one in the form.
///
/// # Errors
/// See [`NoValues`].
pub fn values(fields: &[Field], half: Half, attempt: &Attempt<'_>) -> Result<Values, NoValues> {
    let known = Known::of(fields.iter());
    values_of(fields, &known.places(fields), half, &Sent::with(attempt, &known))
}

/// The same where the names of all routes' fields are looked for at once.
pub(super) fn values_of(
    fields: &[Field],
    places: &Places,
    half: Half,
    sent: &Sent<'_>,
) -> Result<Values, NoValues> {
    let mut found = values_but_cookies(fields, places, half, sent)?;
    sent.add_cookies(places, &mut found)?;
    Ok(found)
}

/// The same without what stands in cookies.
pub(super) fn values_but_cookies(
    fields: &[Field],
    places: &Places,
    half: Half,
    sent: &Sent<'_>,
) -> Result<Values, NoValues> {
    let attempt = sent.attempt;
    let mut found = Values::default();
    sent.add_query(places, &mut found)?;
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivateNames(Known);

impl PrivateNames {
    /// Those of these fields, as far as they are looked for in a query.
    pub(super) fn of<'f>(fields: impl Iterator<Item = &'f Field>) -> Self {
        Self(Known::of(fields))
    }

    pub(super) fn known(&self) -> &Known {
        &self.0
    }

    /// Whether a parameter, its name as it was sent, would be read as one of the fields, or sounds like a password.
    #[must_use]
    pub fn contain(&self, sent: &str) -> bool {
        query::could_be_a_password(sent) || self.0.has(sent.as_bytes())
    }
}

/// Whether one of these fields stands in a header, whatever its value.
pub(super) fn are_in_headers(fields: &[Field], attempt: &Attempt<'_>) -> bool {
    fields.iter().any(|field| match field {
        Field::Header(name) => attempt.headers.keys().any(|known| is_read_as(known, name)),
        Field::Basic => basic::is_there(attempt.headers),
        Field::Form(_) | Field::Json(_) | Field::Query(_) => false,
    })
}

/// The names of some of these fields, as forms have them.
fn names<'f>(fields: &'f [Field], name: impl Fn(&'f Field) -> Option<Name>) -> SmallVec<[Name; 2]> {
    fields.iter().filter_map(name).collect()
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
