//! Who pays what: from a request to the buckets that it is charged to.
//!
//! Routes say what is an attempt, limits say how often. This layer knows HTTP's types and nothing that reads or
//! writes a socket. The surprising thing: a path with several readings is charged for the first matching route of
//! *each* reading, so that a cheap route cannot hide an expensive one.

pub mod account;
pub mod attempt;
pub mod canonical;
pub mod count;
pub mod device;
pub mod field;
pub mod key;
pub mod matcher;
pub mod network;
pub mod outcome;
pub mod query;

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use self::attempt::{Attempt, Body};
use self::count::{Count, Unreadable};
use self::device::Devices;
use self::field::Field;
use self::key::{KeyHasher, Part, PrefixLengths, TooManyValues};
use self::matcher::{Case, HostPattern, Pattern};
use self::network::{NetworkMap, NetworkSet};
use crate::bucket::{Key, Spec};

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
    pub rules: outcome::Rules,
    /// Any of these hosts; empty means any host.
    pub hosts: Vec<HostPattern>,
    /// Whether letter case distinguishes paths.
    pub case: Case,
    /// Tokens an attempt takes.
    pub cost: Cost,
    /// Bytes of a request's body that are read where its cost depends on it.
    pub body: usize,
    /// Attempts at the upstream at once, and those that are held; `None` means any number.
    pub in_flight: Option<u32>,
    /// Indices into [`Policy::limits`], ascending.
    pub limits: Vec<usize>,
    /// Where its requests go; `None` is the default upstream. An index that the proxy layer understands.
    pub upstream: Option<usize>,
}

/// Tokens an attempt takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cost {
    /// Always as many, at least 1.
    Fixed(u32),
    /// As many as its body makes attempts at once.
    Counted(Count),
}

/// How often: `[limit.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The identity in metrics, headers, admin paths and buckets.
    pub name: Arc<str>,
    /// What the bucket is kept for, joined by `+` in the file.
    pub key: Vec<Part>,
    /// How many leading bits of an address make a bucket.
    pub prefixes: PrefixLengths,
    /// The bucket of everybody who has no other rate.
    pub spec: Spec,
    /// Other rates for some clients; the longest prefix wins.
    pub rates: NetworkMap<Rate>,
    /// Clients that this limit does not see.
    pub exempt: NetworkSet,
    /// Whether a refusal of this limit refuses.
    pub mode: Mode,
    /// What its tokens are spent on in the end.
    pub spends: Spends,
    /// What is counted once.
    pub unit: Unit,
    /// What it is of the limit of its name.
    pub facet: Facet,
}

/// What tokens are spent on: `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spends {
    /// On every attempt.
    Attempts,
    /// On attempts that failed: the others get theirs back.
    Failures,
}

/// What is counted once: `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: every attempt counts.
    Attempts,
    /// An account that was tried lately.
    Users,
    /// A password that was tried lately for its account.
    Passwords,
}

/// A limit may keep several buckets for each key: each is a limit of the same name, and follows the one with the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facet {
    /// What `rate` says.
    Rate,
    /// What `max_failures` says: tokens that only a success brings back.
    Cap,
    /// What `escalate` says: waits that grow.
    Escalation,
}

/// The rate of clients who have another one than the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The name or prefix in the file: part of the bucket's identity, so that a narrower client in a wider
    /// bucket's prefix keeps a bucket of its own.
    pub class: Arc<str>,
    /// Counts the limit's classes, from 1; clients without another rate are class 0.
    pub number: usize,
    /// `None` means no limit.
    pub spec: Option<Spec>,
}

/// What a limit does with what it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses.
    Enforce,
    /// Decides, logs and counts, but never refuses.
    Observe,
    /// Is not there.
    Off,
}

/// One bucket that an attempt is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Index into [`Policy::limits`].
    pub limit: usize,
    /// The bucket.
    pub key: Key,
    /// Which of the limit's rates it has: [`Rate::number`].
    pub class: usize,
    /// What it promises.
    pub spec: Spec,
    /// Tokens it has to give, at least 1.
    pub cost: u32,
    /// What is counted once, where the limit counts something once: a hash of it.
    pub tag: Option<u64>,
    /// Whether its refusal refuses the attempt.
    pub enforce: bool,
}

