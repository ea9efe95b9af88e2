//! The engine: policy, store and clock decide on an attempt, and the result becomes events.
//!
//! The engine knows no sockets and formats no responses. A taken token is a value, a [`Reservation`]: dropping it keeps
//! the charge, so that a client gains nothing by hanging up.

mod bucket_admin;
mod client_admin;
mod decided_attempt;
mod freeze;
mod held_attempt;
mod known_attempt;
mod limit_status;
mod open_attempts;
mod overrides;
mod own_rates;
mod pardon;
mod pending_decision;
mod permits;
mod raised_cost;
mod recent_sign_ins;
mod remembered_clients;
mod reservation;
mod rules;
mod snapshot;
mod store_observer;
mod weights;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

pub use self::bucket_admin::{
    BucketAdminError, BucketLevel, BucketReport, BucketView, ChangeScope, FilledBucket, ForgetScope,
    ForgottenBuckets,
};
pub use self::decided_attempt::DecidedAttempt;
pub use self::held_attempt::HeldAttempt;
pub use self::known_attempt::KnownAttempt;
pub use self::limit_status::{LimitStatus, LimitStatuses};
pub use self::open_attempts::{AttemptReceipt, NoSuchReceipt, OpenAttempt, OpenAttempts, ReportedEnd};
pub use self::overrides::{
    MAX_EXEMPTIONS, ModeOverride, OverrideChange, OverrideError, Overrides, PrefixBan, PrefixExemption,
    PrefixOverride,
};
pub use self::own_rates::OwnRateView;
pub use self::pardon::NotPardoned;
pub use self::pending_decision::{DecisionState, PendingDecision};
pub use self::permits::AttemptPermits;
pub use self::remembered_clients::RememberedCount;
pub use self::reservation::Reservation;
pub use self::rules::Rules;
pub use self::store_observer::store_observer;

use self::own_rates::RateOwners;
use self::pardon::PardonBuckets;
use self::recent_sign_ins::RecentSignIns;
use self::remembered_clients::RememberedSets;
use self::rules::new_buckets;
use crate::bucket::Op;
use crate::event::{Event, Events, LimitDecision};
use crate::policy::attempt::{Attempt, Client};
use crate::policy::key::KeyHasher;
use crate::policy::{
    Charge, Charges, DefenceRefusal, MatchedRoutes, Policy, Remembered, RememberedClient, Unchargeable,
};
use crate::store::memory::{CombinedVerdict, Stale, TooLarge, Withdrawal};
use crate::store::shared::Unavailable;
use crate::store::{DecidedBy, Store, TakeState};
use crate::time::{Clock, Span, Time};

/// Decides on attempts.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    hasher: KeyHasher,
    events: Events,
    rules: ArcSwap<Rules>,
    rate_owners: RateOwners,
    sign_ins: RecentSignIns,
}

/// The decision on a request. What is large is boxed where it is made: a decision is moved several times.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// No route matches: the request is forwarded and not counted.
    Uncounted,
    /// Every limit had the tokens.
    Admitted(Box<Reservation>),
    /// At least one limit did not have the tokens.
    Refused(Box<Refusal>),
    /// The store is unavailable, and `on_error` says to deny.
    Denied,
    /// A defence refuses the attempt, whatever the limits say. No token was taken.
    RefusedByDefence(&'static DefenceRefusal),
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
    /// What else is known of the attempt.
    pub attempt: DecidedAttempt,
}

