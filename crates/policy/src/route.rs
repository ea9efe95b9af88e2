//! A route: the requests that it protects, and its limits.
//!
//! [`charges`](super::charges) decides which buckets an attempt is charged to. A route that requires a field of the
//! body matches every request until the body is read, and every request whose body cannot be read.

use std::sync::Arc;

use http::HeaderValue;
use smallvec::SmallVec;

use super::attempt::{Attempt, AttemptBody};
use super::canonical::Case;
use super::count::{Count, UnreadableBody};
use super::defence::RouteDefences;
use super::field::{BodySearch, Field, FieldNames, FieldSlots, Half, RequestFields, values_but_cookies};
use super::hosts::{HostSet, HostsOfRoute};
use super::key::TooManyValues;
use super::matcher::{HostPattern, MethodReading, Pattern};
use super::method::MethodReadings;
use super::outcome;
use super::permits::RouteCounters;
use super::query::QueryParameters;
use tollgate_bucket::OnError;

/// A protected route: `[route.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The name in metrics, logs and responses.
    pub name: Arc<str>,
    /// The application whose accounts it protects: the same for all routes of one application.
    pub application: Arc<str>,
    /// Which requests are attempts.
    pub matching: RouteMatch,
    /// What is read of an attempt.
    pub reading: RouteReading,
    /// What it follows, if it is a second step of sign-ins by other routes: `step = "after"`.
    pub step: Option<SecondStep>,
    /// The optional defences that it turns on.
    pub defences: RouteDefences,
    /// What bounds its attempts that are under way at once.
    pub permits: RouteCounters,
    /// The rules for the outcome of a response.
    pub rules: outcome::OutcomeRules,
    /// Indices into [`Policy::limits`](super::Policy::limits), ascending.
    pub limits: Vec<usize>,
    /// Where admitted attempts go, as an index of the proxy layer; `None` is the default upstream.
    pub upstream: Option<usize>,
    /// The origins whose pages may read what the gate itself answers.
    pub cors: AllowedOrigins,
    /// What happens to its attempts while the store does not answer; `None` for the store's own setting.
    pub on_error: Option<OnError>,
}

/// Which requests are attempts on a route.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RouteMatch {
    /// The patterns; a request that matches any of them is an attempt.
    pub patterns: Vec<Pattern>,
    /// Only requests with a value in any of these are attempts; empty means all.
    pub when: Vec<Field>,
    /// Any of these hosts; empty means any host.
    pub hosts: Vec<HostPattern>,
    /// The hosts of all routes, if this route also matches all other hosts and requests without a host.
    pub other_than: Option<Arc<HostSet>>,
    /// Whether letter case distinguishes paths.
    pub case: Case,
}

/// What a route reads of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteReading {
    /// The fields with the account name.
    pub user: Vec<Field>,
    /// Bytes of a name that the application reads at most.
    pub user_length: usize,
    /// The fields with the password.
    pub password: Vec<Field>,
    /// Tokens an attempt takes.
    pub cost: Cost,
    /// Bytes of a request's body that are read if the decision depends on it.
    pub body: usize,
}

/// A second step of sign-ins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecondStep {
    /// The name of the session's cookie, if the file sets it.
    pub cookie: Option<Box<str>>,
}

impl Default for RouteReading {
    fn default() -> Self {
        let (user, password) = (Vec::new(), Vec::new());
        Self { user, user_length: usize::MAX, password, cost: Cost::Fixed(1), body: DEFAULT_BODY_BYTES }
    }
}

/// Origins of pages (RFC 6454, section 6.2): `cors`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AllowedOrigins {
    /// None.
    #[default]
    None,
    /// These, as browsers write them.
    Listed(Vec<HeaderValue>),
    /// All of them, without credentials.
    Any,
}

/// The slots of a route's fields among the fields of all routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouteFieldSlots {
    pub(super) user: FieldSlots,
    pub(super) password: FieldSlots,
    pub(super) when: FieldSlots,
    /// The fields of `when` that are not in `user`.
    pub(super) when_but_user: FieldSlots,
    /// Whether only requests with one of certain headers match.
    pub(super) needs_header: bool,
    /// Whether names are those of a directory, with or without their domain.
    pub(super) has_domains: bool,
}

/// A route with the slots of its fields.
#[derive(Clone, Copy)]
pub(super) struct SlottedRoute<'p> {
    pub(super) route: &'p Route,
    pub(super) slots: &'p RouteFieldSlots,
}

