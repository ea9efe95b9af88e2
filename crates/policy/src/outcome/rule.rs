//! One rule about a response: conditions that must all hold.
//!
//! It does not know its list; [`OutcomeRules`](super::OutcomeRules) decides what an undecided rule means.

use http::HeaderName;
use http::header::LOCATION;
use serde_json::Value;

use crate::response::body::BodyView;
use crate::response::{Glob, JsonPointer, ResponseView, Statuses, cookie};

/// Conditions that must all hold; an absent condition always holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutcomeRule {
    /// The status is one of these.
    pub status: Option<Statuses>,
    /// A `Location` matches: as sent, or without scheme, host and fragment.
    pub location: Option<Glob>,
    /// A cookie with a matching name is set, not deleted.
    pub set_cookie: Option<Glob>,
    /// The header is present; with a text, one of its values equals the text.
    pub header: Option<(HeaderName, Option<String>)>,
    /// The body is JSON with a value other than null at the pointer; with a text, a scalar that is written as the text.
    pub json: Option<(JsonPointer, Option<String>)>,
    /// The read part of the body contains this text. Bytes are compared, so case matters.
    pub body: Option<String>,
    /// How many failures more than one a failure by this rule counts as.
    pub extra: u32,
}

impl OutcomeRule {
    /// Whether it holds for every response for which `other` does, as far as their texts show.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let status = covers(&self.status, &other.status, Statuses::covers);
        let lines = covers(&self.location, &other.location, Glob::eq)
            && covers(&self.set_cookie, &other.set_cookie, Glob::eq)
            && covers(&self.body, &other.body, String::eq);
        let header = covers(&self.header, &other.header, |one, two| {
            one.0 == two.0 && (one.1.is_none() || one.1 == two.1)
        });
        let json = covers(&self.json, &other.json, |one, two| {
            let any = one.1.is_none() && two.1.as_deref() != Some("null");
            one.0 == two.0 && (any || one.1 == two.1)
        });
        status && lines && header && json
    }

    /// Whether it reads bodies.
    pub(super) fn reads_bodies(&self) -> bool {
        self.json.is_some() || self.body.is_some()
    }

    /// Whether the rule holds; `None` if that depends on unread parts of the body.
    pub(super) fn holds(&self, response: &ResponseView<'_>, view: &BodyView<'_>) -> Option<bool> {
        if !self.head_fits(response) {
            return Some(false);
        }
        let text = match view {
            _ if !self.reads_bodies() => return Some(true),
            BodyView::NotRead | BodyView::Unreadable => return None,
            BodyView::Read(text) => text,
        };
        let json = self.json.as_ref().map_or(Some(true), |(pointer, equals)| {
            let document = text.json().ok()?;
            Some(document.is_some_and(|document| is_there(document, pointer, equals.as_deref())))
        });
        let body = self.body.as_ref().map_or(Some(true), |part| text.contains(part).ok());
        match (json, body) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (json, body) => Some(json? && body?),
        }
    }

    fn head_fits(&self, response: &ResponseView<'_>) -> bool {
        let status = self.status.as_ref().is_none_or(|statuses| statuses.contains(response.status.as_u16()));
        let location = || self.location.as_ref().is_none_or(|glob| leads_to(response, glob));
        let cookie = || self.set_cookie.as_ref().is_none_or(|name| cookie::is_set(response.headers, name));
        let header = || {
            self.header.as_ref().is_none_or(|(name, equals)| {
                let mut lines = response.headers.get_all(name).iter();
                lines.any(|line| {
                    equals.as_ref().is_none_or(|text| line.as_bytes().trim_ascii() == text.as_bytes())
                })
            })
        };
        status && location() && cookie() && header()
    }
}

/// Whether one condition covers another; an absent condition covers every other.
fn covers<T>(one: &Option<T>, other: &Option<T>, than: impl Fn(&T, &T) -> bool) -> bool {
    one.as_ref().is_none_or(|one| other.as_ref().is_some_and(|other| than(one, other)))
}

fn is_there(document: &Value, pointer: &JsonPointer, equals: Option<&str>) -> bool {
    let Some(value) = pointer.find(document) else { return false };
    let Some(text) = equals else { return !value.is_null() };
    match value {
        Value::String(string) => string == text,
        Value::Array(_) | Value::Object(_) => false,
        scalar => {
            let written = scalar.to_string();
            written == text
        }
    }
}

fn leads_to(response: &ResponseView<'_>, glob: &Glob) -> bool {
    let lines = response.headers.get_all(LOCATION).iter().map(|line| line.as_bytes().trim_ascii());
    lines.into_iter().any(|line| glob.matches(line) || glob.matches(&path_and_query(line)))
}

/// A reference (RFC 3986, section 4.1) without scheme, authority and fragment.
fn path_and_query(reference: &[u8]) -> Vec<u8> {
    let reference = reference.split(|&byte| byte == b'#').next().unwrap_or_default();
    let Some(rest) = after_scheme(reference).strip_prefix(b"//") else { return reference.to_vec() };
    let authority = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let path = rest.get(authority..).unwrap_or_default();
    if path.starts_with(b"/") { path.to_vec() } else { [b"/", path].concat() }
}

fn after_scheme(reference: &[u8]) -> &[u8] {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let length = reference.iter().take_while(|byte| is_letter(byte)).count();
    match reference.split_at_checked(length) {
        Some((scheme, [b':', rest @ ..])) if !scheme.is_empty() => rest,
        _ => reference,
    }
}