/// Why an attempt cannot be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unchargeable {
    /// It names more buckets at once than could honestly be meant.
    #[error(transparent)]
    TooManyValues(#[from] TooManyValues),
    /// Nobody can say how many attempts its body makes.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// What the policy says about a request.
#[derive(Debug, Clone, Default)]
pub struct Charges {
    /// The routes that matched, indices into [`Policy::routes`]; none: not an attempt.
    pub routes: SmallVec<[usize; 2]>,
    /// The buckets to pay from, by limit.
    pub charges: SmallVec<[Charge; 2]>,
    /// The limits that do not see this client.
    pub exempt: SmallVec<[usize; 2]>,
}

impl Policy {
    /// These routes and limits, and no known devices.
    #[must_use]
    pub fn new(routes: Vec<Route>, limits: Vec<Limit>) -> Self {
        Self { routes, limits, devices: None }
    }

    /// The buckets that an attempt is charged to.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn charges(&self, attempt: &Attempt<'_>, hasher: &KeyHasher) -> Result<Charges, Unchargeable> {
        let mut found = Charges { routes: self.routes_of(attempt), ..Charges::default() };
        for route in found.routes.clone() {
            let cost = self.routes[route].cost.of(attempt)?;
            for &limit in &self.routes[route].limits {
                self.charge(limit, cost, attempt, hasher, &mut found)?;
            }
        }
        if found.charges.len() > 1 {
            found.charges.sort_by_key(|charge| charge.limit);
        }
        Ok(found)
    }

    /// The routes that a request is counted for: for each reading the first that matches, each once.
    #[must_use]
    pub fn routes_of(&self, attempt: &Attempt<'_>) -> SmallVec<[usize; 2]> {
        let mut found = SmallVec::new();
        let as_write = attempt.could_be_a_write();
        // Most requests are about no route at all, by their method alone: then nobody has to read the path.
        if !self.routes.iter().any(|route| route.could_match(attempt, as_write)) {
            return found;
        }
        let methods: &[bool] = if as_write { &[false, true] } else { &[false] };
        for reading in canonical::readings(attempt.path) {
            for &as_write in methods {
                let matching = |route: &Route| route.matches(attempt, &reading, as_write);
                if let Some(index) = self.routes.iter().position(matching)
                    && !found.contains(&index)
                {
                    found.push(index);
                }
            }
        }
        found
    }

    /// How many bytes of the attempt's body have to be read before anybody can say what it costs; `None` if the body
    /// does not matter, because no limit that could refuse it depends on that: whoever is exempt sends what it likes, and
    /// a limit that only observes refuses nothing. Of several routes the one that takes the longest bodies counts: what is
    /// short enough for the route that is meant must not be refused because another reading of its path is about another.
    ///
    /// # Errors
    /// [`Unchargeable::Unreadable`] if there is no use in reading it.
    pub fn body_of(&self, attempt: &Attempt<'_>) -> Result<Option<usize>, Unchargeable> {
        if !self.routes.iter().any(Route::reads_bodies) {
            return Ok(None);
        }
        let could_refuse = |&limit: &usize| {
            let limit = &self.limits[limit];
            limit.mode == Mode::Enforce && limit.rate_of(attempt).is_some()
        };
        let routes = self.routes_of(attempt).into_iter().map(|route| &self.routes[route]);
        let reading = routes.filter(|route| route.reads_bodies() && route.limits.iter().any(could_refuse));
        let longest = reading.map(|route| route.body).max();
        if longest.is_some() {
            count::check_headers(attempt.headers)?;
        }
        Ok(longest)
    }

    /// Where a request goes: the upstream of the first route that its one strict reading matches.
    #[must_use]
    pub fn upstream_of(&self, attempt: &Attempt<'_>) -> Option<usize> {
        if self.routes.iter().all(|route| route.upstream.is_none()) {
            return None;
        }
        self.routes.iter().find(|route| route.matches_strictly(attempt))?.upstream
    }

    fn charge(
        &self,
        index: usize,
        cost: u32,
        attempt: &Attempt<'_>,
        hasher: &KeyHasher,
        found: &mut Charges,
    ) -> Result<(), TooManyValues> {
        let limit = &self.limits[index];
        if limit.mode == Mode::Off {
            return Ok(());
        }
        let Some((class, name, spec)) = limit.rate_of(attempt) else {
            if !found.exempt.contains(&index) {
                found.exempt.push(index);
            }
            return Ok(());
        };
        for key in hasher.keys(&limit.name, name, &limit.key, limit.prefixes, attempt)? {
            match found.charges.iter_mut().find(|charge| charge.limit == index && charge.key == key) {
                Some(charge) => charge.cost = charge.cost.max(cost),
                None => found.charges.push(Charge {
                    limit: index,
                    key,
                    class,
                    spec,
                    cost,
                    tag: None,
                    enforce: limit.mode == Mode::Enforce,
                }),
            }
        }
        Ok(())
    }
}

