//! The engine: policy, store and clock decide on an attempt, and the result goes out as events.
//!
//! It neither knows sockets nor formats answers. The surprising thing: a taken token is a value, a [`Reservation`];
//! dropping it keeps the charge, so that a client wins nothing by hanging up.

mod bucket_admin;
mod concurrency_limit;
mod freeze;
mod limit_status;
mod limiter;
mod pending_decision;
mod reservation;
mod rules;
mod snapshot;
mod store_observer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::{ArcSwap, Guard};

pub use self::bucket_admin::{BucketAdminError, BucketLevel, BucketReport, BucketView};
pub use self::concurrency_limit::ConcurrencyPermits;
pub use self::limit_status::{LimitStatus, LimitStatuses};
pub use self::limiter::{Limiter, Limits, TakeOutcome};
pub use self::pending_decision::{DecisionState, PendingDecision};
pub use self::reservation::Reservation;
pub use self::rules::Rules;
pub use self::store_observer::store_observer;

use self::limit_status::longest_wait;
use self::pending_decision::DecidedBy;
use self::rules::specs;
use crate::bucket::Op;
use crate::event::{Event, Events, LimitDecision};
use crate::policy::attempt::Attempt;
use crate::policy::key::KeyHasher;
use crate::policy::{Charge, Charges, Limit, Policy, Unchargeable};
use crate::store::memory as store;
use crate::store::memory::{Buckets, Stale, TooLarge, Withdrawal, refuse_all, take_all};
use crate::store::shared::{Mirror, SharedStore, StoreOp};
use crate::time::{Clock, Span, Time};

/// Decides on attempts.
#[derive(Debug)]
pub struct Engine {
    clock: Clock,
    hasher: KeyHasher,
    capacity: usize,
    events: Events,
    rules: ArcSwap<Rules>,
    /// Where the buckets are; in memory, if there is none.
    shared: Option<Arc<SharedStore>>,
    /// Nothing is decided here any more.
    frozen: AtomicBool,
}

/// What the engine says to a request.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// No route is about it: it is forwarded and never counted.
    Uncounted,
    /// Every limit had the tokens.
    Admitted(Reservation),
    /// Some limit had not.
    Refused(Refusal),
    /// The store is away, and nobody is to be admitted meanwhile.
    Denied,
}

/// Why nothing was decided, and nothing taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The attempt cannot be charged.
    #[error(transparent)]
    Unchargeable(#[from] Unchargeable),
    /// Other rules are in force by now: decide again, by those.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Another process decides from now on.
    #[error("nothing is decided here any more")]
    Frozen,
}

/// Why an attempt was refused.
#[derive(Debug)]
pub struct Refusal {
    /// Position of the route.
    pub route: usize,
    /// The longest wait of all refusing limits; `None` if one of them does not open with time.
    pub wait: Option<Span>,
    /// What each limit said.
    pub statuses: LimitStatuses,
}

