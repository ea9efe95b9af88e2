//! Attempts that count as several: failures with a weight, and what no person does.
//!
//! `policy` says the weight of an attempt. The additional tokens are taken after the attempt was admitted, as far as the
//! bucket has them.

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
    /// Takes the additional tokens of an admitted attempt.
    pub(super) fn charge_weight(
        &self,
        rules: &Rules,
        found: &Charges,
        statuses: &LimitStatuses,
        decided_by: DecidedBy,
    ) {
        let weight = found.unsettled.notes.weight_of_attempt();
        if weight > 1 {
            let extra = statuses.iter().flat_map(|status| extra(status, rules, &[Weight::Suspicion(weight)]));
            self.apply(rules, decided_by, extra);
        }
    }
}

/// The additional tokens of an attempt with these weights, one failure at a time: as much as is there.
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