impl RouteFieldSlots {
    /// `is_of_directory`: whether a limit of the route counts failures at a directory.
    pub(super) fn of(route: &Route, field_names: &FieldNames, is_of_directory: bool) -> Self {
        let is_of_windows = |field: &Field| matches!(field, Field::Ntlm | Field::Negotiate);
        let other: Vec<Field> =
            route.matching.when.iter().filter(|field| !route.reading.user.contains(field)).cloned().collect();
        Self {
            user: field_names.slots_for(&route.reading.user),
            password: field_names.slots_for(&route.reading.password),
            when: field_names.slots_for(&route.matching.when),
            when_but_user: field_names.slots_for(&other),
            needs_header: !route.matching.when.is_empty()
                && route.matching.when.iter().all(Field::is_header)
                && !route.reading.cost.tells_attempts(),
            has_domains: is_of_directory || route.reading.user.iter().any(is_of_windows),
        }
    }
}

/// Tokens an attempt takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cost {
    /// A fixed number, at least 1.
    Fixed(u32),
    /// The number of attempts that the body makes at once.
    Counted(Count),
}

impl Cost {
    /// The cost of an attempt; before the body was read, its minimum.
    pub(super) fn of(&self, attempt: &Attempt<'_>) -> Result<u32, UnreadableBody> {
        match (self, attempt.body) {
            (Self::Fixed(tokens), _) => Ok(*tokens),
            (Self::Counted(_), AttemptBody::Unread) => Ok(1),
            (Self::Counted(_), AttemptBody::TooLong | AttemptBody::Unsaid) => Err(UnreadableBody),
            (Self::Counted(count), AttemptBody::Whole(_) | AttemptBody::Searched(_)) => {
                Ok(attempts_in(count, attempt)?.max(1))
            }
        }
    }

    /// Whether a request is an attempt only if something is counted in it.
    pub(super) fn tells_attempts(&self) -> bool {
        matches!(self, Self::Counted(count) if count.tells_attempts())
    }

    /// Whether a request is not an attempt: its body was read, and nothing is counted in it.
    fn finds_none(&self, attempt: &Attempt<'_>) -> bool {
        match (self, attempt.body) {
            (Self::Counted(count), AttemptBody::Whole(_) | AttemptBody::Searched(_)) => {
                count.tells_attempts() && attempts_in(count, attempt) == Ok(0)
            }
            _ => false,
        }
    }
}

/// What is counted in an attempt whose body was read; not again if it was searched.
pub(super) fn attempts_in(count: &Count, attempt: &Attempt<'_>) -> Result<u32, UnreadableBody> {
    let (bytes, known) = match &attempt.body {
        AttemptBody::Whole(bytes) => (*bytes, None),
        AttemptBody::Searched(searched) => {
            (searched.bytes, BodySearch::of(searched).and_then(|search| search.count(&count.name())))
        }
        AttemptBody::Unread | AttemptBody::TooLong | AttemptBody::Unsaid => return Err(UnreadableBody),
    };
    known.unwrap_or_else(|| count.of_request(attempt.headers, attempt.query, bytes))
}

impl Route {
    /// A route that counts each request that matches one of these patterns as one attempt, without limits, and
    /// otherwise with the defaults of the file.
    #[must_use]
    pub fn new(name: &str, patterns: Vec<Pattern>) -> Self {
        let name: Arc<str> = name.into();
        Self {
            application: Arc::clone(&name),
            name,
            matching: RouteMatch { patterns, ..RouteMatch::default() },
            reading: RouteReading::default(),
            step: None,
            defences: RouteDefences::default(),
            permits: RouteCounters::default(),
            rules: outcome::OutcomeRules::default(),
            limits: Vec::new(),
            upstream: None,
            cors: AllowedOrigins::default(),
            on_error: None,
        }
    }