impl Engine {
    /// An engine with empty buckets in memory, at most `capacity` for each limit.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn new(policy: Policy, capacity: usize, clock: Clock, events: Events) -> Result<Self, TooLarge> {
        Self::with_store(policy, Store::in_memory(capacity, clock), events)
    }

    /// An engine with its buckets in this store. Gates that share one need the same [hasher](Self::with_hasher), so
    /// that they name buckets alike.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn with_store(policy: Policy, store: Store, events: Events) -> Result<Self, TooLarge> {
        let buckets = policy.limits.iter().map(|limit| new_buckets(limit, &store));
        let buckets = buckets.collect::<Result<_, _>>()?;
        let pardon = PardonBuckets::of(&policy, None, &store, store.now())?;
        let remembered = RememberedSets::of(&policy, &store)?;
        let rules = Rules::first(Arc::new(policy), Overrides::default(), buckets, pardon, remembered);
        events.emit(&Event::Rules { generation: 0, policy: &rules.policy });
        let (hasher, rules, rate_owners) =
            (KeyHasher::default(), ArcSwap::from_pointee(rules), RateOwners::default());
        Ok(Self { store, hasher, events, rules, rate_owners, sign_ins: RecentSignIns::default() })
    }

    /// The store with the buckets.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The same engine with another secret for the names of buckets; only before the first attempt.
    #[must_use]
    pub fn with_hasher(self, hasher: KeyHasher) -> Self {
        Self { hasher, ..self }
    }

    /// Puts new rules in force at once. A limit that keeps its name keeps its buckets; if its rate changes, they keep
    /// their fill level in proportion. Only those [`Overrides`] stay that have an end.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space; the old rules stay.
    pub fn replace(&self, policy: Policy) -> Result<(), TooLarge> {
        self.replace_and(policy, Overrides::after_reload, |_| {})
    }

    /// As [`replace`](Self::replace), with the overrides that `kept` leaves; `publish` passes the new rules to callers that do not take them from
    /// [`rules`](Self::rules). `publish` has to be quick: while it runs, an attempt on a changed limit is
    /// [`Undecided::Stale`].
    ///
    /// # Errors
    /// [`TooLarge`] as above; nothing is published.
    pub fn replace_and(
        &self,
        mut policy: Policy,
        kept: fn(&Overrides) -> Overrides,
        publish: impl FnOnce(&Arc<Rules>),
    ) -> Result<(), TooLarge> {
        let former = self.rules.load_full();
        policy.carry_over(&former.policy);
        self.put_in_force(Arc::new(policy), kept(&former.overrides), publish)
    }

    fn put_in_force(
        &self,
        configured: Arc<Policy>,
        overrides: Overrides,
        publish: impl FnOnce(&Arc<Rules>),
    ) -> Result<(), TooLarge> {
        let old = self.rules.load_full();
        let (policy, now) = (overrides.apply(&configured), self.time());
        let known = old.by_name();
        let buckets = policy.limits.iter().map(|limit| known.buckets_for(limit, &self.store, now));
        let buckets = buckets.collect::<Result<Vec<_>, _>>()?;
        let remembered = RememberedSets::under(old.remembered.as_ref(), &policy, &self.store, now)?;
        let generation = old.generation + 1;
        let pardon = PardonBuckets::of(&policy, old.pardon.as_ref(), &self.store, now)?;
        let rules = Rules {
            generation,
            policy,
            configured,
            banned: overrides.banned(),
            overrides,
            buckets,
            pardon,
            remembered,
        };
        let rules = Arc::new(rules);
        self.events.emit(&Event::Rules { generation: rules.generation, policy: &rules.policy });
        for former in &old.buckets {
            if !rules.buckets.iter().any(|current| current.is_same(former)) {
                former.close();
            }
        }
        publish(&rules);
        self.rules.store(rules);
        Ok(())
    }

    /// Frees former buckets that were kept for a change of the rules and are not needed any more.
    pub fn release(&self) {
        let now = self.time();
        self.rules().buckets.iter().for_each(|buckets| buckets.in_memory().release(now));
    }

    /// The rules in force.
    pub fn rules(&self) -> Guard<Arc<Rules>> {
        self.rules.load()
    }

    /// The clock of this process.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }

    /// The time by which attempts are decided: that of the store.
    #[must_use]
    pub fn time(&self) -> Time {
        self.store.now()
    }

    /// Takes the tokens that an attempt costs, all or none. `now` is the time of the process's clock.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn decide(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        now: Time,
    ) -> Result<DecisionState, Undecided> {
        self.decide_on(rules, attempt, rules.policy.routes_of(attempt), now)
    }

    /// As [`decide`](Self::decide), by the attempt's [routes](Policy::routes_of).
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn decide_on(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        routes: MatchedRoutes,
        now: Time,
    ) -> Result<DecisionState, Undecided> {
        if let Some(refusal) = rules.refusal_of_all(attempt.client, || self.store.time(now)) {
            return Ok(DecisionState::Ready(Decision::RefusedByDefence(refusal)));
        }
        if routes.is_empty() {
            return Ok(DecisionState::Ready(Decision::Uncounted));
        }
        let own = now;
        let now = self.store.time(own);
        let mut found = self.charges_of(rules, attempt, routes, own, now)?;
        if let Some(refusal) = self.refusal_by_defence(rules, &found) {
            return Ok(DecisionState::Ready(Decision::RefusedByDefence(refusal)));
        }
        Self::raise_cost(rules, &mut found, false, now);
        if let Some(verdict) = Self::banned_verdict(rules, &found, attempt.client, now) {
            let statuses = LimitStatus::all_of(&found, &verdict);
            self.emit_decisions(rules, &found, &statuses);
            return Ok(DecisionState::Ready(self.conclude(rules, found, statuses, None, now)));
        }
        let client = self.ask_for_client(rules, attempt, &found, own, now)?;
        let state = self.store.take(&rules.withdrawals(&found), now);
        let take = state.map_err(|stale| self.undecided(stale))?;
        if let (TakeState::Done(verdict), None) = (&take, &client) {
            let mut statuses = LimitStatus::all_of(&found, verdict);
            self.emit_decisions(rules, &found, &statuses);
            rules.count_consecutive(&mut statuses, verdict.admitted, now);
            let admitted_by = verdict.admitted.then_some(DecidedBy::Memory);
            return Ok(DecisionState::Ready(self.conclude(rules, found, statuses, admitted_by, now)));
        }
        Ok(DecisionState::Pending(Box::new(PendingDecision { found, take, client })))
    }

    /// As [`decide`](Self::decide), for a store in memory, which never waits; what waits for another is denied.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn decide_in_memory(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        now: Time,
    ) -> Result<Decision, Undecided> {
        Ok(match self.decide(rules, attempt, now)? {
            DecisionState::Ready(decision) => decision,
            DecisionState::Pending(_) => Decision::Denied,
        })
    }

    /// The charges by the clients that this gate remembers. `own` is the time of the process's clock, `now` the store's.
    fn charges_of(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        routes: MatchedRoutes,
        own: Time,
        now: Time,
    ) -> Result<Charges, Unchargeable> {
        let is_known = |client: &RememberedClient| rules.remembers(client, now);
        let signed_in = |cookie| self.sign_ins.signed_in(cookie, own);
        let remembered = Remembered { is_known: &is_known, signed_in: &signed_in };
        rules.policy.charges_of(attempt, routes, &self.hasher, remembered, own)
    }

    /// The decision that follows from the verdicts; `admitted_by` is `None` for a refusal. Charges and statuses are not
    /// a pair: as one they would be copied several times.
    fn conclude(
        &self,
        rules: &Rules,
        found: Charges,
        statuses: LimitStatuses,
        admitted_by: Option<DecidedBy>,
        now: Time,
    ) -> Decision {
        let Some(decided_by) = admitted_by else {
            return Decision::Refused(Box::new(Refusal::of(&rules.policy, &found, statuses, now)));
        };
        self.remember_sign_in(&found);
        self.charge_weight(rules, &found, &statuses, decided_by);
        Decision::Admitted(Reservation::new(rules, found, statuses, decided_by, now))
    }

    /// Refuses an attempt as [`decide_on`](Self::decide_on) would at once, and takes nothing if that would admit it: for
    /// an attempt of which only the minimal cost is known so far.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn refuse(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        routes: MatchedRoutes,
        now: Time,
    ) -> Result<Option<Box<Refusal>>, Undecided> {
        if routes.is_empty() {
            return Ok(None);
        }
        let own = now;
        let now = self.store.time(own);
        let mut found = self.charges_of(rules, attempt, routes, own, now)?;
        if let Some(verdict) = Self::banned_verdict(rules, &found, attempt.client, now) {
            let statuses = LimitStatus::all_of(&found, &verdict);
            self.emit_decisions(rules, &found, &statuses);
            return Ok(Some(Box::new(Refusal::of(&rules.policy, &found, statuses, now))));
        }
        if self.must_ask_for_client(rules, &found, now) {
            return Ok(None);
        }
        Self::raise_cost(rules, &mut found, rules.policy.knows_owners(), now);
        let verdict = self.store.refuse(&rules.withdrawals(&found), now);
        let verdict = verdict.map_err(|stale| self.undecided(stale))?;
        Ok(verdict.map(|verdict| Box::new(self.refused(rules, &found, &verdict, now))))
    }

    /// The refusal by the verdict on these charges.
    fn refused(&self, rules: &Rules, found: &Charges, verdict: &CombinedVerdict, now: Time) -> Refusal {
        let mut refusal = Refusal::of(&rules.policy, found, LimitStatus::all_of(found, verdict), now);
        self.emit_decisions(rules, found, &refusal.statuses);
        rules.count_consecutive(&mut refusal.statuses, false, now);
        refusal.wait = rules.longest_wait(&refusal.statuses);
        refusal
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
        let now = self.clock().now();
        let mut found = rules.charges(self, attempt)?;
        Self::raise_cost(rules, &mut found, false, self.time());
        let status = |charge: &Charge| {
            let Withdrawal { buckets, bucket, cost, .. } = rules.withdrawal(charge);
            LimitStatus { charge: *charge, verdict: buckets.in_memory().peek(&bucket, now, cost) }
        };
        let statuses = found.charges.iter().map(status).collect();
        Ok((found, statuses))
    }

    /// What the limits would say to an attempt of this client with these charges, also by buckets in a shared store; takes
    /// nothing.
    ///
    /// # Errors
    /// [`Unavailable`] if the store does not answer.
    pub async fn inspect(
        &self,
        rules: &Rules,
        found: &Charges,
        client: Client,
    ) -> Result<LimitStatuses, Unavailable> {
        if let Some(verdict) = Self::banned_verdict(rules, found, client, self.time()) {
            return Ok(LimitStatus::all_of(found, &verdict));
        }
        let mut statuses = LimitStatuses::new();
        for charge in &found.charges {
            let Withdrawal { buckets, bucket, cost, .. } = rules.withdrawal(charge);
            let (verdict, _) = self.store.inspect(buckets, bucket, cost).await?;
            statuses.push(LimitStatus { charge: *charge, verdict });
        }
        Ok(statuses)
    }

    /// Runs operations on the buckets of decided charges.
    fn apply<'c>(
        &self,
        rules: &Rules,
        decided_by: DecidedBy,
        ops: impl IntoIterator<Item = (&'c Charge, Op)>,
    ) {
        let of_bucket = |(charge, op)| {
            let Withdrawal { buckets, bucket, .. } = rules.withdrawal(charge);
            (buckets, bucket, op)
        };
        self.store.apply(decided_by, ops.into_iter().map(of_bucket));
    }

    /// Why a defence refuses the attempt, if one does; also emits what the defences noted.
    fn refusal_by_defence(&self, rules: &Rules, found: &Charges) -> Option<&'static DefenceRefusal> {
        let notes = &found.unsettled.notes;
        if notes.is_empty() {
            return None;
        }
        for route in found.routes.iter().map(|&route| &rules.policy.routes[route]) {
            for counter in route.defences.counters().filter(|counter| notes.are_counted(counter)) {
                self.events.emit(&Event::Noted { counter, route: &route.name });
            }
        }
        notes.refusal()
    }

    /// Emits each limit's decision.
    fn emit_decisions(&self, rules: &Rules, found: &Charges, statuses: &LimitStatuses) {
        let (generation, route) = (rules.generation, found.routes.first().copied().unwrap_or_default());
        for (limit, decision) in limit_status::decisions(&rules.policy, statuses) {
            self.events.emit(&Event::Decided { generation, route, limit, decision });
        }
        for &limit in &found.exempt {
            self.events.emit(&Event::Decided { generation, route, limit, decision: LimitDecision::Exempt });
        }
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
