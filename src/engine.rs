//! Policy, store and clock together: decides on an attempt and says what happened.
//!
//! It neither knows sockets nor formats answers. The surprising thing: a taken token is a value, a [`Reservation`];
//! dropping it keeps the charge, so that a client wins nothing by hanging up.

mod flight;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;

pub use self::flight::Places;

use self::flight::Flight;
use crate::bucket::{Answer, Op, Spec, Verdict};
use crate::event::{Decision, Event, Events, Outcome};
use crate::policy::attempt::Attempt;
use crate::policy::key::KeyHasher;
use crate::policy::{Charge, Charges, Facet, Limit, Mode, Policy, Unchargeable};
use crate::store::memory as store;
use crate::store::memory::{Buckets, Place, Stale, TooLarge, Withdrawal, refuse_all, take_all};
use crate::time::{Clock, Span, Time};

/// Decides on attempts.
#[derive(Debug)]
pub struct Engine {
    clock: Clock,
    hasher: KeyHasher,
    capacity: usize,
    events: Events,
    rules: ArcSwap<Rules>,
}

/// The policy in force and the buckets of its limits.
#[derive(Debug)]
pub struct Rules {
    /// Counts up with every change.
    pub generation: u64,
    /// Routes and limits.
    pub policy: Policy,
    /// For each limit.
    buckets: Vec<Arc<Buckets>>,
    /// For each route.
    flights: Vec<Arc<Flight>>,
}

/// What the engine says to a request.
#[derive(Debug)]
#[must_use]
pub enum Ruling {
    /// No route is about it: it is forwarded and never counted.
    Uncounted,
    /// Every limit had the tokens.
    Admitted(Reservation),
    /// Some limit had not.
    Refused(Refusal),
}

/// Tokens that were taken for an attempt.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    generation: u64,
    route: usize,
    /// Positions of all routes that it is counted for.
    routes: SmallVec<[usize; 2]>,
    /// How long the attempt is to be held before it is forwarded: the longest that any limit says.
    pub hold: Span,
    /// What each limit said.
    pub standings: Standings,
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
}

/// Why an attempt was refused.
#[derive(Debug)]
pub struct Refusal {
    /// Position of the route.
    pub route: usize,
    /// The longest wait of all refusing limits; `None` if the attempt can never fit.
    pub wait: Option<Span>,
    /// What each limit said.
    pub standings: Standings,
}

/// What each limit of an attempt said, in the order of the file.
pub type Standings = SmallVec<[Standing; 2]>;

