//! The response to a request, as rules see it.
//!
//! It reads heads and the beginnings of bodies. What they mean for an attempt is left to [`outcome`](super::outcome).

pub(super) mod body;
mod charset;
mod coding;
pub(super) mod cookie;
mod date;
mod glob;
mod pointer;

use std::fmt;
use std::ops::RangeInclusive;

use http::{HeaderMap, Method, StatusCode};

pub use self::glob::Glob;
pub use self::pointer::JsonPointer;

/// The head of a response, and the method of its request.
#[derive(Debug, Clone, Copy)]
pub struct ResponseView<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// The status of the response.
    pub status: StatusCode,
    /// The headers of the response, as the application sent them.
    pub headers: &'a HeaderMap,
}

/// The read part of a response body.
#[derive(Clone, Copy)]
pub struct BodyPrefix<'a> {
    /// The first bytes as received, encoded as the headers declare.
    pub bytes: &'a [u8],
    /// Whether the body is complete.
    pub complete: bool,
}

/// Some status codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl BodyPrefix<'_> {
    /// Bytes of a body that are read at most, before and after decoding.
    pub const MAX: usize = 64 * 1024;
    /// A body of which nothing is known.
    pub const UNREAD: BodyPrefix<'static> = BodyPrefix { bytes: &[], complete: false };
}

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

    /// Whether it has all of the other's.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.0.iter().cloned().flatten().all(|status| self.contains(status))
    }
}

impl fmt::Debug for BodyPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyPrefix({} bytes, complete: {})", self.bytes.len(), self.complete)
    }
}
