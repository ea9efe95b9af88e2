//! The policy in force, and the buckets of its limits.
//!
//! It decides nothing. Over a shared store it sees only the mirror of the buckets in memory.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Engine;
use super::limit_status::{self, LimitStatus, LimitStatuses};
use super::overrides::{BanInForce, Overrides};
use super::pardon::PardonBuckets;
use super::remembered_clients::RememberedSets;
use crate::bucket::{Op, Spec};
use crate::policy::attempt::Attempt;
use crate::policy::network::NetworkMap;
use crate::policy::{Charge, Charges, Limit, LimitKind, Mode, Policy, Unchargeable};
use crate::store::memory::{BucketKey, Buckets, TooLarge, Withdrawal};
use crate::store::{LimitBuckets, LimitWithdrawal, Store};
use crate::time::{Span, Time};

/// The policy in force and the buckets of its limits.
#[derive(Debug)]
pub struct Rules {
    /// Increases with each change.
    pub generation: u64,
    /// Routes and limits, with the changes of operators.
    pub policy: Arc<Policy>,
    /// The same as the file has them.
    pub configured: Arc<Policy>,
    /// The changes of operators.
    pub overrides: Overrides,
    /// Prefixes that operators have banned, with the ends.
    pub(super) banned: NetworkMap<BanInForce>,
    /// The buckets of each limit.
    pub(super) buckets: Vec<LimitBuckets>,
    /// What vouchers have given; `None` if they give nothing.
    pub(super) pardon: Option<PardonBuckets>,
    /// The clients that are remembered for accounts.
    pub(super) remembered: Option<RememberedSets>,
}

impl Rules {
    /// The first rules, with these changes by operators and these buckets for the limits.
    pub(super) fn first(
        configured: Arc<Policy>,
        overrides: Overrides,
        buckets: Vec<LimitBuckets>,
        pardon: Option<PardonBuckets>,
        remembered: Option<RememberedSets>,
    ) -> Self {
        Self {
            generation: 0,
            policy: overrides.apply(&configured),
            configured,
            banned: overrides.banned(),
            overrides,
            buckets,
            pardon,
            remembered,
        }
    }

    /// The buckets of a limit's rate, as far as they are in memory.
    #[must_use]
    pub fn buckets(&self, limit: &str) -> Option<&Arc<Buckets>> {
        Some(self.buckets.get(self.index_of(limit, LimitKind::Rate)?)?.in_memory())
    }

    /// For each limit its name, the number of buckets that are not full, and the number of live buckets that were
    /// evicted.
    pub fn usage(&self, now: Time) -> impl Iterator<Item = (&str, usize, u64)> {
        let limits = self.policy.limits.iter().zip(&self.buckets);
        limits
            .filter(|(limit, _)| limit.mode != Mode::Off)
            .map(|(limit, buckets)| (&*limit.name, buckets.in_memory()))
            .map(move |(limit, buckets)| (limit, buckets.live(now), buckets.forgotten()))
    }

    /// The charges of an attempt, as the engine names its buckets.
    ///
    /// # Errors
    /// See [`Unchargeable`].
    pub fn charges(&self, engine: &Engine, attempt: &Attempt<'_>) -> Result<Charges, Unchargeable> {
        let (own, now) = (engine.clock().now(), engine.time());
        engine.charges_of(self, attempt, self.policy.routes_of(attempt), own, now)
    }

    /// The longest wait of the limits that refuse; `None` if one of them does not open with time.
    #[must_use]
    pub fn longest_wait(&self, statuses: &[LimitStatus]) -> Option<Span> {
        limit_status::longest_wait(&self.policy, statuses)
    }

    /// The time until the tokens of all limits that hold an attempt are due.
    #[must_use]
    pub fn longest_hold(statuses: &[LimitStatus]) -> Span {
        limit_status::longest_hold(statuses)
    }

