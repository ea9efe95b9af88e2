//! The method that a pattern names, and what an application may take a request for besides its own method.
//!
//! It compares methods and knows no route: what a GET or an OPTIONS carries is said in [`carried`](super::carried).

use http::Method;

/// What a request may be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Its own method.
    AsSent,
    /// A write, because of what it carries.
    AsWrite,
    /// A GET, because it says so in an override.
    AsPage,
}

/// All of what one request may be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ways {
    pub(super) as_sent: bool,
    pub(super) as_write: bool,
    pub(super) as_page: bool,
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

impl Ways {
    /// None at all: it is no attempt.
    pub(super) const NONE: Self = Self { as_sent: false, as_write: false, as_page: false };

    pub(super) fn has(self, taken: Taken) -> bool {
        match taken {
            Taken::AsSent => self.as_sent,
            Taken::AsWrite => self.as_write,
            Taken::AsPage => self.as_page,
        }
    }
}

impl Taken {
    pub(super) const ALL: [Self; 3] = [Self::AsSent, Self::AsWrite, Self::AsPage];
}

impl MethodRule {
    /// Whether it fits whatever the other one fits.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Write, Self::Exact(exact)) => !is_page(exact),
            _ => self == other,
        }
    }

    pub(super) fn fits(&self, method: &Method, taken: Taken) -> bool {
        match (self, taken) {
            (Self::Any, _) => true,
            (Self::Write, Taken::AsSent) => !is_page(method),
            (Self::Write, _) => taken == Taken::AsWrite,
            // Taken as a write it is no page: a route for pages must not come before the one for the form.
            (Self::Exact(exact), Taken::AsPage) => is_page(exact),
            (Self::Exact(exact), Taken::AsWrite) => !is_page(exact),
            (Self::Exact(exact), Taken::AsSent) if is_page(exact) => is_page(method),
            (Self::Exact(exact), Taken::AsSent) => exact.as_str().eq_ignore_ascii_case(method.as_str()),
        }
    }
}

/// Whether it is a method by which browsers look at pages.
pub(super) fn is_page(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}
