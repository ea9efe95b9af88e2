//! Inspects a request: whether a GET, a HEAD or an OPTIONS carries an attempt at a route, and which OPTIONS is a real
//! CORS pre-flight.
//!
//! Applications read what they are sent, whatever the method: Tomcat checks Basic on an OPTIONS, Flask reads the JSON
//! of a GET, and PHP without a php.ini merges query, form and cookies. So every request that could be an attempt is
//! one, except for what a browser sends by itself while a user views the form: a user name remembered in a cookie.

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, COOKIE, ORIGIN};
use http::{HeaderName, Method};
use smallvec::SmallVec;

use super::attempt::{Attempt, AttemptBody};
use super::cookies;
use super::field::{
    Field, FieldNames, Half, MAX_NAME_READS, NameKinds, RequestFields, are_in_own_headers, values_of,
};
use super::method::{MethodReadings, is_get_or_head};
use super::password_name::is_called_a_password;
use super::query;
use super::route::{Route, RouteFieldSlots};
use super::urlencoded::DecodedChars;

/// The contents of a request in addition to its method and path, as far as they are the same for all routes.
pub(super) struct Inspection<'a> {
    /// The fields that routes read.
    pub(super) fields: RequestFields<'a>,
    /// Whether it overrides its method.
    overrides_method: bool,
    /// Whether it carries what could be an attempt at any route.
    may_be_attempt: bool,
}

impl<'a> Inspection<'a> {
    pub(super) fn of(attempt: &'a Attempt<'a>, field_names: &'a FieldNames) -> Self {
        let has_body = !matches!(attempt.body, AttemptBody::Whole(&[]) | AttemptBody::Unsaid);
        let request = RequestFields::with(attempt, field_names);
        let has_names = attempt.query.is_some() || attempt.headers.contains_key(COOKIE);
        let overrides_method = overrides_the_method(&request, has_names);
        // Every other method is a write anyway.
        let is_read = is_get_or_head(attempt.method) || attempt.method == Method::OPTIONS;
        let names_more = || has_names && (has_too_many_names(attempt) || names_a_password(attempt));
        let could_guess = || overrides_method || has_body || names_more();
        Self { fields: request, overrides_method, may_be_attempt: is_read && could_guess() }
    }

    /// The readings of its method at this route; none if the route has no such method. The host has to fit already.
    pub(super) fn method_readings(&self, route: &Route, slots: &RouteFieldSlots) -> MethodReadings {
        let attempt = self.fields.attempt;
        if is_without_credentials(route, attempt) {
            return MethodReadings::NONE;
        }
        let readings = self.method_readings_at(route, slots);
        if route.could_match(attempt, readings) { readings } else { MethodReadings::NONE }
    }

    fn method_readings_at(&self, route: &Route, slots: &RouteFieldSlots) -> MethodReadings {
        let (attempt, overrides) = (self.fields.attempt, self.overrides_method);
        let carries = || {
            self.may_be_attempt
                || (attempt.body == AttemptBody::Unsaid && route.may_have_body(attempt))
                || is_in_head(route, slots, &self.fields)
                || is_in_cookies(route, slots, &self.fields)
        };
        if is_get_or_head(attempt.method) {
            return MethodReadings { as_sent: true, as_write: carries(), as_get: false };
        }
        if attempt.method != Method::OPTIONS {
            return MethodReadings { as_sent: true, as_write: overrides, as_get: overrides };
        }
        let carries = carries();
        match !carries && is_preflight(attempt) && !self.fields.has_in_cookies(&slots.user) {
            true => MethodReadings::NONE,
            false => MethodReadings { as_sent: true, as_write: carries, as_get: overrides },
        }
    }
}

impl Route {
    /// Whether one of the fields of `when` is in a cookie, and is not just a remembered user name.
    pub(super) fn matches_when_by_cookies(
        &self,
        slots: &RouteFieldSlots,
        request: &RequestFields<'_>,
    ) -> bool {
        request.has_in_cookies(&slots.when_but_user)
            || (request.has_in_cookies(&slots.when) && self.has_password(slots, request))
    }

    /// Whether the request carries a password anywhere.
    fn has_password(&self, slots: &RouteFieldSlots, request: &RequestFields<'_>) -> bool {
        names_a_password(request.attempt)
            || values_of(&self.reading.password, &slots.password, Half::Password, request)
                .map_or(true, |found| !found.is_empty() || found.is_unreadable())
    }
}

