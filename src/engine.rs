//! The engine: policy, store and clock decide on an attempt, and the result goes out as events.
//!
//! The engine knows no sockets and formats no responses. A taken token is a value, a [`Reservation`]: dropping it keeps
//! the charge, so that a client wins nothing by hanging up.

mod bucket_admin;
mod concurrency_limit;
mod freeze;
mod limit_status;
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
    /// The shared store with the buckets; `None` if they are in memory.
    shared: Option<Arc<SharedStore>>,
    /// During an upgrade: a new process decides.
    frozen: AtomicBool,
}

/// The decision on a request.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// No route matches: the request is forwarded and not counted.
    Uncounted,
    /// Every limit had the tokens.
    Admitted(Reservation),
    /// At least one limit did not have the tokens.
    Refused(Refusal),
    /// The store is unavailable, and `on_error` says to deny.
    Denied,
}

/// Why nothing was decided, and nothing taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The attempt cannot be charged.
    #[error(transparent)]
    Unchargeable(#[from] Unchargeable),
    /// The rules were replaced meanwhile: decide again by the new rules.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Another process decides from now on.
    #[error("this process no longer decides: a new process takes over")]
    Frozen,
}

/// Why an attempt was refused.
#[derive(Debug)]
pub struct Refusal {
    /// Position of the route.
    pub route: usize,
    /// The longest wait of all refusing limits; `None` if one of them does not open with time.
    pub wait: Option<Span>,
    /// The status of each limit.
    pub statuses: LimitStatuses,
}

impl Engine {
    /// An engine with empty buckets in memory, at most `capacity` for each limit.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn new(policy: Policy, capacity: usize, clock: Clock, events: Events) -> Result<Self, TooLarge> {
        let buckets = policy.limits.iter().map(|limit| Buckets::new(capacity, &specs(limit)).map(Arc::new));
        let buckets = buckets.collect::<Result<_, _>>()?;
        let concurrency_limits = policy.routes.iter().map(|_| Arc::default()).collect();
        let rules = Rules { generation: 0, policy, buckets, mirrors: Vec::new(), concurrency_limits };
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

    /// The same engine with the buckets in a store that several gates share; only before the first attempt. All gates
    /// need the same secret in `hasher`, so that they name buckets alike.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space for the mirrors.
    pub fn with_store(self, shared: Arc<SharedStore>, hasher: KeyHasher) -> Result<Self, TooLarge> {
        let Rules { policy, buckets, .. } = &**self.rules.load();
        let mirrors =
            policy.limits.iter().zip(buckets).map(|(limit, buckets)| Mirror::new(&limit.name, buckets));
        let mirrors = mirrors.map(|mirror| mirror.map(Arc::new)).collect::<Result<_, _>>()?;
        let concurrency_limits = policy.routes.iter().map(|_| Arc::default()).collect();
        let rules = Rules {
            generation: 0,
            policy: policy.clone(),
            buckets: buckets.clone(),
            mirrors,
            concurrency_limits,
        };
        Ok(Self { hasher, shared: Some(shared), rules: ArcSwap::from_pointee(rules), ..self })
    }