/// What one limit said.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// What the attempt was charged to.
    pub charge: Charge,
    /// What the bucket said.
    pub verdict: Verdict,
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
        let rules = Rules { generation: 0, policy, buckets, flights };
        events.emit(&Event::Rules { generation: 0, policy: &rules.policy });
        Ok(Self {
            clock,
            hasher: KeyHasher::default(),
            capacity,
            events,
            rules: ArcSwap::from_pointee(rules),
        })
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
        let now = self.clock.now();
        let buckets = policy.limits.iter().map(|limit| old.buckets_for(limit, self.capacity, now));
        let buckets = buckets.collect::<Result<Vec<_>, _>>()?;
        let flights = policy.routes.iter().map(|route| old.flight_for(&route.name)).collect();
        let rules = Arc::new(Rules { generation: old.generation + 1, policy, buckets, flights });
        self.events.emit(&Event::Rules { generation: rules.generation, policy: &rules.policy });
        for former in &old.buckets {
            if !rules.buckets.iter().any(|kept| Arc::ptr_eq(kept, former)) {
                former.close();
            }
        }
        publish(&rules);
        self.rules.store(rules);
        Ok(())
    }

    /// Lets go of what was kept for a change of the rules and is of no use any more.
    pub fn release(&self) {
        let now = self.clock.now();
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

    /// Takes the tokens that an attempt costs, all or none.
    ///
    /// # Errors
    /// See [`Undecided`]; nothing was taken.
    pub fn decide(&self, rules: &Rules, attempt: &Attempt<'_>, now: Time) -> Result<Ruling, Undecided> {
        let found = rules.policy.charges(attempt, &self.hasher)?;
        let Some(&route) = found.routes.first() else { return Ok(Ruling::Uncounted) };
        let outcome = take_all(&rules.withdrawals(&found), now)?;
        let standings = self.tell(rules, &found, &outcome);
        Ok(if outcome.admitted {
            let (generation, hold) = (rules.generation, longest_hold(&standings));
            Ruling::Admitted(Reservation { generation, route, routes: found.routes, hold, standings })
        } else {
            Ruling::Refused(Refusal { route, wait: longest_wait(&standings), standings })
        })
    }

    /// Refuses an attempt as [`decide`](Self::decide) would, and takes nothing from one that it would admit: for an
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
        let found = rules.policy.charges(attempt, &self.hasher)?;
        let Some(&route) = found.routes.first() else { return Ok(None) };
        let Some(outcome) = refuse_all(&rules.withdrawals(&found), now)? else { return Ok(None) };
        let standings = self.tell(rules, &found, &outcome);
        Ok(Some(Refusal { route, wait: longest_wait(&standings), standings }))
    }

    /// What the limits of an attempt would say, without taking anything.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn peek(&self, rules: &Rules, attempt: &Attempt<'_>) -> Result<(Charges, Standings), Unchargeable> {
        let found = rules.policy.charges(attempt, &self.hasher)?;
        let now = self.clock.now();
        let standing = |charge: &Charge| {
            let Withdrawal { buckets, place, cost, .. } = rules.withdrawal(charge);
            Standing { charge: *charge, verdict: buckets.peek(&place, now, cost) }
        };
        let standings = found.charges.iter().map(standing).collect();
        Ok((found, standings))
    }

    /// Tells what each limit said, and hands it on.
    fn tell(&self, rules: &Rules, found: &Charges, outcome: &store::Outcome) -> Standings {
        let (generation, route) = (rules.generation, found.routes.first().copied().unwrap_or_default());
        let mut standings = Standings::new();
        for (charge, verdict) in found.charges.iter().zip(&outcome.verdicts) {
            let standing = Standing { charge: *charge, verdict: *verdict };
            let (limit, decision) = (charge.limit, standing.decision());
            self.events.emit(&Event::Decided { generation, route, limit, decision });
            standings.push(standing);
        }
        for &limit in &found.exempt {
            self.events.emit(&Event::Decided { generation, route, limit, decision: Decision::Exempt });
        }
        standings
    }
}

impl Rules {
    /// The buckets that a limit's rate fills.
    #[must_use]
    pub fn buckets(&self, limit: &str) -> Option<&Arc<Buckets>> {
        self.buckets.get(self.index_of(limit, Facet::Rate)?)
    }

    /// For each limit its name, the number of buckets that are not full, and how many live ones gave way.
    pub fn usage(&self, now: Time) -> impl Iterator<Item = (&str, usize, u64)> {
        let limits = self.policy.limits.iter().zip(&self.buckets);
        limits
            .filter(|(limit, _)| limit.mode != Mode::Off)
            .map(move |(limit, buckets)| (&*limit.name, buckets.live(now), buckets.forgotten()))
    }

    fn index_of(&self, limit: &str, facet: Facet) -> Option<usize> {
        self.policy.limits.iter().position(|known| &*known.name == limit && known.facet == facet)
    }

