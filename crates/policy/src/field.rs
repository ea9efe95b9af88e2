//! Fields of a request: `form:username`, `json:/user/email`, `query:NAME`, `header:NAME`, `basic`, `ntlm`, `negotiate`.
//!
//! It finds values and interprets none. A field that is sent several times has several values, and all of them count,
//! because applications differ in which one they take.

mod authorization;
mod basic;
mod body;
mod body_fields;
mod encoding;
mod filter;
mod form;
mod json;
mod lenient;
mod lookup;
mod member;
mod multipart;
mod name;
mod nesting;
mod ntlm;
mod part_charset;

use http::{HeaderMap, HeaderName};
use smallvec::{SmallVec, smallvec};

use self::body_fields::FoundInBody;
pub(super) use self::filter::NameKinds;
pub use self::lookup::BodySearch;
pub(super) use self::lookup::{FieldNames, FieldSlots, MAX_NAME_READS, RequestFields};
pub(super) use self::multipart::parts as multipart_parts;
use self::name::FieldName;
pub(super) use self::nesting::is_too_deep;
use super::attempt::{Attempt, AttemptBody};
use super::key::{MAX_VALUES, TooManyValues};

/// The location of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A field of a form in the body, urlencoded or multipart.
    Form(String),
    /// The target of a JSON pointer (RFC 6901) in the body.
    Json(String),
    /// A parameter of the query.
    Query(String),
    /// A header.
    Header(HeaderName),
    /// `Authorization: Basic` (RFC 7617).
    Basic,
    /// `Authorization: NTLM` ([MS-NTHT]).
    Ntlm,
    /// `Authorization: Negotiate` (RFC 4559), if it carries NTLM.
    Negotiate,
}

/// A half of `Authorization: Basic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// The part before the colon.
    User,
    /// The part after the colon.
    Password,
}

/// The distinct values of some fields, at most eight; its `Debug` form hides them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values {
    found: SmallVec<[Vec<u8>; 1]>,
    is_unreadable: bool,
    is_beside_authorization: bool,
}

/// Passwords, which are overwritten when they are dropped.
#[derive(Debug, Clone)]
pub(super) struct Passwords(pub(super) Values);

impl Field {
    /// A field of a form; `None` if a form cannot have a field of this name. Case and the number of separators between
    /// words do not matter.
    #[must_use]
    pub fn form(name: &str) -> Option<Self> {
        name::is_name(name).then(|| Self::Form(name.to_owned()))
    }

    /// A parameter of the query; `None` as for a form.
    #[must_use]
    pub fn query(name: &str) -> Option<Self> {
        name::is_name(name).then(|| Self::Query(name.to_owned()))
    }

    /// The target of a JSON pointer; `None` if it is not a pointer (RFC 6901, section 3), or points to the whole
    /// document.
    #[must_use]
    pub fn json(pointer: &str) -> Option<Self> {
        json::is_pointer(pointer).then(|| Self::Json(pointer.to_owned()))
    }

    /// The field's name in the query, if it is looked up there. Frameworks that accept JSON merge its members with the
    /// query.
    fn in_query(&self) -> Option<FieldName> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(FieldName::new(name)),
            Self::Json(pointer) => Some(FieldName::new(&json::members(pointer).join("_"))),
            Self::Header(_) | Self::Basic | Self::Ntlm | Self::Negotiate => None,
        }
    }

    /// The members that lead to the field in a document, if it is looked up there.
    fn members(&self) -> Option<Vec<String>> {
        match self {
            Self::Form(name) => Some(FieldName::members(name)),
            Self::Json(pointer) => Some(json::members(pointer)),
            Self::Query(_) | Self::Header(_) | Self::Basic | Self::Ntlm | Self::Negotiate => None,
        }
    }

    /// The field's name in cookies, if it is looked up there.
    fn in_cookies(&self) -> Option<FieldName> {
        match self {
            Self::Query(name) | Self::Form(name) => Some(FieldName::new(name)),
            Self::Json(_) | Self::Header(_) | Self::Basic | Self::Ntlm | Self::Negotiate => None,
        }
    }

    /// Whether the field is a header, or a part of one.
    #[must_use]
    pub fn is_header(&self) -> bool {
        matches!(self, Self::Header(_)) || self.is_in_authorization()
    }

    /// Whether the field is in `Authorization`.
    #[must_use]
    pub fn is_in_authorization(&self) -> bool {
        matches!(self, Self::Basic | Self::Ntlm | Self::Negotiate)
    }

    /// Whether the field is in the body.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self, Self::Form(_) | Self::Json(_))
    }
}

