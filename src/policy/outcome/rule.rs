//! One rule about an answer: conditions that must all hold.
//!
//! It does not know which list it stands in, nor what follows where it cannot be known whether it holds.

use std::ops::RangeInclusive;

use http::HeaderName;
use http::header::LOCATION;
use serde_json::Value;

use super::body::BodyView;
use super::glob::Glob;
use super::pointer::JsonPointer;
use super::{ResponseView, cookie};

/// Conditions that must all hold; one that is absent always does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutcomeRule {
    /// The answer's status is one of these.
    pub status: Option<Statuses>,
    /// There is a `Location` that this fits: as it was sent, or without scheme, host and fragment.
    pub location: Option<Glob>,
    /// A cookie is set, not deleted, whose name this fits.
    pub set_cookie: Option<Glob>,
    /// There is such a header; with a text, one whose value is that text.
    pub header: Option<(HeaderName, Option<String>)>,
    /// The body is JSON and holds something there, other than null; with a text, a scalar that is written like that.
    pub json: Option<(JsonPointer, Option<String>)>,
    /// The body holds this text somewhere in what is looked at. Bytes are compared, so letter case counts.
    pub body: Option<String>,
}

/// Some status codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl FromIterator<RangeInclusive<u16>> for Statuses {
    fn from_iter<I: IntoIterator<Item = RangeInclusive<u16>>>(ranges: I) -> Self {
        Self(ranges.into_iter().collect())
    }
}

impl Statuses {
    /// Whether this status is one of them.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }

    fn covers(&self, other: &Self) -> bool {
        other.0.iter().cloned().flatten().all(|status| self.contains(status))
    }
}

impl OutcomeRule {
    /// Whether it holds for every answer for which `other` does, as far as their words tell.
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

    /// Whether it looks into bodies.
    pub(super) fn reads_bodies(&self) -> bool {
        self.json.is_some() || self.body.is_some()
    }

    /// `None` if that depends on what is not known of the body.
    pub(super) fn holds(&self, answer: &ResponseView<'_>, page: &BodyView<'_>) -> Option<bool> {
        if !self.head_fits(answer) {
            return Some(false);
        }
        let text = match page {
            _ if !self.reads_bodies() => return Some(true),
            BodyView::NotRead | BodyView::Unreadable => return None,
            BodyView::Read(text) => text,
        };
        let json = self.json.as_ref().map_or(Some(true), |(pointer, equals)| {
            let document = text.json().ok()?;
            Some(document.is_some_and(|document| is_there(document, pointer, equals.as_deref())))
        });
        let body = self.body.as_ref().map_or(Some(true), |wanted| text.contains(wanted).ok());
        match (json, body) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (json, body) => Some(json? && body?),
        }
    }

    fn head_fits(&self, answer: &ResponseView<'_>) -> bool {
        let status = self.status.as_ref().is_none_or(|statuses| statuses.contains(answer.status.as_u16()));
        let location = || self.location.as_ref().is_none_or(|glob| leads_to(answer, glob));
        let cookie = || self.set_cookie.as_ref().is_none_or(|name| cookie::is_set(answer.headers, name));
        let header = || {
            self.header.as_ref().is_none_or(|(name, equals)| {
                let mut lines = answer.headers.get_all(name).iter();
                lines.any(|line| {
                    equals.as_ref().is_none_or(|text| line.as_bytes().trim_ascii() == text.as_bytes())
                })
            })
        };
        status && location() && cookie() && header()
    }
}

/// An absent condition covers every other.
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

fn leads_to(answer: &ResponseView<'_>, glob: &Glob) -> bool {
    let lines = answer.headers.get_all(LOCATION).iter().map(|line| line.as_bytes().trim_ascii());
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
