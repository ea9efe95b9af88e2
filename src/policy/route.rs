//! What is protected: a route, and which requests it is about.
//!
//! Who pays for an attempt is said in [`charges`](super::charges). The surprising thing: a route that wants a field of the
//! body is about every request until the body was read, and about those whose body nobody can read.

use std::sync::Arc;

use smallvec::SmallVec;

use super::attempt::{Attempt, AttemptBody};
use super::canonical::Case;
use super::count::{self, Count, UnreadableBody};
use super::field::{Field, FieldNames, FieldSlots, Half, RequestFields, values_but_cookies};
use super::key::TooManyValues;
use super::matcher::{HostPattern, MethodReading, Pattern};
use super::method::MethodReadings;
use super::outcome;
use super::query::QueryParameters;

/// What is protected: `[route.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The identity in metrics, logs and answers.
    pub name: Arc<str>,
    /// Whose accounts its attempts are about: the same for all doors to one application.
    pub application: Arc<str>,
    /// Any of these makes a request an attempt.
    pub patterns: Vec<Pattern>,
    /// Only requests with a value in any of these are attempts; empty means all.
    pub when: Vec<Field>,
    /// Where the name of the account stands.
    pub user: Vec<Field>,
    /// Where the password stands.
    pub password: Vec<Field>,
    /// What an answer means.
    pub rules: outcome::OutcomeRules,
    /// Any of these hosts; empty means any host.
    pub hosts: Vec<HostPattern>,
    /// The hosts that any route names, if this one is about all others as well, and about requests that name none.
    pub other_than: Option<Arc<[HostPattern]>>,
    /// Whether letter case distinguishes paths.
    pub case: Case,
    /// Tokens an attempt takes.
    pub cost: Cost,
    /// Bytes of a request's body that are read where its cost depends on it.
    pub body: usize,
    /// Attempts at the upstream at once, and those that are held; `None` means any number.
    pub in_flight: Option<u32>,
    /// Indices into [`Policy::limits`](super::Policy::limits), ascending.
    pub limits: Vec<usize>,
    /// Where its requests go; `None` is the default upstream. An index that the proxy layer understands.
    pub upstream: Option<usize>,
}

/// Where the names of a route's fields stand among those of all routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouteFieldSlots {
    pub(super) user: FieldSlots,
    pub(super) password: FieldSlots,
    pub(super) when: FieldSlots,
    /// Those of `when` that are not where the name of the account stands.
    pub(super) when_but_user: FieldSlots,
}

impl RouteFieldSlots {
    pub(super) fn of(route: &Route, known: &FieldNames) -> Self {
        let other: Vec<Field> =
            route.when.iter().filter(|field| !route.user.contains(field)).cloned().collect();
        Self {
            user: known.slots_for(&route.user),
            password: known.slots_for(&route.password),
            when: known.slots_for(&route.when),
            when_but_user: known.slots_for(&other),
        }
    }
}

/// Tokens an attempt takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cost {
    /// Always as many, at least 1.
    Fixed(u32),
    /// As many as its body makes attempts at once.
    Counted(Count),
}

impl Cost {
    /// Before the body was read it is the least that it can be.
    pub(super) fn of(&self, attempt: &Attempt<'_>) -> Result<u32, UnreadableBody> {
        match (self, attempt.body) {
            (Self::Fixed(tokens), _) => Ok(*tokens),
            (Self::Counted(_), AttemptBody::Unread) => Ok(1),
            (Self::Counted(_), AttemptBody::TooLong) => Err(UnreadableBody),
            (Self::Counted(count), AttemptBody::Whole(body)) => {
                count::check_headers(attempt.headers)?;
                Ok(count.of(body)?.max(1))
            }
        }
    }
}

impl Route {
    /// A route that counts every request that one of these patterns matches as one attempt, on no limit yet; all else as
    /// it is where the file says nothing.
    #[must_use]
    pub fn new(name: &str, patterns: Vec<Pattern>) -> Self {
        let name: Arc<str> = name.into();
        Self {
            application: Arc::clone(&name),
            name,
            patterns,
            when: Vec::new(),
            user: Vec::new(),
            password: Vec::new(),
            rules: outcome::OutcomeRules::default(),
            hosts: Vec::new(),
            other_than: None,
            case: Case::default(),
            cost: Cost::Fixed(1),
            body: DEFAULT_BODY_BYTES,
            in_flight: None,
            limits: Vec::new(),
            upstream: None,
        }
    }

