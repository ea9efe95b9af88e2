//! From a request to its charges: the buckets that an attempt takes tokens from.
//!
//! Routes define what an attempt is, limits the rates. This layer knows the types of HTTP and no socket. A path with several
//! readings is charged for the first matching route of *each* reading, so that a cheap route cannot hide an expensive one.

pub mod account;
mod alarm;
pub mod attempt;
pub mod body_coding;
pub mod bucket_ref;
mod byte_limit;
pub mod canonical;
mod carry_over;
mod charges;
pub mod client_fact;
pub mod cookies;
mod cost_factors;
pub mod count;
mod credential_locations;
mod defence;
pub mod descriptor;
pub mod field;
mod file_name;
pub mod fingerprint;
pub mod geo;
mod hosts;
mod identity;
mod inspection;
pub mod key;
mod legibility;
mod limit;
pub mod matcher;
mod method;
pub mod network;
mod on_error;
pub mod outcome;
mod owner;
mod owner_memory;
mod pairs;
mod pardon;
mod password_key;
mod password_name;
pub mod path_info;
mod permits;
pub mod person;
pub mod query;
mod random;
pub mod rates;
pub mod response;
mod route;
pub mod second_step;
mod session_value;
mod site;
mod urlencoded;

pub use self::alarm::{Alarm, AlarmFigures, AlarmWords};
pub use self::attempt::AttemptFacts;
pub use self::byte_limit::{ByteLimit, Pace};
pub use self::charges::{Charge, Charges, Unchargeable, Unsettled};
pub use self::defence::{
    AttemptNote, AttemptNotes, Defence, DefenceCounter, DefenceRefusal, FailedAttempt, Needs, ReadAttempt,
    RouteDefences, SettledAttempt,
};
pub use self::hosts::HostSet;
pub use self::limit::{ChargeOn, Limit, LimitKind, Mode, Unit};
pub use self::outcome::Judgement;
pub use self::owner::{OwnerClaim, OwnerCookie, OwnerWords, VerifiedCookie};
pub use self::owner_memory::{IsRemembered, OwnerMemory, RememberedClient};
pub use self::pardon::{GivenSoFar, Offer, OfferForm, OfferRecipient, OfferedPause, Pardon};
pub use self::permits::{
    AttemptPermit, BucketCounter, NoPermit, PermitCounter, PermitRequest, RouteCounter, RouteCounters, slots,
};
pub use self::query::PrivateNames;
pub use self::random::random_bytes;
pub use self::rates::{ClassRate, Rates};
pub use self::route::{
    AllowedOrigins, Cost, DEFAULT_BODY_BYTES, Route, RouteMatch, RouteReading, SecondStep,
};
pub use self::second_step::{Remembered, SignIn};
pub use self::site::Site;

use std::cell::OnceCell;
use std::sync::Arc;

use http::HeaderName;
use smallvec::SmallVec;

use self::attempt::{Attempt, AttemptBody, Client, SearchedBody};
use self::body_coding::BodyCoding;
use self::client_fact::{AddressFacts, ClientLookup};
use self::field::{BodySearch, FieldNames, NameKinds, RequestFields};
use self::hosts::{RouteHosts, RoutePositions};
use self::inspection::Inspection;
use self::matcher::{MethodReading, Pattern};
use self::query::{ParameterPattern, QueryParameters};
use self::route::{RouteFieldSlots, SlottedRoute, attempts_in};