    /// The store that several gates share, if the buckets are in one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<SharedStore>> {
        self.shared.as_ref()
    }

    /// The same engine with another secret for the names of buckets; only before the first attempt.
    #[must_use]
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        Self { hasher, ..self }
    }

    /// Puts new rules in force at once. A limit that keeps its name keeps its buckets; if its rate changes, they keep
    /// their fill level in proportion.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space; the old rules stay.
    pub fn replace(&self, policy: Policy) -> Result<(), TooLarge> {
        self.replace_and(policy, |_| {})
    }

    /// As [`replace`](Self::replace); `publish` passes the new rules to callers that do not take them from
    /// [`rules`](Self::rules). `publish` has to be quick: while it runs, an attempt on a changed limit is
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
        let limits = policy.routes.iter().map(|route| old.concurrency_limit_for(&route.name)).collect();
        let rules = Arc::new(Rules {
            generation: old.generation + 1,
            policy,
            buckets,
            mirrors,
            concurrency_limits: limits,
        });
        self.events.emit(&Event::Rules { generation: rules.generation, policy: &rules.policy });
        // With a shared store the former buckets are mirrors and stay open: the store keeps what they decide.
        for former in old.buckets.iter().filter(|_| self.shared.is_none()) {
            if !rules.buckets.iter().any(|current| Arc::ptr_eq(current, former)) {
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

    /// Frees former buckets that were kept for a change of the rules and are not needed any more.
    pub fn release(&self) {
        let now = self.time();
        self.rules().buckets.iter().for_each(|buckets| buckets.release(now));
    }

    /// The rules in force.
    pub fn rules(&self) -> Guard<Arc<Rules>> {
        self.rules.load()
    }

    /// The clock of this process.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time by which attempts are decided: the store's if several gates share one, else the clock's.
    #[must_use]
    pub fn time(&self) -> Time {
        self.shared.as_ref().map_or_else(|| self.clock.now(), |shared| shared.now())
    }

    /// Takes the tokens that an attempt costs, all or none: at once if the buckets are in memory, or if the mirror of
    /// the shared store refuses.
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

    /// As [`decide`](Self::decide), by the buckets in memory alone.
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
        let mut statuses = self.limit_statuses(rules, &found, outcome);
        rules.count_consecutive(&mut statuses, outcome.admitted, now);
        if outcome.admitted {
            return Decision::Admitted(Reservation::new(
                rules.generation,
                found,
                statuses,
                DecidedBy::Memory,
            ));
        }
        let route = found.routes.first().copied().unwrap_or_default();
        Decision::Refused(Refusal { route, wait: longest_wait(&rules.policy, &statuses), statuses })
    }

    /// Refuses an attempt as [`decide_in_memory`](Self::decide_in_memory) would, and takes nothing if that would admit
    /// it: for an attempt of which only the minimal cost is known so far.
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
        let mut statuses = self.limit_statuses(rules, &found, &outcome);
        rules.count_consecutive(&mut statuses, false, now);
        Ok(Some(Refusal { route, wait: longest_wait(&rules.policy, &statuses), statuses }))
    }

    /// The statuses of an attempt's limits; takes nothing.
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
        let status = |charge: &Charge| {
            let Withdrawal { buckets, bucket, cost, .. } = rules.withdrawal(charge);
            LimitStatus { charge: *charge, verdict: buckets.peek(&bucket, now, cost) }
        };
        let statuses = found.charges.iter().map(status).collect();
        Ok((found, statuses))
    }

    /// Runs one operation on the bucket of a decided charge, in memory or in the store, as `decided_by` says.
    fn apply(&self, rules: &Rules, decided_by: DecidedBy, charge: &Charge, op: Op) {
        match (&self.shared, decided_by) {
            (Some(shared), DecidedBy::Store) => {
                let bucket = rules.withdrawal(charge).bucket;
                shared.enqueue(&rules.mirrors[charge.limit], bucket, StoreOp::Step(op));
            }
            (Some(shared), DecidedBy::Memory) => drop(rules.apply(charge, shared.now(), op)),
            (None, _) => drop(rules.apply(charge, self.clock.now(), op)),
        }
    }

    /// The status of each limit; also emits each limit's decision.
    fn limit_statuses(
        &self,
        rules: &Rules,
        found: &Charges,
        outcome: &store::CombinedVerdict,
    ) -> LimitStatuses {
        let (generation, route) = (rules.generation, found.routes.first().copied().unwrap_or_default());
        let both = found.charges.iter().zip(&outcome.verdicts);
        let statuses: LimitStatuses =
            both.map(|(charge, verdict)| LimitStatus { charge: *charge, verdict: *verdict }).collect();
        for (limit, decision) in limit_status::decisions(&rules.policy, &statuses) {
            self.events.emit(&Event::Decided { generation, route, limit, decision });
        }
        for &limit in &found.exempt {
            self.events.emit(&Event::Decided { generation, route, limit, decision: LimitDecision::Exempt });
        }
        statuses
    }
}

/// Runs `decide` with the newest rules, and again if they are replaced meanwhile. Returns the rules and the result.
///
/// # Errors
/// The error of `decide`; [`Undecided::Stale`] only if the rules change at each of `MAX_TRIES` tries.
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
        // The thread that replaces the rules is between two steps, and may have been preempted there.
        std::thread::yield_now();
    }
}

/// A change of the rules takes far fewer tries: the bound only keeps the loop finite.
const MAX_TRIES: u32 = 10_000;