/// Whether the route looks for accounts in headers alone, and the request has none of them: it fetches the challenge, or
/// the page of a client that is signed in otherwise.
fn is_without_credentials(route: &Route, attempt: &Attempt<'_>) -> bool {
    let fields = || [&route.reading.user, &route.reading.password, &route.matching.when].into_iter();
    let in_headers_alone = !route.reading.user.is_empty()
        && route.step.is_none()
        && fields().all(|fields| fields.iter().all(Field::is_header));
    in_headers_alone
        && !attempt.headers.contains_key(AUTHORIZATION)
        && !fields().any(|fields| are_in_own_headers(fields, attempt))
        && !names_a_password(attempt)
}

/// Whether one of the route's fields is in the query or in a header.
fn is_in_head(route: &Route, slots: &RouteFieldSlots, request: &RequestFields<'_>) -> bool {
    let may_have_document = || route.reading.cost.tells_attempts() && request.attempt.query.is_some();
    [&slots.user, &slots.password, &slots.when].into_iter().any(|list| request.has_in_query(list))
        || may_have_document()
        || [&route.reading.user, &route.reading.password, &route.matching.when]
            .into_iter()
            .any(|fields| request.are_in_headers(fields))
}

/// Whether a cookie carries what makes an attempt.
fn is_in_cookies(route: &Route, slots: &RouteFieldSlots, request: &RequestFields<'_>) -> bool {
    request.has_in_cookies(&slots.password) || route.matches_when_by_cookies(slots, request)
}

/// Whether it is a CORS pre-flight (Fetch, "CORS-preflight fetch"): browsers send neither credentials nor a body with
/// it.
fn is_preflight(attempt: &Attempt<'_>) -> bool {
    let has = |name| attempt.headers.contains_key(name);
    has(ORIGIN) && has(ACCESS_CONTROL_REQUEST_METHOD) && !has(AUTHORIZATION)
}

/// Whether a header, a parameter or a cookie overrides the method. CGI and PHP read `X_Http_Method_Override` as the
/// real header. `has_names`: whether there are parameters or cookies.
fn overrides_the_method(request: &RequestFields<'_>, has_names: bool) -> bool {
    let headers = request.attempt.headers;
    if headers.keys().any(is_override) {
        return true;
    }
    if !has_names {
        return false;
    }
    let in_query = request.fields(NameKinds::METHOD).flat_map(query::names).map(str::as_bytes);
    let names = in_query.chain(cookies::pairs(headers).map(|(name, _)| name));
    let names = names.filter(|name| request.could_be(NameKinds::METHOD, name));
    let names: SmallVec<[_; 4]> = names.take(MAX_NAME_READS + 1).collect();
    names.len() > MAX_NAME_READS || names.into_iter().any(is_parameter)
}

/// Whether it is the name of a method parameter. As in PHP, a name with brackets is an array of the name before them.
fn is_parameter(name: &[u8]) -> bool {
    let mut folded = String::new();
    [false, true].into_iter().any(|is_wide| {
        query::fold(DecodedChars { rest: name, is_wide }, MAX_PARAMETER_LEN, &mut folded);
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

/// Whether there are more names than the policy reads.
fn has_too_many_names(attempt: &Attempt<'_>) -> bool {
    attempt.query.is_some_and(query::is_beyond_read)
        || cookies::pairs(attempt.headers).nth(query::MAX_READ_PARAMETERS).is_some()
}

/// Whether a parameter or a cookie is named like a password. `user[password]` is one, too, so the whole name counts.
///
fn names_a_password(attempt: &Attempt<'_>) -> bool {
    attempt.query.is_some_and(|query| query::names(query).any(query::could_be_a_password))
        || cookies::pairs(attempt.headers).any(|(name, _)| query::is_read_as(name, is_called_a_password))
}

const HEADERS: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];
/// The parameters of Rails and PHP frameworks, of Salesforce, and of Google's APIs.
pub(super) const PARAMETERS: [&str; 4] = ["_method", "_httpmethod", "$httpmethod", "x-http-method-override"];
const MAX_PARAMETER_LEN: usize = 22;

#[cfg(test)]
mod tests;