/// All routes and limits, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The routes; for each reading of a request the first that matches counts.
    pub routes: Vec<Route>,
    /// The limits, charged in this order.
    pub limits: Vec<Limit>,
    /// What makes the owners of accounts known; `None` if nothing does that clients carry.
    pub owner_cookie: Option<Arc<dyn OwnerCookie>>,
    /// What finds out facts of clients by their addresses; `None` if nothing does.
    pub lookup: Option<Arc<dyn ClientLookup>>,
    /// What lifts refusals; `None` if nothing does.
    pub pardon: Option<Arc<dyn Pardon>>,
    /// What the gate remembers of sign-ins; `None` if nothing is.
    pub owner_memory: Option<Arc<dyn OwnerMemory>>,
    /// The field names of all routes.
    names: PrivateNames,
    /// For each route the slots of its fields among `names`.
    slots: Vec<RouteFieldSlots>,
    /// The routes of each host.
    hosts: Arc<RouteHosts>,
    /// The parameters of all patterns, in alphabetical order.
    parameters: Vec<ParameterPattern>,
    /// The headers in which applications tell the gate of attempts, each once.
    hidden_headers: Vec<HeaderName>,
    /// Whether a body may make a request match more routes than before it was read.
    body_adds_routes: bool,
    /// Whether a route reads `Authorization`.
    reads_authorization: bool,
    /// Whether accounts are listed: with their own rates under a limit, or for a defence.
    lists_users: bool,
    /// Whether a route is a second step.
    has_second_steps: bool,
    /// Whether a route names an upstream.
    names_upstreams: bool,
}

/// The routes that a request is counted for, indices into [`Policy::routes`].
pub type MatchedRoutes = SmallVec<[usize; 2]>;

/// What has to be read of a body before the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRequirement {
    /// The number of bytes that are read at most.
    pub max_bytes: usize,
    /// Whether a longer body, or one that cannot be decoded, is refused: a limit that could refuse the attempt depends on it.
    pub is_needed: bool,
}

