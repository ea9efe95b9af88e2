//! The method of a pattern, and the methods that an application may read a request as.
//!
//! It compares methods and knows no route: [`inspection`](super::inspection) decides what a GET or an OPTIONS carries.

use http::Method;

/// One reading of a request's method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodReading {
    /// The method as sent.
    AsSent,
    /// As a write, because of what the request carries.
    AsWrite,
    /// As a GET, because of a method override.
    AsGet,
}

/// All readings of one request's method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MethodReadings {
    pub(super) as_sent: bool,
    pub(super) as_write: bool,
    pub(super) as_get: bool,
}

/// The method of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum MethodRule {
    /// Fits every method.
    Any,
    /// `POST` fits every method that can carry a form: applications read PUT, OPTIONS or invented methods as POST.
    Write,
    /// Fits this method; GET fits HEAD, too.
    Exact(Method),
}

impl MethodReadings {
    /// No reading: the request is not an attempt.
    pub(super) const NONE: Self = Self { as_sent: false, as_write: false, as_get: false };

    pub(super) fn has(self, reading: MethodReading) -> bool {
        match reading {
            MethodReading::AsSent => self.as_sent,
            MethodReading::AsWrite => self.as_write,
            MethodReading::AsGet => self.as_get,
        }
    }
}

impl MethodReading {
    pub(super) const ALL: [Self; 3] = [Self::AsSent, Self::AsWrite, Self::AsGet];
}

impl MethodRule {
    /// Whether it fits every method that the other rule fits.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Write, Self::Exact(exact)) => !is_get_or_head(exact),
            _ => self == other,
        }
    }

    pub(super) fn fits(&self, method: &Method, reading: MethodReading) -> bool {
        match (self, reading) {
            (Self::Any, _) => true,
            (Self::Write, MethodReading::AsSent) => !is_get_or_head(method),
            (Self::Write, _) => reading == MethodReading::AsWrite,
            // A request read as a write is not a page: a route for pages must not hide the one for the form.
            (Self::Exact(exact), MethodReading::AsGet) => is_get_or_head(exact),
            (Self::Exact(exact), MethodReading::AsWrite) => !is_get_or_head(exact),
            (Self::Exact(exact), MethodReading::AsSent) if is_get_or_head(exact) => is_get_or_head(method),
            (Self::Exact(exact), MethodReading::AsSent) => {
                exact.as_str().eq_ignore_ascii_case(method.as_str())
            }
        }
    }
}

/// Whether it is a method by which browsers load pages.
pub(super) fn is_get_or_head(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}
