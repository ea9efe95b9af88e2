//! What was taken for an attempt, and what becomes of it.
//!
//! It is a value: dropping it keeps the charge. The surprising thing: a success gives back its own tokens and no others,
//! since an attacker can have successes of his own; only what belongs to the very account that signed in is full again.

use smallvec::SmallVec;

use super::inquiry::By;
use super::{Engine, Rules, Standing, Standings, standing};
use crate::bucket::Op;
use crate::event::{Event, Outcome};
use crate::policy::device::Claim;
use crate::policy::{Charge, Charges, Facet, Limit, Spends};
use crate::time::Span;

/// Tokens that were taken for an attempt.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    pub(super) generation: u64,
    /// Positions of all routes that it is counted for.
    pub(super) routes: SmallVec<[usize; 2]>,
    /// How long the attempt is to be held before it is forwarded: the longest that any limit says.
    pub hold: Span,
    /// What each limit said.
    pub standings: Standings,
    /// What is full again after a success, although nothing was taken from it.
    lifts: Vec<Charge>,
    is_of_one: bool,
    claim: Option<Box<Claim>>,
    by: By,
}

impl Reservation {
    pub(super) fn new(generation: u64, found: Charges, standings: Standings, by: By) -> Self {
        let hold = standing::longest_hold(&standings);
        let Charges { routes, lifts, is_of_one, claim, .. } = found;
        Self { generation, routes, hold, standings, lifts, is_of_one, claim, by }
    }

    /// Position of the route.
    #[must_use]
    pub fn route(&self) -> usize {
        self.routes.first().copied().unwrap_or_default()
    }

    /// Positions of all routes that it is counted for.
    #[must_use]
    pub fn routes(&self) -> &[usize] {
        &self.routes
    }

    /// What is needed to remember the device if the attempt succeeds.
    #[must_use]
    pub fn claim(&self) -> Option<&Claim> {
        self.claim.as_deref()
    }

    /// Says what came of the attempt. `rules` are those that it was decided by; by others nothing is given back.
    pub fn settle(self, engine: &Engine, rules: &Rules, outcome: Outcome) {
        let (generation, route) = (self.generation, self.route());
        engine.events.emit(&Event::Settled { generation, route, outcome });
        if rules.generation != generation {
            return;
        }
        for standing in &self.standings {
            self.settle_one(standing, engine, rules, outcome);
        }
        if outcome == Outcome::Success && self.is_of_one {
            for charge in &self.lifts {
                engine.apply(rules, self.by, charge, Op::Give(u32::MAX));
            }
        }
    }

    fn settle_one(
        &self,
        Standing { charge, verdict }: &Standing,
        engine: &Engine,
        rules: &Rules,
        outcome: Outcome,
    ) {
        let limit = &rules.policy.limits[charge.limit];
        let op = match (limit.facet, outcome) {
            _ if limit.spends == Spends::Attempts => return,
            (Facet::Escalation, Outcome::Failure) => Op::Strike,
            (Facet::Escalation | Facet::Cap, Outcome::Success) if self.is_his_own(limit) => {
                Op::Give(u32::MAX)
            }
            (Facet::Escalation, _) | (_, Outcome::Failure) => return,
            (Facet::Rate | Facet::Cap, _) => Op::Refund(verdict.receipt),
        };
        engine.apply(rules, self.by, charge, op);
    }

    /// Whether the buckets of this limit belong to the account that signed in.
    fn is_his_own(&self, limit: &Limit) -> bool {
        self.is_of_one && limit.is_hidden()
    }

    /// Gives everything back: the attempt was never made.
    pub fn give_back(self, engine: &Engine, rules: &Rules) {
        if rules.generation != self.generation {
            return;
        }
        for Standing { charge, verdict } in &self.standings {
            engine.apply(rules, self.by, charge, Op::Refund(verdict.receipt));
        }
    }
}