    pub(super) fn hosts(&self) -> HostsOfRoute<'_> {
        (&self.matching.hosts, self.matching.other_than.as_ref())
    }

    /// All fields that it reads.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.reading.user, &self.reading.password, &self.matching.when].into_iter().flatten()
    }

    pub(super) fn reads_authorization(&self) -> bool {
        self.fields().any(Field::is_in_authorization)
    }

    /// Whether the request has a body, or may have one that this route would read.
    pub(super) fn may_have_body(&self, attempt: &Attempt<'_>) -> bool {
        match attempt.body {
            AttemptBody::Whole(body) => !body.is_empty(),
            AttemptBody::Unread | AttemptBody::TooLong | AttemptBody::Searched(_) => true,
            AttemptBody::Unsaid => self.reads_bodies(),
        }
    }

    /// Whether it reads anything from bodies.
    pub(super) fn reads_bodies(&self) -> bool {
        self.reads_cost() || self.reads_accounts() || self.is_chosen_by_body()
    }

    /// Whether a second step may follow its attempts. Programs send Basic with each request, and none follows.
    #[must_use]
    pub fn may_be_followed(&self) -> bool {
        self.step.is_none() && self.reading.user.iter().any(|field| !field.is_in_authorization())
    }

    pub(super) fn reads_cost(&self) -> bool {
        matches!(self.reading.cost, Cost::Counted(_))
    }

    pub(super) fn reads_accounts(&self) -> bool {
        self.reading.user.iter().chain(&self.reading.password).any(Field::is_in_body)
    }

    pub(super) fn is_chosen_by_body(&self) -> bool {
        self.matching.when.iter().any(Field::is_in_body) || self.reading.cost.tells_attempts()
    }

    /// Whether more than method, host and path of a request decides whether it is an attempt.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        !self.matching.when.is_empty() || self.reading.cost.tells_attempts()
    }

    /// Whether a body may make the route match that did not before: by the password next to a field of `when` that a cookie
    /// carries.
    pub(super) fn may_be_added_by_body(&self) -> bool {
        !self.is_chosen_by_body() && self.matching.when.iter().any(|field| matches!(field, Field::Query(_)))
    }

    /// Whether the method alone could fit.
    pub(super) fn could_match(&self, attempt: &Attempt<'_>, readings: MethodReadings) -> bool {
        self.matching.patterns.iter().any(|pattern| pattern.could_match(attempt.method, readings))
    }

    /// The patterns that a request fits apart from the path. The host has to fit already.
    pub(super) fn possible_patterns(
        &self,
        attempt: &Attempt<'_>,
        parameters: &QueryParameters<'_, '_>,
        reading: MethodReading,
    ) -> SmallVec<[&Pattern; 2]> {
        let is_possible =
            |pattern: &&Pattern| pattern.fits_but_for_path(attempt, parameters, reading, self.matching.case);
        self.matching.patterns.iter().filter(is_possible).collect()
    }

    /// Whether one of these patterns fits this reading of a path, sent as `sent`; `None` if none does. The value says
    /// whether later routes are skipped: not if the match needs `when` or parameters, which a client can add.
    pub(super) fn fits(&self, sent: &str, reading: &[&[u8]], patterns: &[&Pattern]) -> Option<bool> {
        let mut fitting =
            patterns.iter().filter(|pattern| pattern.fits_path(sent, reading, self.matching.case)).peekable();
        fitting.peek()?;
        Some(!self.is_conditional() && fitting.any(|pattern| pattern.parameters().is_empty()))
    }

    /// Whether its strict reading fits. The host has to fit already.
    pub(super) fn matches_strictly(
        &self,
        slots: &RouteFieldSlots,
        request: &RequestFields<'_>,
        parameters: &QueryParameters<'_, '_>,
        strict: &[&[u8]],
    ) -> bool {
        let method = request.attempt.method;
        self.matching.patterns.iter().any(|pattern| pattern.fits_strictly(method, parameters, strict))
            && self.matches_when(slots, request)
    }

    /// The host of an attempt, empty if no route names it: a client does not get a bucket for each invented host.
    pub(super) fn known_host<'a>(&self, attempt: &Attempt<'a>) -> &'a str {
        let is_other = self.matching.other_than.as_ref().is_some_and(|known| !known.matches(attempt.host));
        if is_other { "" } else { attempt.host }
    }

    /// Whether one of the fields of `when` is present, or could be, and what `cost` counts.
    pub(super) fn matches_when(&self, slots: &RouteFieldSlots, request: &RequestFields<'_>) -> bool {
        if self.reading.cost.finds_none(request.attempt) {
            return false;
        }
        if self.matching.when.is_empty()
            || (request.attempt.body == AttemptBody::Unread && self.is_chosen_by_body())
        {
            return true;
        }
        match values_but_cookies(&self.matching.when, &slots.when, Half::Password, request) {
            Ok(values) => {
                !values.is_empty() || values.is_unreadable() || self.matches_when_by_cookies(slots, request)
            }
            Err(TooManyValues) => true,
        }
    }
}

/// The default of `route.body`, in bytes: many times the size of a form or a call.
pub const DEFAULT_BODY_BYTES: usize = 64 * 1024;