/// The position of a route, the route, and its patterns that a request fits apart from the path.
type PossibleRoute<'p> = (usize, &'p Route, SmallVec<[&'p Pattern; 2]>);

/// The routes that a reading can still match.
struct RouteSearch {
    any: bool,
    /// Routes that read Basic.
    basic: bool,
}

impl RouteSearch {
    fn includes(&self, route: &Route) -> bool {
        self.any || (self.basic && route.reads_authorization())
    }
}

impl Policy {
    /// A policy of these routes and limits, to which all clients are strangers.
    #[must_use]
    pub fn new(routes: Vec<Route>, limits: Vec<Limit>) -> Self {
        let fields = routes
            .iter()
            .flat_map(|route| [&route.reading.user, &route.reading.password, &route.matching.when])
            .flatten();
        let parameters = parameters_of(&routes);
        let field_names = FieldNames::of(fields)
            .and(NameKinds::PARAMETER, parameters.iter().map(|(name, _)| name.as_str()))
            .and(NameKinds::METHOD, inspection::PARAMETERS.into_iter());
        let names = PrivateNames::of(field_names);
        let mut hidden_headers: Vec<HeaderName> =
            routes.iter().filter_map(|route| route.rules.header.clone()).collect();
        hidden_headers.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        hidden_headers.dedup();
        let is_of_directory = |route: &Route| Limit::any_of_directory(&limits, &route.limits);
        let slots_of = |route| RouteFieldSlots::of(route, names.field_names(), is_of_directory(route));
        let slots = routes.iter().map(slots_of).collect();
        let body_adds_routes = routes.iter().any(Route::may_be_added_by_body);
        let reads_authorization = routes.iter().any(Route::reads_authorization);
        let lists_users = limits.iter().any(|limit| limit.rates.lists_users())
            || routes.iter().any(|route| route.defences.needs().accounts);
        let has_second_steps = routes.iter().any(|route| route.step.is_some());
        let names_upstreams = routes.iter().any(|route| route.upstream.is_some());
        Self {
            owner_cookie: None,
            pardon: None,
            lookup: None,
            owner_memory: None,
            names,
            hosts: Arc::new(RouteHosts::of(routes.iter().map(Route::hosts))),
            routes,
            limits,
            slots,
            parameters,
            hidden_headers,
            body_adds_routes,
            reads_authorization,
            lists_users,
            has_second_steps,
            names_upstreams,
        }
    }

    /// The same policy, whose routes match any host.
    #[must_use]
    pub fn on_any_host(mut self) -> Self {
        for route in &mut self.routes {
            (route.matching.hosts, route.matching.other_than) = (Vec::new(), None);
        }
        Self { hosts: Arc::new(RouteHosts::of(self.routes.iter().map(Route::hosts))), ..self }
    }

    /// The same policy with what makes owners known.
    #[must_use]
    pub fn with_owner_cookie(self, owner_cookie: Option<Arc<dyn OwnerCookie>>) -> Self {
        Self { owner_cookie, ..self }
    }

    /// The same policy with what finds out facts of clients by their addresses.
    #[must_use]
    pub fn with_lookup(self, lookup: Option<Arc<dyn ClientLookup>>) -> Self {
        Self { lookup, ..self }
    }

    /// Where a client comes from.
    pub(crate) fn origin_of(&self, client: Client) -> AddressFacts {
        self.lookup.as_ref().map(|lookup| lookup.facts(client)).unwrap_or_default()
    }

    /// The same policy with what lifts refusals.
    #[must_use]
    pub fn with_pardon(mut self, pardon: Option<Arc<dyn Pardon>>) -> Self {
        self.hidden_headers.extend(pardon.as_ref().and_then(|pardon| pardon.demand()));
        Self { pardon, ..self }
    }

    /// The same policy with what is remembered of sign-ins.
    #[must_use]
    pub fn with_owner_memory(self, owner_memory: Option<Arc<dyn OwnerMemory>>) -> Self {
        Self { owner_memory, ..self }
    }

    /// Whether an account's owner may have a separate budget.
    #[must_use]
    pub fn knows_owners(&self) -> bool {
        self.owner_cookie.is_some() || self.owner_memory.is_some()
    }

    /// The routes that a request is counted for, each once. For each reading: the first that matches, and before it the
    /// routes with a `when` and those that match by a pattern with parameters, since a client can add both to any
    /// request. If the request has `Authorization` and none of these routes reads it, the first later route that
    /// reads it, too. Until the body is read, a route that requires a field of the body counts as matching.
    #[must_use]
    pub fn routes_of(&self, attempt: &Attempt<'_>) -> MatchedRoutes {
        self.routes_by(&Inspection::of(attempt, self.names.field_names()))
    }

    /// As [`routes_of`](Self::routes_of) with the body of the attempt, from the routes before it was read. The path has passed
    /// [`check`](canonical::check).
    #[must_use]
    pub fn routes_with_body(&self, mut before: MatchedRoutes, attempt: &Attempt<'_>) -> MatchedRoutes {
        let is_empty = attempt.body == AttemptBody::Whole(&[]);
        if is_empty
            || self.body_adds_routes
            || (self.reads_authorization && field::has_authorization(attempt))
        {
            return self.routes_of(attempt);
        }
        if before.iter().any(|&route| self.routes[route].is_chosen_by_body()) {
            let fields = RequestFields::with(attempt, self.names.field_names());
            let matches = |route: usize| self.routes[route].matches_when(&self.slots[route], &fields);
            before.retain(|&mut route| matches(route));
        }
        before
    }

    fn routes_by(&self, inspection: &Inspection<'_>) -> MatchedRoutes {
        let attempt = inspection.fields.attempt;
        let mut found = MatchedRoutes::new();
        // Checks that do not depend on the path run once. The method of most requests fits no route: then the path is
        // not read.
        let possible = self.possible_routes(inspection);
        if possible.iter().all(|possible| possible.is_empty()) {
            return found;
        }
        // A body is long and a path has many readings: `when` is evaluated once for each route.
        let mut evaluated: SmallVec<[(usize, bool); 4]> = SmallVec::new();
        let mut matches_when =
            |index: usize, route: &Route| match evaluated.iter().find(|(known, _)| *known == index) {
                Some((_, matches)) => *matches,
                None => {
                    let matches = route.matches_when(&self.slots[index], &inspection.fields);
                    evaluated.push((index, matches));
                    matches
                }
            };
        let has_authorization = self.reads_authorization && inspection.fields.has_authorization();
        let mut match_reading = |reading: &[&[u8]]| {
            for possible in &possible {
                let mut search = RouteSearch { any: true, basic: has_authorization };
                for (index, route, patterns) in possible {
                    if !search.includes(route) {
                        continue;
                    }
                    let Some(is_last) = route.fits(attempt.path, reading, patterns) else { continue };
                    if !matches_when(*index, route) {
                        continue;
                    }
                    if !found.contains(index) {
                        found.push(*index);
                    }
                    search.any &= !is_last;
                    search.basic &= !route.reads_authorization();
                }
            }
        };
        let all_read = canonical::for_each_reading(attempt.path, |reading| {
            match_reading(reading);
            path_info::for_each(reading, &mut match_reading);
        });
        if all_read.is_err() {
            // The path was not checked and cannot be read: every candidate counts.
            found = possible.iter().flatten().map(|(index, ..)| *index).collect();
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// The routes whose hosts, methods and parameters fit, for each reading of the method.
    fn possible_routes<'p>(&'p self, inspection: &Inspection<'_>) -> [SmallVec<[PossibleRoute<'p>; 2]>; 3] {
        let attempt = inspection.fields.attempt;
        let parameters = QueryParameters::of(&inspection.fields, &self.parameters);
        let mut found = <[SmallVec<[PossibleRoute<'p>; 2]>; 3]>::default();
        for index in self.routes_at(attempt.host) {
            let SlottedRoute { route, slots } = self.slotted(index);
            if slots.needs_header && !inspection.fields.are_in_headers(&route.matching.when) {
                continue;
            }
            let readings = inspection.method_readings(route, slots);
            for (reading, found) in MethodReading::ALL.into_iter().zip(&mut found) {
                if !readings.has(reading) {
                    continue;
                }
                let patterns = route.possible_patterns(attempt, &parameters, reading);
                if !patterns.is_empty() {
                    found.push((index, route, patterns));
                }
            }
        }
        found
    }

    /// Whether an application with one of these routes could read the request as a write, although its method is not
    /// one.
    #[must_use]
    pub fn could_be_a_write(&self, attempt: &Attempt<'_>) -> bool {
        let inspection = Inspection::of(attempt, self.names.field_names());
        let mut routes = self.routes_at(attempt.host).into_iter().map(|index| self.slotted(index));
        routes.any(|SlottedRoute { route, slots }| inspection.method_readings(route, slots).as_write)
    }

    /// The routes that a host has, whatever is asked of it.
    fn routes_at(&self, host: &str) -> RoutePositions {
        self.hosts.routes_of(host)
    }

    /// What a body holds for this policy, in one search: for [`AttemptBody::Searched`] with the same bytes. It is the
    /// work of deciding on a long body. `before` are the routes before it was read.
    #[must_use]
    pub fn search_body(&self, before: &MatchedRoutes, attempt: &Attempt<'_>) -> BodySearch {
        let AttemptBody::Whole(bytes) = attempt.body else { return BodySearch::default() };
        let mut search = BodySearch::new(RequestFields::search_body(attempt, self.names.field_names()));
        self.count_in(&mut search, before, attempt);
        let searched = AttemptBody::Searched(SearchedBody { bytes, found: &search });
        let routes = self.routes_with_body(before.clone(), &Attempt { body: searched, ..*attempt });
        self.count_in(&mut search, &routes, attempt);
        search
    }

    /// Counts what these routes count.
    fn count_in(&self, search: &mut BodySearch, routes: &[usize], attempt: &Attempt<'_>) {
        for route in routes.iter().filter_map(|&route| self.routes.get(route)) {
            if let Cost::Counted(count) = &route.reading.cost
                && search.count(&count.name()).is_none()
            {
                search.add_count(count.name(), attempts_in(count, attempt));
            }
        }
    }

    /// What has to be read of the body to find out whether the request is an attempt on these routes, what it costs and
    /// which accounts it names; `None` if nothing. The largest body size counts: a body that is short enough for the
    /// intended route must not be refused because another reading of its path matches another route.
    ///
    /// # Errors
    /// [`Unchargeable::Unreadable`], [`Unchargeable::Undecodable`] or [`Unchargeable::UnknownCharset`] if the headers show that the body cannot be read.
    pub fn body_requirement(
        &self,
        attempt: &Attempt<'_>,
        routes: &[usize],
    ) -> Result<Option<BodyRequirement>, Unchargeable> {
        let (mut found, mut are_charsets_known) = (None::<BodyRequirement>, false);
        for route in routes.iter().map(|&route| &self.routes[route]) {
            let Needs { body: needs_whole, is_strict, .. } = route.defences.needs();
            if !needs_whole && !route.reads_bodies() {
                continue;
            }
            let (could_refuse, is_uncertain) = (self.could_refuse(route, attempt), route.is_chosen_by_body());
            let needs_accounts = route.reads_accounts() && self.needs_accounts(route);
            let needs_cost = could_refuse && route.reads_cost();
            if !(needs_cost || needs_accounts || is_uncertain || needs_whole) {
                continue;
            }
            let is_needed = (needs_accounts && is_strict)
                || (could_refuse
                    && (needs_cost || is_uncertain || (needs_accounts && self.depends_on_accounts(route))));
            let so_far = found.unwrap_or(BodyRequirement { max_bytes: 0, is_needed: false });
            if is_needed && !so_far.is_needed {
                BodyCoding::of(attempt.headers)?;
            }
            if is_needed && needs_accounts && !are_charsets_known {
                legibility::check_charsets(attempt.headers)?;
                are_charsets_known = true;
            }
            if needs_cost {
                legibility::check_headers(attempt.headers)?;
            }
            found = Some(BodyRequirement {
                max_bytes: so_far.max_bytes.max(route.reading.body),
                is_needed: so_far.is_needed || is_needed,
            });
        }
        Ok(found)
    }

    /// The routes that a request matches whatever its body is, out of those that it matches before the body is read. A
    /// body that cannot be read by its head may hold any field.
    #[must_use]
    pub fn certain_routes(&self, attempt: &Attempt<'_>, routes: &[usize]) -> MatchedRoutes {
        let is_illegible = OnceCell::new();
        let is_certain = |route: &Route| {
            !route.is_chosen_by_body()
                || (!route.reading.cost.tells_attempts()
                    && *is_illegible.get_or_init(|| !field::is_legible_by_head(attempt.headers)))
        };
        routes.iter().copied().filter(|&route| is_certain(&self.routes[route])).collect()
    }

    /// The upstream of a request: that of the first route that matches its single strict reading.
    #[must_use]
    pub fn upstream_of(&self, attempt: &Attempt<'_>) -> Option<usize> {
        let at_host = if self.names_upstreams { self.routes_at(attempt.host) } else { RoutePositions::new() };
        if at_host.iter().all(|&index| self.routes[index].upstream.is_none()) {
            return None;
        }
        let strict = canonical::strict_reading(attempt.path);
        let strict = canonical::split(&strict);
        let request = RequestFields::with(attempt, self.names.field_names());
        let parameters = QueryParameters::of(&request, &self.parameters);
        let mut routes = at_host.into_iter().map(|index| self.slotted(index));
        let is_met = |found: &SlottedRoute<'_>| {
            found.route.matches_strictly(found.slots, &request, &parameters, &strict)
        };
        routes.find(is_met)?.route.upstream
    }

    /// The names of query parameters with private values: a route reads an account or a password there, or the name
    /// sounds like a password.
    #[must_use]
    pub fn private_names(&self) -> &PrivateNames {
        &self.names
    }

    /// The headers in which applications tell the gate of attempts: no client sees them.
    pub fn hidden_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.hidden_headers.iter()
    }

    /// Position of the rate limit that this limit belongs to; its own if it is the rate limit.
    #[must_use]
    pub fn rate_limit_of(&self, limit: usize) -> usize {
        let is_rate = |at: &usize| self.limits.get(*at).is_some_and(|limit| limit.kind == LimitKind::Rate);
        (0..=limit).rev().find(is_rate).unwrap_or(limit)
    }
}

/// The parameters of all patterns, in alphabetical order.
fn parameters_of(routes: &[Route]) -> Vec<ParameterPattern> {
    let patterns = routes.iter().flat_map(|route| &route.matching.patterns);
    let mut parameters: Vec<ParameterPattern> = patterns.flat_map(Pattern::parameters).cloned().collect();
    parameters.sort_unstable();
    parameters.dedup();
    parameters
}
