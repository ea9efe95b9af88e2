//! The policy in force, and where the buckets of its limits are in this process.
//!
//! It decides nothing. The surprising thing: over a shared store these buckets are what was last seen of those in the store, and
//! decide only while it is away.

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
    /// Counts up with every change.
    pub generation: u64,
    /// Routes and limits.
    pub policy: Policy,
    /// For each limit.
    pub(super) buckets: Vec<Arc<Buckets>>,
    /// For each limit, if the buckets are in a shared store: then those in memory are what was last seen of them.
    pub(super) mirrors: Vec<Arc<Mirror>>,
    /// For each route.
    pub(super) concurrency_limits: Vec<Arc<ConcurrencyLimit>>,
}

impl Rules {
    /// The buckets that a limit's rate fills.
    #[must_use]
    pub fn buckets(&self, limit: &str) -> Option<&Arc<Buckets>> {
        self.buckets.get(self.index_of(limit, LimitKind::Rate)?)
    }

    /// For each limit its name, the number of buckets that are not full, and how many live ones gave way.
    pub fn usage(&self, now: Time) -> impl Iterator<Item = (&str, usize, u64)> {
        let limits = self.policy.limits.iter().zip(&self.buckets);
        limits
            .filter(|(limit, _)| limit.mode != Mode::Off)
            .map(move |(limit, buckets)| (&*limit.name, buckets.live(now), buckets.forgotten()))
    }

    /// Runs one operation on a bucket, and hands on what it says. Of a limit that has been changed meanwhile nothing
    /// comes: that errs on the strict side.
    pub(super) fn apply(&self, charge: &Charge, now: Time, op: Op) -> Option<Verdict> {
        let Withdrawal { buckets, bucket: place, .. } = self.withdrawal(charge);
        buckets.apply(&place, now, op).ok()
    }

    /// Waits grow for whoever is refused again and again; an admitted attempt breaks the row. A wait that begins with
    /// this refusal is told with it: whoever comes back as told must not find it.
    pub(super) fn count_consecutive(&self, standings: &mut LimitStatuses, admitted: bool, now: Time) {
        for at in 0..standings.len() {
            let charge = standings[at].charge;
            let limit = &self.policy.limits[charge.limit];
            if limit.kind != LimitKind::Escalation || limit.charge_on != ChargeOn::Attempts {
                continue;
            }
            if admitted {
                self.apply(&charge, now, Op::Give(1));
            } else if limit_status::is_refused_by_owner(&self.policy, standings, charge.limit)
                && let Some(verdict) = self.apply(&charge, now, Op::Strike)
            {
                standings[at].verdict = verdict;
            }
        }
    }

    pub(super) fn index_of(&self, limit: &str, facet: LimitKind) -> Option<usize> {
        self.policy.limits.iter().position(|known| &*known.name == limit && known.kind == facet)
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

    /// The buckets that a limit of the next rules has: the same, or as many that take over from them.
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

/// For each class after a change of the limit: which it was before, and what was promised to it.
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
