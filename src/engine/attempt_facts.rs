//! The facts of an attempt for logs: each limit's decision, the hash of the account, whether the device is known.
//!
//! They become a record only if an event needs one; `event` defines the record.

use smallvec::SmallVec;

use super::limit_status::{self, LimitStatus, LimitStatuses, longest_wait};
use crate::bucket::{Admission, Effect};
use crate::event::{AttemptRecord, LimitDecision, LimitRecord};
use crate::policy::{Charges, ExposedAction, LimitKind, Policy};
use crate::time::{Span, Time};

use super::{Refusal, Rules};

/// What the policy found out about an attempt, apart from its charges.
#[derive(Debug, Clone, Default)]
pub struct AttemptFacts {
    decided: Time,
    exempt: SmallVec<[usize; 2]>,
    account: Option<u64>,
    is_known_device: bool,
    is_under_attack: bool,
    is_bait: bool,
    exposed: Option<ExposedAction>,
    failures_before: u32,
}

impl Refusal {
    /// A refusal by these limits; takes the facts of the attempt.
    pub(super) fn of(
        policy: &Policy,
        found: &mut Charges,
        statuses: LimitStatuses,
        (route, now): (usize, Time),
    ) -> Self {
        let (wait, facts) = (longest_wait(policy, &statuses), AttemptFacts::take(found, now));
        Self { route, wait, statuses, facts }
    }
}

impl AttemptFacts {
    /// `decided` is the time of the decision, by the clock of the store.
    pub(super) fn take(found: &mut Charges, decided: Time) -> Self {
        let exempt = std::mem::take(&mut found.exempt);
        let Charges { account, is_known_device, is_under_attack, exposed, bait_weight, .. } = *found;
        let is_bait = bait_weight.is_some();
        Self {
            decided,
            exempt,
            account,
            is_known_device,
            is_under_attack,
            is_bait,
            exposed,
            failures_before: 0,
        }
    }

    /// The same of an admitted attempt. To a client that the account knows, failures of strangers are nothing.
    pub(super) fn with_failures(self, rules: &Rules, statuses: &[LimitStatus]) -> Self {
        let is_told = self.account.is_some() && !self.is_known_device;
        let failures = || limit_status::failures_before(&rules.policy, statuses);
        Self { failures_before: if is_told { failures() } else { 0 }, ..self }
    }

    /// Failures in a row of the account before this attempt, which is a stranger's; zero where they are not counted.
    #[must_use]
    pub fn failures_before(&self) -> u32 {
        self.failures_before
    }

    /// When it was decided, by the clock of the store.
    pub(super) fn decided(&self) -> Time {
        self.decided
    }

    /// The account in logs, if the attempt names a single one.
    pub(super) fn account(&self) -> Option<u64> {
        self.account
    }

    /// Whether the application is told that the password is exposed.
    #[must_use]
    pub fn is_marked_as_exposed(&self) -> bool {
        self.exposed >= Some(ExposedAction::Mark)
    }

    /// Whether a route that counts it was under attack.
    pub(super) fn is_under_attack(&self) -> bool {
        self.is_under_attack
    }

    /// The record of an attempt on this route, for which the limits have these statuses.
    #[must_use]
    pub fn record(&self, rules: &Rules, route: usize, statuses: &[LimitStatus]) -> Box<AttemptRecord> {
        let exempt = self.exempt.iter().map(|&limit| LimitRecord {
            limit,
            decision: LimitDecision::Exempt,
            left: 0,
            wait: Some(Span::ZERO),
        });
        let mut limits: SmallVec<[LimitRecord; 2]> = limit_records(&rules.policy, statuses);
        limits.extend(exempt);
        Box::new(AttemptRecord {
            policy: rules.policy.clone(),
            route,
            limits,
            account: self.account,
            is_known_device: self.is_known_device,
            decided: self.decided,
            is_under_attack: self.is_under_attack,
            is_bait: self.is_bait,
            failures_before: self.failures_before,
            outcome: None,
            settled: None,
        })
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
    let mut enforcing = *status;
    enforcing.charge.effect = Effect::Enforce { owner: 0 };
    match status.verdict.admission {
        Admission::Held { .. } | Admission::Admitted => Some(Span::ZERO),
        Admission::Refused { .. } | Admission::NeverFits => longest_wait(policy, &[enforcing]),
    }
}