/// The values of all these fields together; empty if there is none.
///
/// A field of a form is looked up in the query and in the cookies as well: most frameworks merge body and query
/// (`getParameter`, `params`, `FormValue`), PHP without a php.ini and ASP all three (`$_REQUEST`, `Request`). A cookie
/// that remembers another name than the form's is a further account: an application that reads the cookie first ignores
/// the name in the form.
///
/// # Errors
/// [`TooManyValues`] beyond eight values.
pub fn values(fields: &[Field], half: Half, attempt: &Attempt<'_>) -> Result<Values, TooManyValues> {
    let field_names = FieldNames::of(fields.iter());
    let slots = field_names.slots_for(fields);
    values_of(fields, &slots, half, &RequestFields::with(attempt, &field_names))
}

/// As [`values`], with the look-up of all routes' field names shared.
pub(super) fn values_of(
    fields: &[Field],
    slots: &FieldSlots,
    half: Half,
    request: &RequestFields<'_>,
) -> Result<Values, TooManyValues> {
    let mut found = values_but_cookies(fields, slots, half, request)?;
    // A user name in a cookie is only remembered and no guess.
    found.is_beside_authorization |= half == Half::Password && request.has_in_cookies(slots);
    request.add_cookies(slots, &mut found)?;
    Ok(found)
}

/// As [`values_of`], without cookies.
pub(super) fn values_but_cookies(
    fields: &[Field],
    slots: &FieldSlots,
    half: Half,
    request: &RequestFields<'_>,
) -> Result<Values, TooManyValues> {
    let attempt = request.attempt;
    let mut found = Values::default();
    request.add_query(slots, &mut found)?;
    add_headers(fields, attempt, &mut found)?;
    request.add_body(slots, &mut found)?;
    found.is_beside_authorization = found.is_unreadable || !found.is_empty();
    authorization::find(fields, attempt.headers, half, &mut found)?;
    Ok(found)
}

/// Whether the request has values only where an application may look for these fields too: in the query of a field of a
/// body, or in a cookie.
pub(super) fn are_out_of_place(
    fields: &[Field],
    slots: &FieldSlots,
    half: Half,
    request: &RequestFields<'_>,
) -> Result<bool, TooManyValues> {
    let is_in_query = request.has_in_query(slots);
    let is_named = is_in_query && fields.iter().any(|field| matches!(field, Field::Query(_)));
    if is_named || !(is_in_query || request.has_in_cookies(slots)) {
        return Ok(false);
    }
    let mut in_place = Values::default();
    add_headers(fields, request.attempt, &mut in_place)?;
    request.add_body(slots, &mut in_place)?;
    authorization::find(fields, request.attempt.headers, half, &mut in_place)?;
    Ok(in_place.is_empty())
}

