//! Attempts that count as several: failures of some weight, and what no person does.
//!
//! Which weight an attempt has, says the policy; what it costs besides is taken after it was admitted, as far as there is
//! any.

use super::{Engine, LimitStatus, LimitStatuses, Rules};
use crate::bucket::Op;
use crate::policy::{Charge, ChargeOn, Charges, LimitKind, Unit};
use crate::store::DecidedBy;

/// As how many one attempt counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weight {
    /// Where failures are counted.
    Failure(u32),
    /// Where its client's address pays for what no person does.
    Suspicion(u32),
}

impl Engine {
    /// Takes what an admitted attempt costs besides.
    pub(super) fn charge_weight(
        &self,
        rules: &Rules,
        found: &Charges,
        statuses: &LimitStatuses,
        decided_by: DecidedBy,
    ) {
        let weight = found.on_outcome.notes.weight_of_attempt();
        if weight > 1 {
            let extra = statuses.iter().flat_map(|status| extra(status, rules, &[Weight::Suspicion(weight)]));
            self.apply(rules, decided_by, extra);
        }
    }
}

/// What an attempt of these weights takes besides, one failure at a time: as much as is there.
pub(super) fn extra<'s>(
    LimitStatus { charge, .. }: &'s LimitStatus,
    rules: &Rules,
    weights: &[Weight],
) -> impl Iterator<Item = (&'s Charge, Op)> + use<'s> {
    let limit = &rules.policy.limits[charge.limit];
    let counts = |weight: &Weight| match *weight {
        Weight::Failure(weight)
            if limit.kind == LimitKind::Rate
                && limit.charge_on == ChargeOn::Failures
                && limit.unit == Unit::Attempts =>
        {
            weight
        }
        Weight::Suspicion(weight) if limit.charges_weights() => weight,
        _ => 1,
    };
    let times = weights.iter().map(counts).max().unwrap_or(1).saturating_sub(1);
    std::iter::repeat_with(move || (charge, Op::Take(charge.cost))).take(usize::try_from(times).unwrap_or(0))
}