    fn withdrawal(&self, charge: &Charge) -> Withdrawal<'_> {
        let Charge { limit, key, class, spec, cost, tag, enforce } = *charge;
        Withdrawal { buckets: &self.buckets[limit], place: Place { key, class, spec }, cost, tag, enforce }
    }

    fn withdrawals(&self, found: &Charges) -> SmallVec<[Withdrawal<'_>; 2]> {
        let mut withdrawals = SmallVec::new();
        for charge in &found.charges {
            withdrawals.push(self.withdrawal(charge));
        }
        withdrawals
    }

    /// The buckets that a limit of the next rules has: the same, or as many that take over from them.
    fn buckets_for(&self, limit: &Limit, capacity: usize, now: Time) -> Result<Arc<Buckets>, TooLarge> {
        let Some(index) = self.index_of(&limit.name, limit.facet) else {
            return Buckets::new(capacity, &specs(limit)).map(Arc::new);
        };
        let (before, after) = (self.policy.limits[index].classes(), limit.classes());
        if before == after {
            return Ok(Arc::clone(&self.buckets[index]));
        }
        let was = |(name, _): &(Arc<str>, Option<Spec>)| {
            let class = before.iter().position(|(known, _)| known == name)?;
            Some((class, before[class].1?))
        };
        let classes = after.iter().map(was).collect();
        self.buckets[index].changed(capacity, &specs(limit), classes, now).map(Arc::new)
    }
}

/// Decides something by the newest rules, and says by which that was: again if they change meanwhile.
///
/// # Errors
/// What `decide` says; [`Undecided::Stale`] only if the rules never come to rest.
pub fn by_newest<R, T>(
    newest: impl Fn() -> R,
    mut decide: impl FnMut(&R) -> Result<T, Undecided>,
) -> Result<(R, T), Undecided> {
    let mut tries = 0;
    loop {
        let rules = newest();
        match decide(&rules) {
            Ok(decided) => return Ok((rules, decided)),
            Err(Undecided::Stale(_)) if tries < MOST_TRIES => tries += 1,
            Err(undecided) => return Err(undecided),
        }
        // Whoever changes the rules is between two of its steps, and may have lost its core there.
        std::thread::yield_now();
    }
}

fn specs(limit: &Limit) -> Vec<Spec> {
    limit.classes().into_iter().filter_map(|(_, spec)| spec).collect()
}

impl Reservation {
    /// Position of the route.
    #[must_use]
    pub fn route(&self) -> usize {
        self.route
    }

    /// Says what came of the attempt. Every attempt is counted, so the tokens stay taken.
    pub fn settle(self, engine: &Engine, outcome: Outcome) {
        let (generation, route) = (self.generation, self.route);
        engine.events.emit(&Event::Settled { generation, route, outcome });
    }

    /// Gives everything back: the attempt was never made.
    pub fn give_back(self, engine: &Engine, rules: &Rules) {
        if rules.generation != self.generation {
            return;
        }
        let now = engine.clock.now();
        for Standing { charge, verdict } in &self.standings {
            let Withdrawal { buckets, place, .. } = rules.withdrawal(charge);
            // Of a limit that has been changed meanwhile nothing is given back: that errs on the strict side.
            let _ = buckets.apply(&place, now, Op::Refund(verdict.receipt));
        }
    }
}

impl Refusal {
    /// The limits that refused.
    pub fn violated(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| standing.refuses())
    }
}

impl Standing {
    /// Whether this limit refused the attempt.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.charge.enforce && !self.verdict.is_admitted()
    }

    fn decision(&self) -> Decision {
        match (self.verdict.is_admitted(), self.charge.enforce) {
            (true, _) => Decision::Admit,
            (false, true) => Decision::Refuse,
            (false, false) => Decision::Observe,
        }
    }
}

fn longest_hold(standings: &[Standing]) -> Span {
    let hold = |standing: &Standing| match standing.verdict.answer {
        Answer::Held { hold } if standing.charge.enforce => hold,
        _ => Span::ZERO,
    };
    standings.iter().map(hold).max().unwrap_or_default()
}

/// `None` if some limit can never admit the attempt.
fn longest_wait(standings: &[Standing]) -> Option<Span> {
    let mut longest = Span::ZERO;
    for standing in standings.iter().filter(|standing| standing.refuses()) {
        match standing.verdict.answer {
            Answer::Refused { wait } => longest = longest.max(wait),
            Answer::NeverFits => return None,
            Answer::Admitted | Answer::Held { .. } => {}
        }
    }
    Some(longest)
}

/// A change of the rules takes far less than so many tries: the bound is there so that nothing is tried for ever.
const MOST_TRIES: u32 = 10_000;
