//! Headers that Envoy is told to set, add or remove, in the messages of its services.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, DATE, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use prost::Message;

use super::rate_limit::LEGACY;
use crate::defences::HEADERS;
use crate::proxy::headers::{FAILURES, RECEIPT, REFUSED, append_all};

/// `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AddedHeader {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
    /// In place of the value, where Envoy reads this one.
    #[prost(bytes = "vec", tag = "3")]
    raw_value: Vec<u8>,
}

/// `envoy.config.core.v3.HeaderValueOption`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderOption {
    #[prost(message, optional, tag = "1")]
    header: Option<AddedHeader>,
    /// Whether the header stays that is there already; every Envoy reads this field, and not its successor.
    #[prost(message, optional, tag = "2")]
    append: Option<bool>,
}

/// Which field of a header Envoy reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueField {
    /// `value`, which is text.
    Text,
    /// `raw_value`.
    Raw,
}

/// What is changed in the headers of a request on its way to the application.
#[derive(Debug, Default)]
pub(in crate::proxy) struct RequestChanges {
    /// What the application is told; in place of what the client sent.
    pub(super) set: HeaderMap,
    pub(super) remove: Vec<&'static str>,
}

impl AddedHeader {
    /// `None` if the value is no text.
    pub(super) fn new(name: &HeaderName, value: &HeaderValue) -> Option<Self> {
        Self::with(name, value, ValueField::Text)
    }

    fn with(name: &HeaderName, value: &HeaderValue, field: ValueField) -> Option<Self> {
        let name = name.as_str().to_owned();
        Some(match field {
            ValueField::Text => Self { name, value: value.to_str().ok()?.to_owned(), raw_value: Vec::new() },
            ValueField::Raw => Self { name, value: String::new(), raw_value: value.as_bytes().to_vec() },
        })
    }
}

impl HeaderOption {
    /// A header in addition to those of its name.
    pub(super) fn added(name: &HeaderName, value: &HeaderValue, field: ValueField) -> Option<Self> {
        Some(Self { header: Some(AddedHeader::with(name, value, field)?), append: Some(true) })
    }

    /// All of these, in place of those with their names.
    pub(super) fn all(headers: &HeaderMap, field: ValueField) -> Vec<Self> {
        let mut latest = None;
        let mut option = |(name, value)| {
            let header = AddedHeader::with(name, value, field)?;
            // The lines of a name follow each other.
            let append = latest.replace(name) == Some(name);
            Some(Self { header: Some(header), append: Some(append) })
        };
        headers.iter().filter_map(&mut option).collect()
    }

    /// Limits next to those of the application: a list may have several lines, a number has one.
    pub(super) fn of_limits(shown: &HeaderMap, field: ValueField) -> Vec<Self> {
        let option = |(name, value): (&HeaderName, &HeaderValue)| {
            let is_list = !LEGACY.contains(name);
            Some(Self { header: Some(AddedHeader::with(name, value, field)?), append: Some(is_list) })
        };
        shown.iter().filter_map(option).collect()
    }
}

impl RequestChanges {
    /// The application is told what is said in the answer of an endpoint, and nothing of it by the client.
    /// `cookies`: the lines of `Cookie` that pass, if not all do.
    pub(in crate::proxy) fn of(answer: &HeaderMap, cookies: Option<Vec<HeaderValue>>) -> Self {
        let mut changes = Self::default();
        for told in OWN.iter().map(HeaderName::as_str).chain(HEADERS.iter().copied()) {
            let known = changes.set.len();
            append_all_of(&mut changes.set, answer, |name| name.as_str() == told);
            if changes.set.len() == known {
                changes.remove.push(told);
            }
        }
        if let Some(cookies) = cookies {
            changes.remove.extend(cookies.is_empty().then_some("cookie"));
            changes.set.extend(cookies.into_iter().map(|line| (COOKIE, line)));
        }
        changes
    }

    /// The names of what is removed, for a message.
    pub(super) fn removed(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    /// Makes these changes.
    pub(in crate::proxy) fn apply(self, headers: &mut HeaderMap) {
        self.remove.iter().for_each(|name| drop(headers.remove(*name)));
        self.set.keys().for_each(|name| drop(headers.remove(name)));
        append_all(headers, self.set);
    }
}

/// What a client gets of the head of an answer: not the framing, which Envoy makes.
pub(in crate::proxy) fn without_framing(mut headers: HeaderMap) -> HeaderMap {
    for name in [CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}

/// The limits that the answer to an admitted attempt shows.
pub(in crate::proxy) fn shown_limits(answer: &HeaderMap) -> HeaderMap {
    let mut shown = HeaderMap::new();
    append_all_of(&mut shown, answer, super::rate_limit::shows_limits);
    shown
}

fn append_all_of(headers: &mut HeaderMap, answer: &HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    for (name, value) in answer.iter().filter(|(name, _)| is_meant(name)) {
        headers.append(name.clone(), value.clone());
    }
}

/// Shows these limits in the head of an answer. The application's own lists stay: a list may have several lines, a number
/// has one.
pub(in crate::proxy) fn show_limits(headers: &mut HeaderMap, shown: HeaderMap) {
    shown.keys().filter(|name| LEGACY.contains(name)).for_each(|name| drop(headers.remove(name)));
    append_all(headers, shown);
}

/// What an application is told apart from the headers of defences.
static OWN: [HeaderName; 3] = [RECEIPT, REFUSED, FAILURES];