    /// All that it looks for in a request.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.user, &self.password, &self.when].into_iter().flatten()
    }

    pub(super) fn reads_basic(&self) -> bool {
        self.fields().any(|field| *field == Field::Basic)
    }

    /// Whether anything about its attempts stands in their bodies.
    pub(super) fn reads_bodies(&self) -> bool {
        self.reads_cost() || self.reads_accounts() || self.is_chosen_by_body()
    }

    pub(super) fn reads_cost(&self) -> bool {
        matches!(self.cost, Cost::Counted(_))
    }

    pub(super) fn reads_accounts(&self) -> bool {
        self.user.iter().chain(&self.password).any(Field::is_in_body)
    }

    pub(super) fn is_chosen_by_body(&self) -> bool {
        self.when.iter().any(Field::is_in_body)
    }

    /// Whether the method alone could fit.
    pub(super) fn could_match(&self, attempt: &Attempt<'_>, ways: MethodReadings) -> bool {
        self.patterns.iter().any(|pattern| pattern.could_match(attempt.method, ways))
    }

    /// The patterns that a request fits but for its path; its host was looked at before.
    pub(super) fn candidates(
        &self,
        attempt: &Attempt<'_>,
        parameters: &QueryParameters<'_, '_>,
        taken: MethodReading,
    ) -> SmallVec<[&Pattern; 2]> {
        let is_candidate =
            |pattern: &&Pattern| pattern.fits_but_for_path(attempt, parameters, taken, self.case);
        self.patterns.iter().filter(is_candidate).collect()
    }

    /// Whether one of these patterns is about this reading of a path that was sent like this; `None` if none is, and
    /// whether a request is then about no route behind this one. A client can add what `when` asks for, and parameters.
    pub(super) fn fits(&self, sent: &str, reading: &[&[u8]], patterns: &[&Pattern]) -> Option<bool> {
        let mut fitting =
            patterns.iter().filter(|pattern| pattern.fits_path(sent, reading, self.case)).peekable();
        fitting.peek()?;
        Some(self.when.is_empty() && fitting.any(|pattern| pattern.parameters().is_empty()))
    }

    pub(super) fn matches_strictly(
        &self,
        places: &RouteFieldSlots,
        sent: &RequestFields<'_>,
        parameters: &QueryParameters<'_, '_>,
        strict: &[&[u8]],
    ) -> bool {
        self.host_fits(sent.attempt.host)
            && self.patterns.iter().any(|p| p.fits_strictly(sent.attempt.method, parameters, strict))
            && self.matches_when(places, sent)
    }

    pub(super) fn host_fits(&self, host: &str) -> bool {
        self.hosts.is_empty()
            || is_one_of(host, &self.hosts)
            || self.other_than.as_ref().is_some_and(|known| !is_one_of(host, known))
    }

    /// The attempt without a host that no route names: a client that makes hosts up has no bucket for each.
    pub(super) fn with_known_host<'a>(&self, attempt: &Attempt<'a>) -> Attempt<'a> {
        let is_other = self.other_than.is_some() && !is_one_of(attempt.host, &self.hosts);
        Attempt { host: if is_other { "" } else { attempt.host }, ..*attempt }
    }

    /// Whether one of the fields of `when` is there, or could be.
    pub(super) fn matches_when(&self, places: &RouteFieldSlots, sent: &RequestFields<'_>) -> bool {
        if self.when.is_empty() || (sent.attempt.body == AttemptBody::Unread && self.is_chosen_by_body()) {
            return true;
        }
        match values_but_cookies(&self.when, &places.when, Half::Password, sent) {
            Ok(values) => {
                !values.is_empty() || values.is_unreadable() || self.matches_when_by_cookies(places, sent)
            }
            Err(TooManyValues) => true,
        }
    }
}

fn is_one_of(host: &str, patterns: &[HostPattern]) -> bool {
    patterns.iter().any(|pattern| pattern.matches(host))
}

/// `route.body` where the file does not say: what a form or a call fills many times over.
pub const DEFAULT_BODY_BYTES: usize = 64 * 1024;
