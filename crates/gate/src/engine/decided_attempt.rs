//! What stays known of an attempt once the limits decided, and the record of it for logs.
//!
//! The record is put together only where an event needs it; `event` defines it.

use smallvec::SmallVec;

use super::limit_status::{self, LimitStatus, LimitStatuses, longest_wait};
use crate::bucket::Effect;
use crate::event::{AttemptRecord, LimitDecision, LimitRecord};
use crate::policy::{AttemptFacts, Charges, LimitKind, Policy};
use crate::time::{Span, Time};

use super::{Refusal, Rules};

/// An attempt on which the limits decided.
#[derive(Debug, Clone, Default)]
pub struct DecidedAttempt {
    /// What is known of it.
    pub facts: AttemptFacts,
    /// When it was decided, by the clock of the store.
    pub(super) decided: Time,
    exempt: SmallVec<[usize; 2]>,
}

impl Refusal {
    /// A refusal by these limits, with the facts of the attempt.
    #[inline]
    pub(super) fn of(policy: &Policy, found: &Charges, statuses: LimitStatuses, now: Time) -> Self {
        let route = found.routes.first().copied().unwrap_or_default();
        let (wait, attempt) = (longest_wait(policy, &statuses), DecidedAttempt::of(found, now));
        Self { route, wait, statuses, attempt }
    }

    /// The record of the attempt, in the place of that of an earlier one with the same charges and under the same rules.
    pub fn record_again(&self, rules: &Rules, earlier: &mut Option<Box<AttemptRecord>>) {
        let Self { route, statuses, attempt, .. } = self;
        match earlier {
            Some(record) => {
                record.limits = attempt.limit_records(&rules.policy, statuses);
                (record.facts, record.decided) = (attempt.facts, attempt.decided);
            }
            None => *earlier = Some(attempt.record(rules, *route, statuses)),
        }
    }
}

impl DecidedAttempt {
    /// `decided` is the time of the decision, by the clock of the store.
    pub(super) fn of(Charges { facts, exempt, .. }: &Charges, decided: Time) -> Self {
        Self { facts: *facts, decided, exempt: exempt.clone() }
    }

    /// The same of an admitted attempt. To a client that the account knows, failures of strangers are nothing.
    pub(super) fn with_failures(mut self, rules: &Rules, statuses: &[LimitStatus]) -> Self {
        if self.facts.account.is_some() && !self.facts.is_owner {
            self.facts.failures_before = limit_status::failures_before(&rules.policy, statuses);
        }
        self
    }

    /// The record of an attempt on this route, for which the limits have these statuses.
    #[must_use]
    pub fn record(&self, rules: &Rules, route: usize, statuses: &[LimitStatus]) -> Box<AttemptRecord> {
        let limits = self.limit_records(&rules.policy, statuses);
        let (policy, facts, decided) = (rules.policy.clone(), self.facts, self.decided);
        Box::new(AttemptRecord { policy, route, limits, facts, decided, settled: None })
    }

    fn limit_records(&self, policy: &Policy, statuses: &[LimitStatus]) -> SmallVec<[LimitRecord; 2]> {
        let mut limits = limit_records(policy, statuses);
        let exempt = LimitDecision::Exempt;
        for &limit in &self.exempt {
            limits.push(LimitRecord { limit, decision: exempt, left: 0, wait: Some(Span::ZERO) });
        }
        limits
    }
}

/// A limit with several buckets for a key, or several keys, is one record: its fewest tokens and its longest wait.
fn limit_records(policy: &Policy, statuses: &[LimitStatus]) -> SmallVec<[LimitRecord; 2]> {
    let mut found: SmallVec<[LimitRecord; 2]> = SmallVec::new();
    for status in statuses {
        let limit = policy.rate_limit_of(status.charge.limit);
        let is_rate = policy.limits[status.charge.limit].kind == LimitKind::Rate;
        let (decision, wait) = (status.decision(), wait_of(policy, status));
        match found.iter_mut().find(|record| record.limit == limit) {
            Some(record) => {
                if decision != LimitDecision::Admit {
                    record.decision = decision;
                }
                record.wait = record.wait.and_then(|known| Some(known.max(wait?)));
                if is_rate {
                    record.left = record.left.min(status.verdict.left);
                }
            }
            None => found.push(LimitRecord { limit, decision, left: status.verdict.left, wait }),
        }
    }
    found
}

/// As [`longest_wait`](limit_status::longest_wait), for one bucket, whether it enforces or not.
fn wait_of(policy: &Policy, status: &LimitStatus) -> Option<Span> {
    if status.verdict.is_admitted() {
        return Some(Span::ZERO);
    }
    let mut enforcing = *status;
    enforcing.charge.effect = Effect::Enforce { owner: 0 };
    longest_wait(policy, &[enforcing])
}
