//! From a request to its charges: the buckets that an attempt takes tokens from.
//!
//! Routes say what is an attempt, limits say how often. This layer knows HTTP's types and nothing that reads or
//! writes a socket. The surprising thing: a path with several readings is charged for the first matching route of
//! *each* reading, so that a cheap route cannot hide an expensive one.

pub mod account;
pub mod attempt;
pub mod bucket_ref;
pub mod canonical;
mod charges;
mod cookies;
pub mod count;
mod credential_locations;
pub mod device;
pub mod field;
mod file_name;
mod identity;
mod inspection;
pub mod key;
mod limit;
pub mod matcher;
mod method;
pub mod network;
pub mod outcome;
mod password_name;
pub mod path_info;
pub mod query;
mod route;
mod urlencoded;

pub use self::charges::{Charge, Charges, Unchargeable};
pub use self::limit::{ChargeOn, ClassRate, Limit, LimitKind, Mode, Unit};
pub use self::query::PrivateNames;
pub use self::route::{Cost, DEFAULT_BODY_BYTES, Route};

use std::sync::Arc;

use smallvec::SmallVec;

use self::attempt::Attempt;
use self::device::Devices;
use self::field::{FieldNames, NameKinds, RequestFields};
use self::inspection::Inspection;
use self::matcher::{MethodReading, Pattern};
use self::method::MethodReadings;
use self::query::{ParameterPattern, QueryParameters};
use self::route::RouteFieldSlots;

/// All routes and limits, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// What is protected; for each reading of a request the first that matches counts.
    pub routes: Vec<Route>,
    /// How often; charged in this order.
    pub limits: Vec<Limit>,
    /// Known devices, if there is such a thing.
    pub devices: Option<Arc<Devices>>,
    /// Of all routes.
    names: PrivateNames,
    /// Where those of each route stand among them.
    slots: Vec<RouteFieldSlots>,
    /// All that patterns name, in alphabetical order.
    parameters: Vec<ParameterPattern>,
}

/// A body that has to be read before anybody can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRequirement {
    /// Bytes of it that are read at most.
    pub max_bytes: usize,
    /// Whether a longer one is refused: a limit that could refuse the attempt depends on what stands in it.
    pub refuse_longer: bool,
    /// Whether it is an attempt at all stands in it.
    pub may_be_no_attempt: bool,
}