fn add_headers(fields: &[Field], attempt: &Attempt<'_>, found: &mut Values) -> Result<(), TooManyValues> {
    for field in fields {
        if let Field::Header(name) = field {
            for (_, value) in attempt.headers.iter().filter(|(sent, _)| is_read_as(sent, name)) {
                found.add(value.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Whether a body with these headers may be read as it is; if not, whatever it holds is unreadable.
pub(super) fn is_legible_by_head(headers: &HeaderMap) -> bool {
    body::is_legible_by_head(headers)
}

/// Whether the request has an `Authorization` that may be a guess.
pub(super) fn has_authorization(attempt: &Attempt<'_>) -> bool {
    authorization::is_there(attempt.headers)
}

/// Whether one of these fields is in a header, with any value; `Authorization` is left out.
pub(super) fn are_in_own_headers(fields: &[Field], attempt: &Attempt<'_>) -> bool {
    fields.iter().any(|field| match field {
        Field::Header(name) => attempt.headers.keys().any(|sent| is_read_as(sent, name)),
        _ => false,
    })
}

/// Whether CGI and its successors read one header as the other: they pass headers as environment variables, with
/// underscores in their names.
fn is_read_as(sent: &HeaderName, field: &HeaderName) -> bool {
    let folded = |name: &HeaderName| name.as_str().replace('_', "-");
    sent == field || folded(sent) == folded(field)
}

impl RequestFields<'_> {
    /// What the body holds for all fields.
    pub(crate) fn search_body(attempt: &Attempt<'_>, field_names: &FieldNames) -> FoundInBody {
        match attempt.body {
            AttemptBody::Whole(bytes) => body::find(field_names, attempt.headers, bytes),
            AttemptBody::Searched(searched) => body::find(field_names, attempt.headers, searched.bytes),
            AttemptBody::Unread | AttemptBody::TooLong | AttemptBody::Unsaid => FoundInBody::default(),
        }
    }

    /// Adds the values in the body.
    pub(super) fn add_body(&self, slots: &FieldSlots, values: &mut Values) -> Result<(), TooManyValues> {
        if slots.in_body.is_empty() {
            return Ok(());
        }
        match self.attempt.body {
            AttemptBody::Unread => Ok(()),
            AttemptBody::TooLong | AttemptBody::Unsaid => {
                values.is_unreadable = true;
                Ok(())
            }
            AttemptBody::Whole(_) | AttemptBody::Searched(_) => {
                let search = || Self::search_body(self.attempt, self.field_names);
                let found = match self.searched() {
                    Some(known) => known.fields(search),
                    None => self.body.get_or_init(search),
                };
                found.copy_values(&slots.in_body, values)
            }
        }
    }
}

impl Values {
    /// A single value.
    pub(super) fn of(value: &[u8]) -> Self {
        Self {
            found: smallvec![shortened(value).to_vec()],
            is_unreadable: false,
            is_beside_authorization: true,
        }
    }

    /// The values, decoded as by the application.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.found.iter().map(Vec::as_slice)
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether there may be other values: the body can be read in several ways, or not at all.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Whether a guess is, or may be, elsewhere than in `Authorization`.
    pub(super) fn is_beside_authorization(&self) -> bool {
        self.is_beside_authorization
    }

    /// Overwrites the values, which may be passwords.
    pub(super) fn wipe(&mut self) {
        self.found.iter_mut().for_each(zeroize::Zeroize::zeroize);
    }

    fn add(&mut self, value: &[u8]) -> Result<(), TooManyValues> {
        let value = shortened(value);
        // Comparing nothing with nothing takes long where `memcmp` loads from the address of an empty value (glibc's for
        // AVX-512).
        let is_same = |known: &[u8]| known.len() == value.len() && (value.is_empty() || known == value);
        if self.iter().any(is_same) {
            return Ok(());
        }
        if self.found.len() >= MAX_VALUES {
            return Err(TooManyValues);
        }
        self.found.push(value.to_vec());
        Ok(())
    }
}

impl Passwords {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter()
    }
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// The beginning of a long value, without leading blanks: they must not push the name out.
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

/// Bytes of a value that are read at most.
const MAX_VALUE_BYTES: usize = 4096;

#[cfg(test)]
mod readers;
#[cfg(test)]
mod tests;
