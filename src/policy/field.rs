//! Where in a request a value stands: `form:username`, `json:/user/email`, `query:NAME`, `header:NAME`, `basic`.
//!
//! It finds values and understands none. The surprising thing: what comes several times has several values, all of
//! them, because nobody knows which of them the application takes.

mod basic;
mod body;
mod encoding;
mod filter;
mod form;
mod json;
mod lenient;
mod lookup;
mod multipart;
mod name;

use http::HeaderName;
use smallvec::SmallVec;

pub(super) use self::filter::NameKinds;
pub(super) use self::lookup::{FieldNames, FieldSlots, MAX_NAME_READS, RequestFields};
use self::name::FieldName;
use super::attempt::{Attempt, AttemptBody};
use super::key::TooManyValues;

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
pub struct Values {
    found: SmallVec<[Vec<u8>; 1]>,
    is_unreadable: bool,
    is_beside_basic: bool,
}

/// Why there is no saying what stands in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldReadError {
    /// It can be read in several ways, or not at all.
    Unreadable,
    /// More values than could honestly be meant.
    TooMany(TooManyValues),
}

impl From<TooManyValues> for FieldReadError {
    fn from(error: TooManyValues) -> Self {
        Self::TooMany(error)
    }
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
    fn in_query(&self) -> Option<FieldName> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(FieldName::new(name)),
            Self::Json(pointer) => Some(FieldName::new(&json::members(pointer).join("_"))),
            Self::Header(_) | Self::Basic => None,
        }
    }

    /// Its name, if it is looked for in a form.
    fn in_body(&self) -> Option<FieldName> {
        if self.is_in_body() { self.in_query() } else { None }
    }

    /// The members that lead to it, if it is looked for in a document.
    fn members(&self) -> Option<Vec<String>> {
        match self {
            Self::Form(name) => Some(FieldName::members(name)),
            Self::Json(pointer) => Some(json::members(pointer)),
            Self::Query(_) | Self::Header(_) | Self::Basic => None,
        }
    }

    /// Its name, if it is looked for in the cookies.
    fn in_cookies(&self) -> Option<FieldName> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(FieldName::new(name)),
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
/// More values than could honestly be meant.
pub fn values(fields: &[Field], half: Half, attempt: &Attempt<'_>) -> Result<Values, TooManyValues> {
    let known = FieldNames::of(fields.iter());
    values_of(fields, &known.slots_for(fields), half, &RequestFields::with(attempt, &known))
}

/// The same where the names of all routes' fields are looked for at once.
pub(super) fn values_of(
    fields: &[Field],
    places: &FieldSlots,
    half: Half,
    sent: &RequestFields<'_>,
) -> Result<Values, TooManyValues> {
    let mut found = values_but_cookies(fields, places, half, sent)?;
    // A user name is remembered there, beside whatever is tried.
    found.is_beside_basic |= half == Half::Password && sent.has_in_cookies(places);
    sent.add_cookies(places, &mut found)?;
    Ok(found)
}

/// The same without what stands in cookies.
pub(super) fn values_but_cookies(
    fields: &[Field],
    places: &FieldSlots,
    half: Half,
    sent: &RequestFields<'_>,
) -> Result<Values, TooManyValues> {
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
            Field::Query(_) | Field::Form(_) | Field::Json(_) | Field::Basic => {}
        }
    }
    match attempt.body {
        _ if !fields.iter().any(Field::is_in_body) => {}
        AttemptBody::Unread => {}
        AttemptBody::TooLong => found.is_unreadable = true,
        AttemptBody::Whole(body) => body::find(fields, attempt.headers, body, &mut found)?,
    }
    found.is_beside_basic = found.is_unreadable || !found.is_empty();
    if fields.contains(&Field::Basic) {
        basic::find(attempt.headers, half, &mut found)?;
    }
    Ok(found)
}

/// Whether `Authorization: Basic` is there.
pub(super) fn has_basic(attempt: &Attempt<'_>) -> bool {
    basic::is_there(attempt.headers)
}

/// Whether one of these fields stands in a header, whatever its value.
pub(super) fn are_in_headers(fields: &[Field], attempt: &Attempt<'_>) -> bool {
    (fields.contains(&Field::Basic) && has_basic(attempt)) || are_in_own_headers(fields, attempt)
}

/// The same, but for what `Authorization: Basic` carries.
pub(super) fn are_in_own_headers(fields: &[Field], attempt: &Attempt<'_>) -> bool {
    fields.iter().any(|field| match field {
        Field::Header(name) => attempt.headers.keys().any(|known| is_read_as(known, name)),
        Field::Form(_) | Field::Json(_) | Field::Query(_) | Field::Basic => false,
    })
}

/// The names of some of these fields, as forms have them.
fn names<'f>(fields: &'f [Field], name: impl Fn(&'f Field) -> Option<FieldName>) -> SmallVec<[FieldName; 2]> {
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
        self.found.iter().map(Vec::as_slice)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether there may be others: the body can be read in several ways, or not at all.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Whether something that is tried stands, or may stand, elsewhere than in `Authorization: Basic`.
    pub(super) fn is_beside_basic(&self) -> bool {
        self.is_beside_basic
    }

    fn add(&mut self, value: &[u8]) -> Result<(), TooManyValues> {
        let value = shortened(value);
        if self.iter().any(|known| known == value) {
            return Ok(());
        }
        if self.found.len() >= TooManyValues::MAX_VALUES {
            return Err(TooManyValues);
        }
        self.found.push(value.to_vec());
        Ok(())
    }
}

/// A long one begins with its first letter: blanks in front of a name must not push it out.
fn shortened(value: &[u8]) -> &[u8] {
    if value.len() <= MAX_VALUE_BYTES {
        return value;
    }
    let value = value.trim_ascii_start();
    &value[..value.len().min(MAX_VALUE_BYTES)]
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Values({} hidden)", self.found.len())
    }
}

/// Bytes of a value that are looked at.
const MAX_VALUE_BYTES: usize = 4096;

#[cfg(test)]
mod readers;
#[cfg(test)]
mod tests;