/// A route, its place among all, and which of its patterns a request fits but for its path.
type Candidate<'p> = (usize, &'p Route, SmallVec<[&'p Pattern; 2]>);

/// Which routes are still looked for.
struct RouteSearch {
    any: bool,
    /// Those that read Basic.
    basic: bool,
}

impl RouteSearch {
    fn includes(&self, route: &Route) -> bool {
        self.any || (self.basic && route.reads_basic())
    }
}

impl Policy {
    /// These routes and limits, and no known devices.
    #[must_use]
    pub fn new(routes: Vec<Route>, limits: Vec<Limit>) -> Self {
        let fields = routes.iter().flat_map(|route| [&route.user, &route.password, &route.when]).flatten();
        let parameters = parameters_of(&routes);
        let known = FieldNames::of(fields)
            .and(NameKinds::PARAMETER, parameters.iter().map(|(name, _)| name.as_str()))
            .and(NameKinds::METHOD, inspection::PARAMETERS.into_iter());
        let names = PrivateNames::of(known);
        let places = routes.iter().map(|route| RouteFieldSlots::of(route, names.field_names())).collect();
        Self { routes, limits, devices: None, names, slots: places, parameters }
    }

    /// The same with known devices.
    #[must_use]
    pub fn with_devices(self, devices: Option<Arc<Devices>>) -> Self {
        Self { devices, ..self }
    }

    /// The routes that a request is counted for: for each reading the first that matches, and before it those with a `when`
    /// and those that match by a pattern with parameters, since a client can add both to any request. If none of them reads
    /// Basic and the request has it, the first behind them that does as well: it is there beside whatever they read. Each
    /// once. One that wants a field of the body is among them until the body was read.
    #[must_use]
    pub fn routes_of(&self, attempt: &Attempt<'_>) -> SmallVec<[usize; 2]> {
        self.routes_by(&Inspection::of(attempt, self.names.field_names()))
    }

    fn routes_by(&self, carried: &Inspection<'_>) -> SmallVec<[usize; 2]> {
        let attempt = carried.fields.attempt;
        let mut found = SmallVec::new();
        // What does not depend on the path is asked once. Most requests are about no route at all, by their method alone:
        // then nobody has to read the path.
        let candidates = self.candidates(carried);
        if candidates.iter().all(|candidates| candidates.is_empty()) {
            return found;
        }
        // A body is long and a path has many readings: what stands there is looked up once for each route.
        let mut meant: SmallVec<[(usize, bool); 4]> = SmallVec::new();
        let mut is_meant = |index: usize, route: &Route| match meant.iter().find(|(known, _)| *known == index)
        {
            Some((_, is_meant)) => *is_meant,
            None => {
                let is_meant = route.matches_when(&self.slots[index], &carried.fields);
                meant.push((index, is_meant));
                is_meant
            }
        };
        let has_basic = field::has_basic(attempt);
        let mut visit = |reading: &[&[u8]]| {
            for candidates in &candidates {
                let mut wanted = RouteSearch { any: true, basic: has_basic };
                for (index, route, patterns) in candidates {
                    if !wanted.includes(route) {
                        continue;
                    }
                    let Some(is_last) = route.fits(attempt.path, reading, patterns) else { continue };
                    if !is_meant(*index, route) {
                        continue;
                    }
                    if !found.contains(index) {
                        found.push(*index);
                    }
                    wanted.any &= !is_last;
                    wanted.basic &= !route.reads_basic();
                }
            }
        };
        let all_read = canonical::for_each_reading(attempt.path, |reading| {
            visit(reading);
            path_info::for_each(reading, &mut visit);
        });
        if all_read.is_err() {
            // Nobody has checked the path: whatever it could be about has to count.
            found = candidates.iter().flatten().map(|(index, ..)| *index).collect();
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// The routes whose hosts, methods and parameters fit, for each way to take the method.
    fn candidates<'p>(&'p self, carried: &Inspection<'_>) -> [SmallVec<[Candidate<'p>; 4]>; 3] {
        let attempt = carried.fields.attempt;
        let parameters = QueryParameters::of(&carried.fields, &self.parameters);
        let routes = self.routes.iter().zip(&self.slots);
        let ways: SmallVec<[MethodReadings; 32]> =
            routes.map(|(route, places)| carried.method_readings(route, places)).collect();
        MethodReading::ALL.map(|taken| {
            let routes = self.routes.iter().enumerate().filter(|(index, _)| ways[*index].has(taken));
            let routes =
                routes.map(|(index, route)| (index, route, route.candidates(attempt, &parameters, taken)));
            routes.filter(|(_, _, patterns)| !patterns.is_empty()).collect()
        })
    }

    /// Whether an application that has one of these routes could take it for a write, although its method says otherwise.
    #[must_use]
    pub fn could_be_a_write(&self, attempt: &Attempt<'_>) -> bool {
        let carried = Inspection::of(attempt, self.names.field_names());
        self.routes
            .iter()
            .zip(&self.slots)
            .any(|(route, places)| carried.method_readings(route, places).as_write)
    }

    /// What has to be read of the attempt's body before anybody can say whether it is one, what it costs and whom it is
    /// about; `None` if none of that stands there, or nobody asks. Of several routes the one that takes the longest bodies
    /// counts: what is short enough for the route that is meant must not be refused because another reading of its path is
    /// about another.
    ///
    /// # Errors
    /// [`Unchargeable::Unreadable`] if there is no use in reading it.
    pub fn body_requirement(&self, attempt: &Attempt<'_>) -> Result<Option<BodyRequirement>, Unchargeable> {
        if !self.routes.iter().any(Route::reads_bodies) {
            return Ok(None);
        }
        let mut found: Option<BodyRequirement> = None;
        for route in self.routes_of(attempt) {
            let route = &self.routes[route];
            let (could_refuse, may_be_none) = (self.could_refuse(route, attempt), route.is_chosen_by_body());
            let asked = route.reads_accounts() && self.needs_accounts(route);
            let priced = could_refuse && route.reads_cost();
            if !(priced || asked || may_be_none) {
                continue;
            }
            if priced {
                count::check_headers(attempt.headers)?;
            }
            let so_far = found.unwrap_or(BodyRequirement {
                max_bytes: 0,
                refuse_longer: false,
                may_be_no_attempt: false,
            });
            found = Some(BodyRequirement {
                max_bytes: so_far.max_bytes.max(route.body),
                refuse_longer: so_far.refuse_longer || could_refuse,
                may_be_no_attempt: so_far.may_be_no_attempt || may_be_none,
            });
        }
        Ok(found)
    }

    /// Where a request goes: the upstream of the first route that its one strict reading matches.
    #[must_use]
    pub fn upstream_of(&self, attempt: &Attempt<'_>) -> Option<usize> {
        if self.routes.iter().all(|route| route.upstream.is_none()) {
            return None;
        }
        let strict = canonical::strict_reading(attempt.path);
        let strict = canonical::split(&strict);
        let sent = RequestFields::with(attempt, self.names.field_names());
        let parameters = QueryParameters::of(&sent, &self.parameters);
        let mut routes = self.routes.iter().zip(&self.slots);
        routes.find(|(route, places)| route.matches_strictly(places, &sent, &parameters, &strict))?.0.upstream
    }

    /// Names of parameters of a query whose value is nobody's business: a route reads an account or a password there, or
    /// they sound like a password.
    #[must_use]
    pub fn private_names(&self) -> &PrivateNames {
        &self.names
    }

    /// Position of the limit that this one is a facet of; its own, if it is the one with the rate.
    #[must_use]
    pub fn rate_limit_of(&self, limit: usize) -> usize {
        let rates = self.limits.iter().take(limit + 1).enumerate().rev();
        rates.filter(|(_, limit)| limit.kind == LimitKind::Rate).map(|(at, _)| at).next().unwrap_or(limit)
    }
}

/// All that patterns name, in alphabetical order.
fn parameters_of(routes: &[Route]) -> Vec<ParameterPattern> {
    let patterns = routes.iter().flat_map(|route| &route.patterns);
    let mut parameters: Vec<ParameterPattern> = patterns.flat_map(Pattern::parameters).cloned().collect();
    parameters.sort_unstable();
    parameters.dedup();
    parameters
}
