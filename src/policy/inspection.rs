//! Which methods a request may be read as: whether a GET, a HEAD or an OPTIONS carries an attempt at a route, and
//! which OPTIONS is a true pre-flight of CORS.
//!
//! Applications read what they are sent, whatever the method says: Tomcat checks Basic on an OPTIONS, Flask reads the JSON of
//! a GET, and PHP without a php.ini hands out query, form and cookies as one. So everything that could be an attempt is one,
//! but for what a browser sends by itself while somebody looks at the form: a user name that is remembered in a cookie.

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, ORIGIN};
use http::{HeaderName, Method};
use smallvec::SmallVec;

use super::attempt::{Attempt, AttemptBody};
use super::cookies;
use super::field::{FieldNames, Half, MAX_NAME_READS, NameKinds, RequestFields, are_in_headers, values_of};
use super::method::{MethodReadings, is_get_or_head};
use super::password_name::is_called_a_password;
use super::query;
use super::route::{Route, RouteFieldSlots};
use super::urlencoded::DecodedChars;

/// What a request carries beside its method and its path, as far as that is the same for every route.
pub(super) struct Inspection<'a> {
    /// What of it the routes look for.
    pub(super) fields: RequestFields<'a>,
    /// Whether it says that it has another method.
    overrides_method: bool,
    /// Whether it carries what could be an attempt anywhere.
    may_be_attempt: bool,
}

impl<'a> Inspection<'a> {
    pub(super) fn of(attempt: &'a Attempt<'a>, known: &'a FieldNames) -> Self {
        let has_body = attempt.body != AttemptBody::Whole(&[]);
        let sent = RequestFields::with(attempt, known);
        let overrides = overrides_the_method(&sent);
        // By any other method it is a write already.
        let looks = is_get_or_head(attempt.method) || attempt.method == Method::OPTIONS;
        let guesses = || overrides || has_body || has_too_many_names(attempt) || names_a_password(attempt);
        Self { fields: sent, overrides_method: overrides, may_be_attempt: looks && guesses() }
    }

    /// What it may be taken for at this route; nothing, if the route is about no such host and no such method.
    pub(super) fn method_readings(&self, route: &Route, places: &RouteFieldSlots) -> MethodReadings {
        let attempt = self.fields.attempt;
        if !route.host_fits(attempt.host) {
            return MethodReadings::NONE;
        }
        let ways = self.method_readings_at(route, places);
        if route.could_match(attempt, ways) { ways } else { MethodReadings::NONE }
    }

    fn method_readings_at(&self, route: &Route, places: &RouteFieldSlots) -> MethodReadings {
        let (attempt, overrides) = (self.fields.attempt, self.overrides_method);
        let carries = || {
            self.may_be_attempt
                || is_in_head(route, places, &self.fields)
                || is_in_cookies(route, places, &self.fields)
        };
        if is_get_or_head(attempt.method) {
            return MethodReadings { as_sent: true, as_write: carries(), as_get: false };
        }
        if attempt.method != Method::OPTIONS {
            return MethodReadings { as_sent: true, as_write: overrides, as_get: overrides };
        }
        let carries = carries();
        match !carries && is_preflight(attempt) && !self.fields.has_in_cookies(&places.user) {
            true => MethodReadings::NONE,
            false => MethodReadings { as_sent: true, as_write: carries, as_get: overrides },
        }
    }
}

impl Route {
    /// Whether one of the fields of `when` stands in a cookie, and is no user name that is only remembered there.
    pub(super) fn matches_when_by_cookies(&self, places: &RouteFieldSlots, sent: &RequestFields<'_>) -> bool {
        sent.has_in_cookies(&places.when_but_user)
            || (sent.has_in_cookies(&places.when) && self.has_password(places, sent))
    }

    /// Whether there is a password anywhere.
    fn has_password(&self, places: &RouteFieldSlots, sent: &RequestFields<'_>) -> bool {
        names_a_password(sent.attempt)
            || values_of(&self.password, &places.password, Half::Password, sent)
                .map_or(true, |found| !found.is_empty() || found.is_unreadable())
    }
}

/// Whether one of the route's own fields stands in the query or in a header.
fn is_in_head(route: &Route, places: &RouteFieldSlots, sent: &RequestFields<'_>) -> bool {
    [&places.user, &places.password, &places.when].into_iter().any(|places| sent.has_in_query(places))
        || [&route.user, &route.password, &route.when]
            .into_iter()
            .any(|fields| are_in_headers(fields, sent.attempt))
}

/// Whether what makes an attempt stands in a cookie.
fn is_in_cookies(route: &Route, places: &RouteFieldSlots, sent: &RequestFields<'_>) -> bool {
    sent.has_in_cookies(&places.password) || route.matches_when_by_cookies(places, sent)
}

/// Fetch, "CORS-preflight fetch": browsers send neither credentials nor a body with it.
fn is_preflight(attempt: &Attempt<'_>) -> bool {
    let has = |name| attempt.headers.contains_key(name);
    has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD) && !has(AUTHORIZATION)
}

/// By a header, by a parameter or by a cookie. CGI and PHP read `X_Http_Method_Override` as the real header.
fn overrides_the_method(sent: &RequestFields<'_>) -> bool {
    let headers = sent.attempt.headers;
    let in_query = sent.fields(NameKinds::METHOD).flat_map(query::names).map(str::as_bytes);
    let names = in_query.chain(cookies::pairs(headers).map(|(name, _)| name));
    let names = names.filter(|name| sent.could_be(NameKinds::METHOD, name));
    let names: SmallVec<[_; 4]> = names.take(MAX_NAME_READS + 1).collect();
    headers.keys().any(is_override) || names.len() > MAX_NAME_READS || names.into_iter().any(is_parameter)
}

/// As PHP reads names: what is in brackets is in an array of this name.
fn is_parameter(sent: &[u8]) -> bool {
    let mut folded = String::new();
    [false, true].into_iter().any(|is_wide| {
        query::fold(DecodedChars { rest: sent, is_wide }, MAX_PARAMETER_LEN, &mut folded);
        PARAMETERS.contains(&&*folded)
    })
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
fn has_too_many_names(attempt: &Attempt<'_>) -> bool {
    attempt.query.is_some_and(query::is_beyond_read)
        || cookies::pairs(attempt.headers).nth(query::MAX_READ_PARAMETERS).is_some()
}

/// `user[password]` is a password as well, so the whole name counts. Cookies are there on every page: what only holds the
/// letters, such as `compass` or `passport.sid`, is none there.
fn names_a_password(attempt: &Attempt<'_>) -> bool {
    attempt.query.is_some_and(|query| query::names(query).any(query::could_be_a_password))
        || cookies::pairs(attempt.headers).any(|(name, _)| query::is_read_as(name, is_called_a_password))
}

const HEADERS: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];
/// Of Rails and PHP's frameworks, of Salesforce, and of Google's interfaces.
pub(super) const PARAMETERS: [&str; 4] = ["_method", "_httpmethod", "$httpmethod", "x-http-method-override"];
const MAX_PARAMETER_LEN: usize = 22;

#[cfg(test)]
mod tests;
