//! A decision that waits for the store.
//!
//! The engine keeps the charges of the attempt meanwhile, and counts its refusals in a row when the verdict is there.

use super::{Decision, Engine, Rules};
use crate::bucket::Op;
use crate::policy::Charges;
use crate::store::PendingTake;

/// The first step of a decision.
#[must_use]
pub enum DecisionState {
    /// The decision is made.
    Ready(Decision),
    /// The decision waits for the store.
    Pending(PendingDecision),
}

/// An attempt that waits for the store.
#[derive(Debug)]
#[must_use]
pub struct PendingDecision {
    pub(super) found: Charges,
    pub(super) take: PendingTake,
}

impl PendingDecision {
    /// Waits for the store and decides. The rules are those of the start.
    pub async fn await_store(self, engine: &Engine, rules: &Rules) -> Decision {
        let Self { found, take } = self;
        let withdrawals = rules.withdrawals(&found);
        let Ok((combined, decided_by)) = take.wait(&withdrawals).await else {
            return Decision::Denied;
        };
        let mut statuses = engine.limit_statuses(rules, &found, &combined);
        for (at, op) in rules.consecutive(&statuses, combined.admitted) {
            let Some(verdict) = engine.store.apply_and_wait(&withdrawals[at], decided_by, op).await else {
                continue;
            };
            if op == Op::Strike {
                statuses[at].verdict = verdict;
            }
        }
        Decision::of(rules, found, statuses, (combined.admitted, decided_by), engine.time())
    }
}