    /// Counts refusals in a row for growing waits; an admitted attempt breaks the row. A wait that begins with this
    /// refusal becomes part of its verdict, so that the refusal tells the client the full wait.
    pub(super) fn count_consecutive(&self, statuses: &mut LimitStatuses, admitted: bool, now: Time) {
        for (at, op) in self.consecutive(statuses, admitted) {
            let Withdrawal { buckets, bucket, .. } = self.withdrawal(&statuses[at].charge);
            // A limit that was changed meanwhile counts nothing, which errs on the strict side.
            match buckets.in_memory().apply(&bucket, now, op) {
                Ok(verdict) if !admitted => statuses[at].verdict = verdict,
                _ => {}
            }
        }
    }

    /// The operations that count refusals in a row, each with the position of its status. All of them go by the verdicts
    /// before the first of them is applied.
    pub(super) fn consecutive(&self, statuses: &LimitStatuses, admitted: bool) -> SmallVec<[(usize, Op); 2]> {
        let count = |(at, LimitStatus { charge, verdict }): (usize, &LimitStatus)| {
            let is_refused = || limit_status::is_refused_by_owner(&self.policy, statuses, charge.limit);
            let op = self.policy.limits[charge.limit].op_of_decision(admitted, verdict.left, is_refused)?;
            Some((at, op))
        };
        statuses.iter().enumerate().filter_map(count).collect()
    }

    pub(super) fn index_of(&self, limit: &str, kind: LimitKind) -> Option<usize> {
        self.policy.limits.iter().position(|known| &*known.name == limit && known.kind == kind)
    }

    pub(super) fn withdrawal(&self, charge: &Charge) -> LimitWithdrawal<'_> {
        let Charge { limit, key, class, spec, cost, tag, effect, .. } = *charge;
        Withdrawal {
            buckets: &self.buckets[limit],
            bucket: BucketKey { key, class, spec },
            cost,
            tag,
            effect,
        }
    }

    pub(super) fn withdrawals(&self, found: &Charges) -> SmallVec<[LimitWithdrawal<'_>; 2]> {
        let mut withdrawals = SmallVec::new();
        for charge in &found.charges {
            withdrawals.push(self.withdrawal(charge));
        }
        withdrawals
    }

    /// What the next rules take over, by name.
    pub(super) fn by_name(&self) -> RulesByName<'_> {
        // If two had one name, the first would count.
        let limits = self.policy.limits.iter().enumerate().rev();
        let limits = limits.map(|(at, limit)| ((&*limit.name, limit.kind), at));
        RulesByName { rules: self, limits: limits.collect() }
    }
}

/// Rules whose limits are found by their names.
pub(super) struct RulesByName<'r> {
    rules: &'r Rules,
    limits: HashMap<(&'r str, LimitKind), usize>,
}

impl RulesByName<'_> {
    /// The buckets for a limit of new rules: the same, or converted ones if the limit changed.
    pub(super) fn buckets_for(
        &self,
        limit: &Limit,
        store: &Store,
        now: Time,
    ) -> Result<LimitBuckets, TooLarge> {
        let Rules { policy, buckets, .. } = self.rules;
        let is_of_passwords = |index: &usize| policy.limits[*index].is_of_passwords();
        let same = self.limits.get(&(&*limit.name, limit.kind)).copied();
        let Some(index) = same.filter(|index| is_of_passwords(index) == limit.is_of_passwords()) else {
            return new_buckets(limit, store);
        };
        let (before, after) = (policy.limits[index].classes(), limit.classes());
        if before == after {
            return Ok(buckets[index].clone());
        }
        let classes = classes_of(&before, &after);
        store.changed(&buckets[index], (&limit.name, &specs(limit)), classes, now)
    }
}

/// The buckets of a limit by password stay in this process: neither the store nor another gate sees one.
pub(super) fn new_buckets(limit: &Limit, store: &Store) -> Result<LimitBuckets, TooLarge> {
    match limit.is_of_passwords() {
        true => store.own_limit(&specs(limit)),
        false => store.limit(&limit.name, &specs(limit)),
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