impl Engine {
    /// An engine with empty memory and room for `capacity` buckets for each limit.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn new(policy: Policy, capacity: usize, clock: Clock, events: Events) -> Result<Self, TooLarge> {
        let buckets = policy.limits.iter().map(|limit| Buckets::new(capacity, &specs(limit)).map(Arc::new));
        let buckets = buckets.collect::<Result<_, _>>()?;
        let flights = policy.routes.iter().map(|_| Arc::default()).collect();
        let rules =
            Rules { generation: 0, policy, buckets, mirrors: Vec::new(), concurrency_limits: flights };
        events.emit(&Event::Rules { generation: 0, policy: &rules.policy });
        Ok(Self {
            clock,
            hasher: KeyHasher::default(),
            capacity,
            events,
            rules: ArcSwap::from_pointee(rules),
            shared: None,
            frozen: AtomicBool::default(),
        })
    }

    /// The same with the buckets in a store that several gates share; only before the first attempt. All gates have to name
    /// buckets under the same secret.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space for what is kept here of them.
    pub fn with_store(self, shared: Arc<SharedStore>, hasher: KeyHasher) -> Result<Self, TooLarge> {
        let Rules { policy, buckets, .. } = &**self.rules.load();
        let mirrors =
            policy.limits.iter().zip(buckets).map(|(limit, buckets)| Mirror::new(&limit.name, buckets));
        let mirrors = mirrors.map(|mirror| mirror.map(Arc::new)).collect::<Result<_, _>>()?;
        let flights = policy.routes.iter().map(|_| Arc::default()).collect();
        let rules = Rules {
            generation: 0,
            policy: policy.clone(),
            buckets: buckets.clone(),
            mirrors,
            concurrency_limits: flights,
        };
        Ok(Self { hasher, shared: Some(shared), rules: ArcSwap::from_pointee(rules), ..self })
    }

    /// The store that several gates share, if the buckets are in one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<SharedStore>> {
        self.shared.as_ref()
    }

    /// The same with buckets that are named under another secret; only before the first attempt.
    #[must_use]
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        Self { hasher, ..self }
    }

    /// Puts other rules in force, at once. Limits that keep their name keep their buckets; where a limit promises
    /// something else from now on, the buckets keep their fill level in proportion.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space; the old rules stay.
    pub fn replace(&self, policy: Policy) -> Result<(), TooLarge> {
        self.replace_and(policy, |_| {})
    }

    /// The same where rules are handed to those who decide by something else than [`rules`](Self::rules): `publish`
    /// does. It has to be quick: from just before until then an attempt on a limit that has changed is
    /// [`Undecided::Stale`].
    ///
    /// # Errors
    /// [`TooLarge`] as above; nothing is published.
    pub fn replace_and(&self, policy: Policy, publish: impl FnOnce(&Arc<Rules>)) -> Result<(), TooLarge> {
        let old = self.rules.load_full();
        let now = self.time();
        let buckets = policy.limits.iter().map(|limit| old.buckets_for(limit, self.capacity, now));
        let buckets = buckets.collect::<Result<Vec<_>, _>>()?;
        let mirrors = self.mirrors_for(&old, &policy, &buckets)?;
        let flights = policy.routes.iter().map(|route| old.concurrency_limit_for(&route.name)).collect();
        let rules = Arc::new(Rules {
            generation: old.generation + 1,
            policy,
            buckets,
            mirrors,
            concurrency_limits: flights,
        });
        self.events.emit(&Event::Rules { generation: rules.generation, policy: &rules.policy });
        // Of a shared store these are mirrors: whatever is decided by old ones is in the store all the same.
        for former in old.buckets.iter().filter(|_| self.shared.is_none()) {
            if !rules.buckets.iter().any(|kept| Arc::ptr_eq(kept, former)) {
                former.close();
            }
        }
        publish(&rules);
        self.rules.store(rules);
        Ok(())
    }

    fn mirrors_for(
        &self,
        old: &Rules,
        policy: &Policy,
        buckets: &[Arc<Buckets>],
    ) -> Result<Vec<Arc<Mirror>>, TooLarge> {
        if self.shared.is_none() {
            return Ok(Vec::new());
        }
        let mirror = |(limit, buckets): (&Limit, &Arc<Buckets>)| {
            let same = old.buckets.iter().position(|known| Arc::ptr_eq(known, buckets));
            match same {
                Some(at) => Ok(Arc::clone(&old.mirrors[at])),
                None => Mirror::new(&limit.name, buckets).map(Arc::new),
            }
        };
        policy.limits.iter().zip(buckets).map(mirror).collect()
    }

    /// Lets go of what was kept for a change of the rules and is of no use any more.
    pub fn release(&self) {
        let now = self.time();
        self.rules().buckets.iter().for_each(|buckets| buckets.release(now));
    }

    /// The rules in force.
    pub fn rules(&self) -> Guard<Arc<Rules>> {
        self.rules.load()
    }

    /// The clock that decides.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time that decides: the store's, where several gates share one.
    #[must_use]
    pub fn time(&self) -> Time {
        self.shared.as_ref().map_or_else(|| self.clock.now(), |shared| shared.now())
    }

    /// Takes the tokens that an attempt costs, all or none: at once where the buckets are in memory, or where it is known
    /// already what a shared store would say.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn decide(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        now: Time,
    ) -> Result<DecisionState, Undecided> {
        let Some(shared) = &self.shared else {
            return self.decide_in_memory(rules, attempt, now).map(DecisionState::Ready);
        };
        let found = rules.policy.charges(attempt, &self.hasher, now)?;
        if found.routes.is_empty() {
            return Ok(DecisionState::Ready(Decision::Uncounted));
        }
        let now = shared.time(now);
        Ok(match self.refuse_by_mirror(rules, &found, now) {
            Some(refusal) => DecisionState::Ready(Decision::Refused(refusal)),
            None => DecisionState::Pending(self.begin_decision(shared, rules, found, now)),
        })
    }

    /// The same by the memory of this process alone.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn decide_in_memory(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        now: Time,
    ) -> Result<Decision, Undecided> {
        let found = rules.policy.charges(attempt, &self.hasher, now)?;
        if found.routes.is_empty() {
            return Ok(Decision::Uncounted);
        }
        let outcome = take_all(&rules.withdrawals(&found), now).map_err(|stale| self.undecided(stale))?;
        Ok(self.decision_of(rules, found, &outcome, now))
    }

    fn decision_of(
        &self,
        rules: &Rules,
        found: Charges,
        outcome: &store::CombinedVerdict,
        now: Time,
    ) -> Decision {
        let mut standings = self.limit_statuses(rules, &found, outcome);
        rules.count_consecutive(&mut standings, outcome.admitted, now);
        if outcome.admitted {
            return Decision::Admitted(Reservation::new(
                rules.generation,
                found,
                standings,
                DecidedBy::Memory,
            ));
        }
        let route = found.routes.first().copied().unwrap_or_default();
        Decision::Refused(Refusal {
            route,
            wait: longest_wait(&rules.policy, &standings),
            statuses: standings,
        })
    }

    /// Refuses an attempt as [`decide`](Self::decide_in_memory) would, and takes nothing from one that it would admit: for an
    /// attempt of which no more is known yet than the least that it can cost.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn refuse(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        now: Time,
    ) -> Result<Option<Refusal>, Undecided> {
        let found = rules.policy.charges(attempt, &self.hasher, now)?;
        let Some(&route) = found.routes.first() else { return Ok(None) };
        if let Some(shared) = &self.shared {
            return Ok(self.refuse_by_mirror(rules, &found, shared.time(now)));
        }
        let outcome = refuse_all(&rules.withdrawals(&found), now).map_err(|stale| self.undecided(stale))?;
        let Some(outcome) = outcome else { return Ok(None) };
        let mut standings = self.limit_statuses(rules, &found, &outcome);
        rules.count_consecutive(&mut standings, false, now);
        Ok(Some(Refusal { route, wait: longest_wait(&rules.policy, &standings), statuses: standings }))
    }

    /// What the limits of an attempt would say, without taking anything.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn peek(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
    ) -> Result<(Charges, LimitStatuses), Unchargeable> {
        let now = self.clock.now();
        let found = rules.policy.charges(attempt, &self.hasher, now)?;
        let standing = |charge: &Charge| {
            let Withdrawal { buckets, bucket: place, cost, .. } = rules.withdrawal(charge);
            LimitStatus { charge: *charge, verdict: buckets.peek(&place, now, cost) }
        };
        let standings = found.charges.iter().map(standing).collect();
        Ok((found, standings))
    }

    /// Runs one operation on the bucket of a charge that was decided on, wherever that was.
    fn apply(&self, rules: &Rules, by: DecidedBy, charge: &Charge, op: Op) {
        match (&self.shared, by) {
            (Some(shared), DecidedBy::Store) => {
                let place = rules.withdrawal(charge).bucket;
                shared.enqueue(&rules.mirrors[charge.limit], place, StoreOp::Step(op));
            }
            (Some(shared), DecidedBy::Memory) => drop(rules.apply(charge, shared.now(), op)),
            (None, _) => drop(rules.apply(charge, self.clock.now(), op)),
        }
    }

    /// Tells what each limit said, and hands it on.
    fn limit_statuses(
        &self,
        rules: &Rules,
        found: &Charges,
        outcome: &store::CombinedVerdict,
    ) -> LimitStatuses {
        let (generation, route) = (rules.generation, found.routes.first().copied().unwrap_or_default());
        let both = found.charges.iter().zip(&outcome.verdicts);
        let standings: LimitStatuses =
            both.map(|(charge, verdict)| LimitStatus { charge: *charge, verdict: *verdict }).collect();
        for (limit, decision) in limit_status::decisions(&rules.policy, &standings) {
            self.events.emit(&Event::Decided { generation, route, limit, decision });
        }
        for &limit in &found.exempt {
            self.events.emit(&Event::Decided { generation, route, limit, decision: LimitDecision::Exempt });
        }
        standings
    }
}

/// Decides something by the newest rules, and says by which that was: again if they change meanwhile.
///
/// # Errors
/// What `decide` says; [`Undecided::Stale`] only if the rules never come to rest.
pub fn with_newest_rules<R, T>(
    newest: impl Fn() -> R,
    mut decide: impl FnMut(&R) -> Result<T, Undecided>,
) -> Result<(R, T), Undecided> {
    let mut tries = 0;
    loop {
        let rules = newest();
        match decide(&rules) {
            Ok(decided) => return Ok((rules, decided)),
            Err(Undecided::Stale(_)) if tries < MAX_TRIES => tries += 1,
            Err(undecided) => return Err(undecided),
        }
        // Whoever changes the rules is between two of its steps, and may have lost its core there.
        std::thread::yield_now();
    }
}

/// A change of the rules takes far less than so many tries: the bound is there so that nothing is tried for ever.
const MAX_TRIES: u32 = 10_000;
