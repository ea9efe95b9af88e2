//! Policy, store and clock together: decides on an attempt and says what happened.
//!
//! It neither knows sockets nor formats answers. The surprising thing: a taken token is a value, a [`Reservation`];
//! dropping it keeps the charge, so that a client wins nothing by hanging up.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;

use crate::bucket::{Answer, Op, Verdict};
use crate::event::{Decision, Event, Events, Outcome};
use crate::policy::attempt::Attempt;
use crate::policy::key::{KeyHasher, TooManyValues};
use crate::policy::{Charge, Charges, Mode, Policy};
use crate::store::memory::{Table, TooLarge, Withdrawal, take_all};
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
    tables: Vec<Arc<Table>>,
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
    /// What each limit said.
    pub standings: Standings,
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
        let tables = policy.limits.iter().map(|_| Table::with_capacity(capacity).map(Arc::new));
        let rules = Rules { generation: 0, tables: tables.collect::<Result<_, _>>()?, policy };
        events.emit(&Event::Rules { generation: 0, policy: &rules.policy });
        Ok(Self {
            clock,
            hasher: KeyHasher::default(),
            capacity,
            events,
            rules: ArcSwap::from_pointee(rules),
        })
    }

    /// Puts other rules in force. Limits that keep their name keep their buckets.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space for a new limit; the old rules stay.
    pub fn replace(&self, policy: Policy) -> Result<(), TooLarge> {
        let old = self.rules();
        let table = |name: &str| match old.table(name) {
            Some(table) => Ok(Arc::clone(table)),
            None => Table::with_capacity(self.capacity).map(Arc::new),
        };
        let tables = policy.limits.iter().map(|limit| table(&limit.name)).collect::<Result<_, _>>()?;
        let rules = Arc::new(Rules { generation: old.generation + 1, policy, tables });
        self.events.emit(&Event::Rules { generation: rules.generation, policy: &rules.policy });
        self.rules.store(rules);
        Ok(())
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
    /// [`TooManyValues`]: the request names too many buckets at once; nothing was taken.
    pub fn decide(&self, rules: &Rules, attempt: &Attempt<'_>, now: Time) -> Result<Ruling, TooManyValues> {
        let Charges { route, charges, exempt } = rules.policy.charges(attempt, &self.hasher)?;
        let Some(route) = route else { return Ok(Ruling::Uncounted) };
        let mut withdrawals: SmallVec<[Withdrawal<'_>; 2]> = SmallVec::new();
        for charge in &charges {
            withdrawals.push(rules.withdrawal(charge));
        }
        let outcome = take_all(&withdrawals, now);
        let mut standings = Standings::new();
        for (charge, verdict) in charges.iter().zip(&outcome.verdicts) {
            standings.push(Standing { charge: *charge, verdict: *verdict });
        }
        self.tell(rules, route, &standings, &exempt);
        Ok(if outcome.admitted {
            Ruling::Admitted(Reservation { generation: rules.generation, route, standings })
        } else {
            Ruling::Refused(Refusal { route, wait: longest_wait(&standings), standings })
        })
    }

    /// What the limits of an attempt would say, without taking anything.
    ///
    /// # Errors
    /// [`TooManyValues`], as [`Engine::decide`].
    pub fn peek(&self, rules: &Rules, attempt: &Attempt<'_>) -> Result<(Charges, Standings), TooManyValues> {
        let found = rules.policy.charges(attempt, &self.hasher)?;
        let now = self.clock.now();
        let standing = |charge: &Charge| {
            let verdict =
                rules.tables[charge.limit].apply(charge.key, &charge.spec, now, Op::Peek(charge.cost));
            Standing { charge: *charge, verdict }
        };
        let standings = found.charges.iter().map(standing).collect();
        Ok((found, standings))
    }

    fn tell(&self, rules: &Rules, route: usize, standings: &[Standing], exempt: &[usize]) {
        let generation = rules.generation;
        for standing in standings {
            let limit = standing.charge.limit;
            self.events.emit(&Event::Decided { generation, route, limit, decision: standing.decision() });
        }
        for &limit in exempt {
            self.events.emit(&Event::Decided { generation, route, limit, decision: Decision::Exempt });
        }
    }
}

impl Rules {
    /// The buckets of a limit.
    #[must_use]
    pub fn table(&self, limit: &str) -> Option<&Arc<Table>> {
        let index = self.policy.limits.iter().position(|known| &*known.name == limit)?;
        self.tables.get(index)
    }

    /// For each limit its name, the number of buckets that are not full, and how many live ones gave way.
    pub fn usage(&self, now: Time) -> impl Iterator<Item = (&str, usize, u64)> {
        let limits = self.policy.limits.iter().zip(&self.tables);
        limits
            .filter(|(limit, _)| limit.mode != Mode::Off)
            .map(move |(limit, table)| (&*limit.name, table.live(now), table.forgotten()))
    }

    fn withdrawal(&self, charge: &Charge) -> Withdrawal<'_> {
        let Charge { limit, key, spec, cost, enforce } = *charge;
        Withdrawal { table: &self.tables[limit], key, spec, cost, enforce }
    }
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

/// `None` if some limit can never admit the attempt.
fn longest_wait(standings: &[Standing]) -> Option<Span> {
    let mut longest = Span::ZERO;
    for standing in standings.iter().filter(|standing| standing.refuses()) {
        match standing.verdict.answer {
            Answer::Refused { wait } => longest = longest.max(wait),
            Answer::NeverFits => return None,
            Answer::Admitted => {}
        }
    }
    Some(longest)
}
