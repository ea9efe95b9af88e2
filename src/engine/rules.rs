//! The policy in force, and the buckets of its limits in this process.
//!
//! It decides nothing. Over a shared store these buckets mirror the store and decide only while it is unavailable.

use std::sync::Arc;

use smallvec::SmallVec;

use super::concurrency_limit::ConcurrencyLimit;
use super::limit_status::{self, LimitStatuses};
use crate::bucket::{Op, Spec, Verdict};
use crate::policy::{Charge, ChargeOn, Charges, Limit, LimitKind, Mode, Policy};
use crate::store::memory::{BucketKey, Buckets, TooLarge, Withdrawal};
use crate::store::shared::Mirror;
use crate::time::Time;

/// The policy in force and the buckets of its limits.
#[derive(Debug)]
pub struct Rules {
    /// Increases with each change.
    pub generation: u64,
    /// Routes and limits.
    pub policy: Policy,
    /// The buckets of each limit.
    pub(super) buckets: Vec<Arc<Buckets>>,
    /// The mirror of each limit, if the buckets are in a shared store; else empty.
    pub(super) mirrors: Vec<Arc<Mirror>>,
    /// The counters of each route.
    pub(super) concurrency_limits: Vec<Arc<ConcurrencyLimit>>,
}

impl Rules {
    /// The buckets of a limit's rate.
    #[must_use]
    pub fn buckets(&self, limit: &str) -> Option<&Arc<Buckets>> {
        self.buckets.get(self.index_of(limit, LimitKind::Rate)?)
    }

    /// For each limit its name, the number of buckets that are not full, and the number of live buckets that were
    /// evicted.
    pub fn usage(&self, now: Time) -> impl Iterator<Item = (&str, usize, u64)> {
        let limits = self.policy.limits.iter().zip(&self.buckets);
        limits
            .filter(|(limit, _)| limit.mode != Mode::Off)
            .map(move |(limit, buckets)| (&*limit.name, buckets.live(now), buckets.forgotten()))
    }

    /// Runs one operation on a bucket. `None` if the limit was changed meanwhile: nothing is done, which errs on the
    /// strict side.
    pub(super) fn apply(&self, charge: &Charge, now: Time, op: Op) -> Option<Verdict> {
        let Withdrawal { buckets, bucket, .. } = self.withdrawal(charge);
        buckets.apply(&bucket, now, op).ok()
    }

    /// Counts refusals in a row for growing waits; an admitted attempt breaks the row. A wait that begins with this
    /// refusal becomes part of its verdict, so that the refusal tells the client the full wait.
    pub(super) fn count_consecutive(&self, statuses: &mut LimitStatuses, admitted: bool, now: Time) {
        for at in 0..statuses.len() {
            let charge = statuses[at].charge;
            let limit = &self.policy.limits[charge.limit];
            if limit.kind != LimitKind::Escalation || limit.charge_on != ChargeOn::Attempts {
                continue;
            }
            if admitted {
                self.apply(&charge, now, Op::Give(1));
            } else if limit_status::is_refused_by_owner(&self.policy, statuses, charge.limit)
                && let Some(verdict) = self.apply(&charge, now, Op::Strike)
            {
                statuses[at].verdict = verdict;
            }
        }
    }

    pub(super) fn index_of(&self, limit: &str, kind: LimitKind) -> Option<usize> {
        self.policy.limits.iter().position(|known| &*known.name == limit && known.kind == kind)
    }

    pub(super) fn withdrawal(&self, charge: &Charge) -> Withdrawal<'_> {
        let Charge { limit, key, class, spec, cost, tag, enforce, .. } = *charge;
        Withdrawal {
            buckets: &self.buckets[limit],
            bucket: BucketKey { key, class, spec },
            cost,
            tag,
            enforce,
        }
    }

    pub(super) fn withdrawals(&self, found: &Charges) -> SmallVec<[Withdrawal<'_>; 2]> {
        let mut withdrawals = SmallVec::new();
        for charge in &found.charges {
            withdrawals.push(self.withdrawal(charge));
        }
        withdrawals
    }

    /// The buckets for a limit of new rules: the same, or converted ones if the limit changed.
    pub(super) fn buckets_for(
        &self,
        limit: &Limit,
        capacity: usize,
        now: Time,
    ) -> Result<Arc<Buckets>, TooLarge> {
        let Some(index) = self.index_of(&limit.name, limit.kind) else {
            return Buckets::new(capacity, &specs(limit)).map(Arc::new);
        };
        let (before, after) = (self.policy.limits[index].classes(), limit.classes());
        if before == after {
            return Ok(Arc::clone(&self.buckets[index]));
        }
        let classes = classes_of(&before, &after);
        self.buckets[index].changed(capacity, &specs(limit), classes, now).map(Arc::new)
    }
}

/// For each class of a changed limit: its former position and specification.
pub(super) fn classes_of(
    before: &[(Arc<str>, Option<Spec>)],
    after: &[(Arc<str>, Option<Spec>)],
) -> Vec<Option<(usize, Spec)>> {
    let was = |(name, _): &(Arc<str>, Option<Spec>)| {
        let class = before.iter().position(|(known, _)| known == name)?;
        Some((class, before[class].1?))
    };
    after.iter().map(was).collect()
}

pub(super) fn specs(limit: &Limit) -> Vec<Spec> {
    limit.classes().into_iter().filter_map(|(_, spec)| spec).collect()
}
