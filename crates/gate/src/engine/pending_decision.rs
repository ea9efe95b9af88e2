//! A decision that waits for the store.
//!
//! The engine keeps the charges of the attempt until the verdict arrives, and then counts its refusals in a row.

use super::remembered_clients::PendingClient;
use super::{Decision, Engine, LimitStatus, Rules};
use crate::policy::Charges;
use crate::store::memory::CombinedVerdict;
use crate::store::shared::Unavailable;
use crate::store::{DecidedBy, TakeState};

/// The first step of a decision.
#[must_use]
pub enum DecisionState {
    /// The decision is made.
    Ready(Decision),
    /// The decision waits for the store.
    Pending(Box<PendingDecision>),
}

/// An attempt that waits for the store.
#[derive(Debug)]
#[must_use]
pub struct PendingDecision {
    pub(super) found: Charges,
    pub(super) take: TakeState,
    pub(super) client: Option<Box<PendingClient>>,
}

impl PendingDecision {
    /// Waits for the store and decides. The rules are those of the start.
    pub async fn await_store(self: Box<Self>, engine: &Engine, rules: &Rules) -> Decision {
        let Self { found, take, client } = *self;
        let taken = wait(take, rules, &found).await;
        let known = match client {
            Some(client) if may_help(rules, &found, &taken) => client.remembered().await,
            _ => None,
        };
        let Some(known) = known else { return engine.conclude_over_store(rules, found, taken).await };
        if let Ok(taken) = &taken {
            engine.give_back(rules, &found, taken);
        }
        let Ok(take) = engine.store.take(&rules.withdrawals(&known), engine.time()) else {
            return Decision::Denied;
        };
        let taken = wait(take, rules, &known).await;
        engine.conclude_over_store(rules, known, taken).await
    }
}

impl Engine {
    /// Counts refusals in a row where the tokens are, then concludes.
    async fn conclude_over_store(
        &self,
        rules: &Rules,
        found: Charges,
        taken: Result<(CombinedVerdict, DecidedBy), Unavailable>,
    ) -> Decision {
        let Ok((combined, decided_by)) = taken else { return Decision::Denied };
        let withdrawals = rules.withdrawals(&found);
        let mut statuses = LimitStatus::all_of(&found, &combined);
        self.emit_decisions(rules, &found, &statuses);
        for (at, op) in rules.consecutive(&statuses, combined.admitted) {
            let Some(verdict) = self.store.apply_and_wait(&withdrawals[at], decided_by, op).await else {
                continue;
            };
            if !combined.admitted {
                statuses[at].verdict = verdict;
            }
        }
        let admitted_by = combined.admitted.then_some(decided_by);
        self.conclude(rules, found, statuses, admitted_by, self.time())
    }
}

async fn wait(
    take: TakeState,
    rules: &Rules,
    found: &Charges,
) -> Result<(CombinedVerdict, DecidedBy), Unavailable> {
    match take {
        TakeState::Done(combined) => Ok((combined, DecidedBy::Memory)),
        TakeState::Pending(take) => {
            let on_error = |of_store| rules.policy.on_error(found, of_store);
            take.wait(&rules.withdrawals(found), on_error).await
        }
    }
}

/// Whether the attempt would be charged otherwise if its client were remembered: not if a limit refused it that sees no
/// accounts.
fn may_help(
    rules: &Rules,
    found: &Charges,
    taken: &Result<(CombinedVerdict, DecidedBy), Unavailable>,
) -> bool {
    let Ok((combined, _)) = taken else { return false };
    let both = found.charges.iter().zip(&combined.verdicts);
    !both.into_iter().any(|(charge, verdict)| {
        let is_shown = rules.policy.limits.get(charge.limit).is_some_and(|limit| !limit.is_hidden());
        is_shown && charge.effect.is_enforced() && !verdict.is_admitted()
    })
}
