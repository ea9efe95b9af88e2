//! Whether a GET, a HEAD or an OPTIONS carries an attempt at a route, and which OPTIONS is a true pre-flight of CORS.
//!
//! Applications read what they are sent, whatever the method says: Tomcat checks Basic on an OPTIONS, Flask reads the JSON of
//! a GET, and PHP without a php.ini hands out query, form and cookies as one. So everything that could be an attempt is one,
//! but for what a browser sends by itself while somebody looks at the form: a user name that is remembered in a cookie.

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, ORIGIN};
use http::{HeaderName, Method};

use super::attempt::{Attempt, Body};
use super::cookies;
use super::field;
use super::method::{Ways, is_page};
use super::query;
use super::route::Route;

/// What a request carries beside its method and its path, as far as that is the same for every route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried<'a> {
    attempt: &'a Attempt<'a>,
    /// Whether it says that it has another method.
    overrides: bool,
    /// Whether it carries what could be an attempt anywhere.
    guesses: bool,
}

impl<'a> Carried<'a> {
    pub(super) fn of(attempt: &'a Attempt<'a>) -> Self {
        let has_body = attempt.body != Body::Whole(&[]);
        let overrides = overrides_the_method(attempt);
        // By any other method it is a write already.
        let looks = is_page(attempt.method) || attempt.method == Method::OPTIONS;
        let guesses = || overrides || has_body || names_much(attempt) || names_a_password(attempt);
        Self { attempt, overrides, guesses: looks && guesses() }
    }

    /// What it may be taken for at this route; nothing, if the route is about no such host and no such method.
    pub(super) fn ways(&self, route: &Route) -> Ways {
        if !route.host_fits(self.attempt.host) {
            return Ways::NONE;
        }
        let ways = self.ways_at(route);
        if route.could_match(self.attempt, ways) { ways } else { Ways::NONE }
    }

    fn ways_at(&self, route: &Route) -> Ways {
        let (attempt, overrides) = (self.attempt, self.overrides);
        let carries = || self.guesses || is_in_head(route, attempt) || is_in_cookies(route, attempt);
        if is_page(attempt.method) {
            return Ways { as_sent: true, as_write: carries(), as_page: false };
        }
        if attempt.method != Method::OPTIONS {
            return Ways { as_sent: true, as_write: overrides, as_page: overrides };
        }
        let carries = carries();
        match !carries && is_preflight(attempt) && !field::are_in_cookies(&route.user, attempt) {
            true => Ways::NONE,
            false => Ways { as_sent: true, as_write: carries, as_page: overrides },
        }
    }
}

impl Route {
    /// Whether one of the fields of `when` stands in a cookie, and is no user name that is only remembered there.
    pub(super) fn is_meant_by_cookies(&self, attempt: &Attempt<'_>) -> bool {
        let is_there = |field: &field::Field| field::are_in_cookies(std::slice::from_ref(field), attempt);
        self.when.iter().any(|field| is_there(field) && !self.user.contains(field))
            || (self.when.iter().any(is_there) && self.has_password(attempt))
    }

    /// Whether there is a password anywhere.
    fn has_password(&self, attempt: &Attempt<'_>) -> bool {
        names_a_password(attempt)
            || field::values(&self.password, field::Half::Password, attempt)
                .map_or(true, |found| !found.is_empty() || found.is_unreadable())
    }
}

/// Whether one of the route's own fields stands in the query or in a header.
fn is_in_head(route: &Route, attempt: &Attempt<'_>) -> bool {
    [&route.user, &route.password, &route.when].into_iter().any(|fields| field::are_in_head(fields, attempt))
}

/// Whether what makes an attempt stands in a cookie.
fn is_in_cookies(route: &Route, attempt: &Attempt<'_>) -> bool {
    field::are_in_cookies(&route.password, attempt) || route.is_meant_by_cookies(attempt)
}

/// Fetch, "CORS-preflight fetch": browsers send neither credentials nor a body with it.
fn is_preflight(attempt: &Attempt<'_>) -> bool {
    let has = |name| attempt.headers.contains_key(name);
    has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD) && !has(AUTHORIZATION)
}

/// By a header, by a parameter or by a cookie. CGI and PHP read `X_Http_Method_Override` as the real header.
fn overrides_the_method(attempt: &Attempt<'_>) -> bool {
    attempt.headers.keys().any(is_override)
        || attempt.query.is_some_and(|query| query::names(query).any(|name| is_parameter(&name)))
        || cookies::pairs(attempt.headers).any(|(name, _)| is_parameter(&query::decoded(name)))
}

/// As PHP reads names: what is in brackets is in an array of this name.
fn is_parameter(name: &str) -> bool {
    let name = name.trim_start().split(['[', '\0']).next().unwrap_or_default();
    let is_read_as = |known: &str| {
        let mut pairs = known.bytes().zip(name.bytes());
        let same = |(a, b): (u8, u8)| b.eq_ignore_ascii_case(&a) || (a == b'_' && matches!(b, b'.' | b' '));
        known.len() == name.len() && pairs.all(same)
    };
    PARAMETERS.iter().any(|known| is_read_as(known))
}

fn is_override(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_read_as = |known: &str| {
        let mut pairs = known.bytes().zip(name.bytes());
        known.len() == name.len() && pairs.all(|(a, b)| a == b || (a == b'-' && !b.is_ascii_alphanumeric()))
    };
    name.starts_with('x') && HEADERS.iter().any(|known| is_read_as(known))
}

/// Whether there are more names than are looked at.
fn names_much(attempt: &Attempt<'_>) -> bool {
    attempt.query.is_some_and(|query| query::names(query).nth(MOST_NAMES).is_some())
        || cookies::pairs(attempt.headers).nth(MOST_NAMES).is_some()
}

/// `user[password]` is a password as well, so the whole name counts. Cookies are there on every page: what only holds the
/// letters, such as `compass` or `passport.sid`, is none there.
fn names_a_password(attempt: &Attempt<'_>) -> bool {
    attempt.query.is_some_and(|query| query::names(query).any(|name| query::sounds_like_a_password(&name)))
        || cookies::pairs(attempt.headers).any(|(name, _)| query::is_called_a_password(&query::decoded(name)))
}

/// Of parameters, and of cookies. Every route holds its fields against them, so a request with more is an attempt unseen.
const MOST_NAMES: usize = 128;
const HEADERS: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];
/// Of Rails and PHP's frameworks, of Salesforce, and of Google's interfaces.
const PARAMETERS: [&str; 4] = ["_method", "_httpmethod", "$httpmethod", "x-http-method-override"];

#[cfg(test)]
mod tests;
