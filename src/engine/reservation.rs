//! What was taken for an attempt, and what becomes of it.
//!
//! It is a value: dropping it keeps the charge. The surprising thing: a success gives back its own tokens and no others,
//! since an attacker can have successes of his own; only what belongs to the very account that signed in is full again.

use smallvec::SmallVec;

use super::pending_decision::DecidedBy;
use super::{Engine, LimitStatus, LimitStatuses, Rules, limit_status};
use crate::bucket::Op;
use crate::event::{Event, Outcome};
use crate::policy::device::Claim;
use crate::policy::{Charge, ChargeOn, Charges, Limit, LimitKind};
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
    pub statuses: LimitStatuses,
    /// What is full again after a success, although nothing was taken from it.
    refilled_on_success: Vec<Charge>,
    is_of_one_account: bool,
    claim: Option<Box<Claim>>,
    decided_by: DecidedBy,
}

impl Reservation {
    pub(super) fn new(generation: u64, found: Charges, standings: LimitStatuses, by: DecidedBy) -> Self {
        let hold = limit_status::longest_hold(&standings);
        let Charges { routes, refilled_on_success: lifts, is_single_account: is_of_one, claim, .. } = found;
        Self {
            generation,
            routes,
            hold,
            statuses: standings,
            refilled_on_success: lifts,
            is_of_one_account: is_of_one,
            claim,
            decided_by: by,
        }
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
        for standing in &self.statuses {
            self.settle_one(standing, engine, rules, outcome);
        }
        if outcome == Outcome::Success && self.is_of_one_account {
            for charge in &self.refilled_on_success {
                engine.apply(rules, self.decided_by, charge, Op::Give(u32::MAX));
            }
        }
    }

    fn settle_one(
        &self,
        LimitStatus { charge, verdict }: &LimitStatus,
        engine: &Engine,
        rules: &Rules,
        outcome: Outcome,
    ) {
        let limit = &rules.policy.limits[charge.limit];
        let op = match (limit.kind, outcome) {
            _ if limit.charge_on == ChargeOn::Attempts => return,
            (LimitKind::Escalation, Outcome::Failure) => Op::Strike,
            (LimitKind::Escalation | LimitKind::Cap, Outcome::Success) if self.belongs_to_account(limit) => {
                Op::Give(u32::MAX)
            }
            (LimitKind::Escalation, _) | (_, Outcome::Failure) => return,
            (LimitKind::Rate | LimitKind::Cap, _) => Op::Refund(verdict.receipt),
        };
        engine.apply(rules, self.decided_by, charge, op);
    }

    /// Whether the buckets of this limit belong to the account that signed in.
    fn belongs_to_account(&self, limit: &Limit) -> bool {
        self.is_of_one_account && limit.is_hidden()
    }

    /// Gives everything back: the attempt was never made.
    pub fn refund(self, engine: &Engine, rules: &Rules) {
        if rules.generation != self.generation {
            return;
        }
        for LimitStatus { charge, verdict } in &self.statuses {
            engine.apply(rules, self.decided_by, charge, Op::Refund(verdict.receipt));
        }
    }
}
