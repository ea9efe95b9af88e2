//! Who pays what: from a request to the buckets that it is charged to.
//!
//! Routes say what is an attempt, limits say how often. This layer knows HTTP's types and nothing that reads or
//! writes a socket. The surprising thing: a path with several readings is charged for the first matching route of
//! *each* reading, so that a cheap route cannot hide an expensive one.

pub mod account;
pub mod attempt;
pub mod canonical;
mod carried;
mod charges;
mod cookies;
pub mod count;
pub mod device;
pub mod field;
mod file_name;
pub mod holder;
pub mod key;
mod limit;
pub mod matcher;
mod method;
pub mod network;
pub mod outcome;
pub mod path_info;
pub mod query;
mod route;
mod subject;

pub use self::charges::{Charge, Charges, Unchargeable};
pub use self::limit::{Facet, Limit, Mode, Rate, Spends, Unit};
pub use self::route::{BODY, Cost, Route};

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use self::attempt::Attempt;
use self::carried::Carried;
use self::device::Devices;
use self::matcher::Taken;
use self::method::Ways;

/// All routes and limits, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// What is protected; for each reading of a request the first that matches counts.
    pub routes: Vec<Route>,
    /// How often; charged in this order.
    pub limits: Vec<Limit>,
    /// Known devices, if there is such a thing.
    pub devices: Option<Arc<Devices>>,
}

/// A body that has to be read before anybody can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToRead {
    /// Bytes of it that are read at most.
    pub most: usize,
    /// Whether a longer one is refused: a limit that could refuse the attempt depends on what stands in it.
    pub refuse_longer: bool,
    /// Whether it is an attempt at all stands in it.
    pub may_be_none: bool,
}

impl Policy {
    /// These routes and limits, and no known devices.
    #[must_use]
    pub fn new(routes: Vec<Route>, limits: Vec<Limit>) -> Self {
        Self { routes, limits, devices: None }
    }

    /// The routes that a request is counted for: for each reading the first that matches, each once. One that
    /// wants a field of the body is among them until the body was read.
    #[must_use]
    pub fn routes_of(&self, attempt: &Attempt<'_>) -> SmallVec<[usize; 2]> {
        let mut found = SmallVec::new();
        let carried = Carried::of(attempt);
        let ways = self.routes.iter().map(|route| carried.ways(route));
        let ways: SmallVec<[Ways; 32]> = ways.collect();
        // Most requests are about no route at all, by their method alone: then nobody has to read the path.
        if ways.iter().all(|ways| *ways == Ways::NONE) {
            return found;
        }
        // A body is long and a path has many readings: what stands in the body is looked up once for each route.
        let mut meant: SmallVec<[(usize, bool); 4]> = SmallVec::new();
        let mut is_meant = |index: usize, route: &Route| match meant.iter().find(|(known, _)| *known == index)
        {
            Some((_, is_meant)) => *is_meant,
            None => {
                let is_meant = route.is_meant(attempt);
                meant.push((index, is_meant));
                is_meant
            }
        };
        let readings = canonical::readings(attempt.path);
        let behind_scripts = readings.iter().flat_map(|reading| path_info::readings(reading));
        for reading in readings.iter().map(|reading| Cow::Borrowed(&reading[..])).chain(behind_scripts) {
            for taken in Taken::ALL {
                let mut routes = self.routes.iter().enumerate();
                let first = routes.find(|(index, route)| {
                    ways[*index].has(taken)
                        && route.matches(attempt, &reading, taken)
                        && is_meant(*index, route)
                });
                if let Some((index, _)) = first
                    && !found.contains(&index)
                {
                    found.push(index);
                }
            }
        }
        found
    }

    /// Whether an application that has one of these routes could take it for a write, although its method says otherwise.
    #[must_use]
    pub fn could_be_a_write(&self, attempt: &Attempt<'_>) -> bool {
        let carried = Carried::of(attempt);
        self.routes.iter().any(|route| carried.ways(route).as_write)
    }

    /// What has to be read of the attempt's body before anybody can say whether it is one, what it costs and whom it is
    /// about; `None` if none of that stands there, or nobody asks. Of several routes the one that takes the longest bodies
    /// counts: what is short enough for the route that is meant must not be refused because another reading of its path is
    /// about another.
    ///
    /// # Errors
    /// [`Unchargeable::Unreadable`] if there is no use in reading it.
    pub fn to_read(&self, attempt: &Attempt<'_>) -> Result<Option<ToRead>, Unchargeable> {
        if !self.routes.iter().any(Route::reads_bodies) {
            return Ok(None);
        }
        let mut found: Option<ToRead> = None;
        for route in self.routes_of(attempt) {
            let route = &self.routes[route];
            let (could_refuse, may_be_none) = (self.could_refuse(route, attempt), route.is_chosen_by_body());
            let asked = route.reads_accounts() && self.asks_for_accounts(route);
            let priced = could_refuse && route.reads_cost();
            if !(priced || asked || may_be_none) {
                continue;
            }
            if priced {
                count::check_headers(attempt.headers)?;
            }
            let so_far = found.unwrap_or(ToRead { most: 0, refuse_longer: false, may_be_none: false });
            found = Some(ToRead {
                most: so_far.most.max(route.body),
                refuse_longer: so_far.refuse_longer || could_refuse,
                may_be_none: so_far.may_be_none || may_be_none,
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
        self.routes.iter().find(|route| route.matches_strictly(attempt))?.upstream
    }

    /// Whether the value of this parameter of a query, its name as it was sent, is nobody's business: a route reads an
    /// account or a password there, or it sounds like a password.
    #[must_use]
    pub fn is_private(&self, name: &str) -> bool {
        let fields = |route: &Route| {
            [&route.user, &route.password, &route.when].map(|list| field::are_named(list, name))
        };
        query::sounds_like_a_password(&query::decode(name))
            || self.routes.iter().any(|route| fields(route).contains(&true))
    }

    /// Position of the limit that this one is a facet of; its own, if it is the one with the rate.
    #[must_use]
    pub fn owner_of(&self, limit: usize) -> usize {
        let rates = self.limits.iter().take(limit + 1).enumerate().rev();
        rates.filter(|(_, limit)| limit.facet == Facet::Rate).map(|(at, _)| at).next().unwrap_or(limit)
    }
}