impl Cost {
    /// Before the body was read it is the least that it can be.
    fn of(&self, attempt: &Attempt<'_>) -> Result<u32, Unreadable> {
        match (self, attempt.body) {
            (Self::Fixed(tokens), _) => Ok(*tokens),
            (Self::Counted(_), Body::Unread) => Ok(1),
            (Self::Counted(_), Body::TooLong) => Err(Unreadable),
            (Self::Counted(count), Body::Whole(body)) => {
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
            rules: outcome::Rules::default(),
            hosts: Vec::new(),
            case: Case::default(),
            cost: Cost::Fixed(1),
            body: BODY,
            in_flight: None,
            limits: Vec::new(),
            upstream: None,
        }
    }

    fn reads_bodies(&self) -> bool {
        matches!(self.cost, Cost::Counted(_))
    }

    fn could_match(&self, attempt: &Attempt<'_>, as_write: bool) -> bool {
        self.host_fits(attempt.host) && self.patterns.iter().any(|p| p.could_match(attempt.method, as_write))
    }

    fn matches(&self, attempt: &Attempt<'_>, reading: &[u8], as_write: bool) -> bool {
        self.host_fits(attempt.host)
            && self.patterns.iter().any(|pattern| pattern.matches(attempt, reading, as_write, self.case))
    }

    fn matches_strictly(&self, attempt: &Attempt<'_>) -> bool {
        self.host_fits(attempt.host) && self.patterns.iter().any(|p| p.matches_strictly(attempt))
    }

    fn host_fits(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|pattern| pattern.matches(host))
    }
}

impl Limit {
    /// A limit that keeps such a bucket for each client; all else as it is where the file says nothing.
    #[must_use]
    pub fn new(name: &str, spec: Spec) -> Self {
        Self {
            name: name.into(),
            key: vec![Part::Ip],
            prefixes: PrefixLengths::default(),
            spec,
            rates: NetworkMap::default(),
            exempt: NetworkSet::default(),
            mode: Mode::Enforce,
            spends: Spends::Attempts,
            unit: Unit::Attempts,
            facet: Facet::Rate,
        }
    }

    /// The number and name of the class that this client belongs to, and the bucket that its members have; `None`:
    /// this limit does not see it.
    #[must_use]
    pub fn rate_of(&self, attempt: &Attempt<'_>) -> Option<(usize, &str, Spec)> {
        let Some(ip) = attempt.client.ip() else { return Some((0, "", self.spec)) };
        if self.exempt.contains(ip) {
            return None;
        }
        match self.rates.find(ip) {
            Some(rate) => rate.spec.map(|spec| (rate.number, &*rate.class, spec)),
            None => Some((0, "", self.spec)),
        }
    }

    /// Whether it never shows itself in an answer, because its buckets are those of accounts: nobody is to learn which
    /// accounts there are, and which are under attack.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        false
    }

    /// Names and buckets of all classes of clients, by number.
    #[must_use]
    pub fn classes(&self) -> Vec<(Arc<str>, Option<Spec>)> {
        let others: BTreeMap<usize, &Rate> = self.rates.iter().map(|(_, rate)| (rate.number, rate)).collect();
        let mut classes = vec![("".into(), Some(self.spec))];
        for (number, rate) in others {
            // A class that resolves to no network has no clients.
            classes.resize(number, ("".into(), None));
            classes.push((Arc::clone(&rate.class), rate.spec));
        }
        classes
    }
}

/// `route.body` where the file does not say: what a form or a call fills many times over.
pub const BODY: usize = 64 * 1024;
