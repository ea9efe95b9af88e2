//! The method of a pattern, and the methods that an application may read a request as.
//!
//! It compares methods and knows no route: what a GET or an OPTIONS carries is said in [`carried`](super::inspection).

use http::Method;

/// What a request may be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodReading {
    /// Its own method.
    AsSent,
    /// A write, because of what it carries.
    AsWrite,
    /// A GET, because it says so in an override.
    AsGet,
}

/// All of what one request may be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MethodReadings {
    pub(super) as_sent: bool,
    pub(super) as_write: bool,
    pub(super) as_get: bool,
}

/// The method of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MethodRule {
    /// Every method.
    Any,
    /// `POST`: every method that can carry a form. Applications take PUT, OPTIONS or invented methods for it.
    Write,
    /// This one; GET is HEAD, too.
    Exact(Method),
}

impl MethodReadings {
    /// None at all: it is no attempt.
    pub(super) const NONE: Self = Self { as_sent: false, as_write: false, as_get: false };

    pub(super) fn has(self, taken: MethodReading) -> bool {
        match taken {
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
    /// Whether it fits whatever the other one fits.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Write, Self::Exact(exact)) => !is_get_or_head(exact),
            _ => self == other,
        }
    }

    pub(super) fn fits(&self, method: &Method, taken: MethodReading) -> bool {
        match (self, taken) {
            (Self::Any, _) => true,
            (Self::Write, MethodReading::AsSent) => !is_get_or_head(method),
            (Self::Write, _) => taken == MethodReading::AsWrite,
            // Taken as a write it is no page: a route for pages must not come before the one for the form.
            (Self::Exact(exact), MethodReading::AsGet) => is_get_or_head(exact),
            (Self::Exact(exact), MethodReading::AsWrite) => !is_get_or_head(exact),
            (Self::Exact(exact), MethodReading::AsSent) if is_get_or_head(exact) => is_get_or_head(method),
            (Self::Exact(exact), MethodReading::AsSent) => {
                exact.as_str().eq_ignore_ascii_case(method.as_str())
            }
        }
    }
}

/// Whether it is a method by which browsers look at pages.
pub(super) fn is_get_or_head(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}
