//! The status of each limit for one attempt, and what follows from it.
//!
//! A limit with several buckets for each key counts as one: it refuses if any of its buckets refuses.

use smallvec::SmallVec;

use super::Refusal;
use crate::bucket::{Admission, Effect, Verdict};
use crate::event::LimitDecision;
use crate::policy::{Charge, Charges, LimitKind, Policy};
use crate::store::memory::CombinedVerdict;
use crate::time::Span;

/// The status of each limit of an attempt, in the order of the file.
pub type LimitStatuses = SmallVec<[LimitStatus; 2]>;

/// The status of one limit for one attempt.
#[derive(Debug, Clone, Copy)]
pub struct LimitStatus {
    /// The bucket and the cost.
    pub charge: Charge,
    /// The verdict of the bucket.
    pub verdict: Verdict,
}

impl Refusal {
    /// The limits that refused.
    pub fn violated(&self) -> impl Iterator<Item = &LimitStatus> {
        self.statuses.iter().filter(|status| status.refuses())
    }
}

impl LimitStatus {
    /// These charges with their verdicts.
    pub(super) fn all_of(found: &Charges, decided: &CombinedVerdict) -> LimitStatuses {
        let mut all = LimitStatuses::new();
        for (charge, verdict) in found.charges.iter().zip(&decided.verdicts) {
            all.push(Self { charge: *charge, verdict: *verdict });
        }
        all
    }

    /// Whether this limit refused the attempt.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.charge.effect.is_enforced() && !self.verdict.is_admitted()
    }

    /// Whether this limit would have refused the attempt, but only observes.
    #[must_use]
    pub fn would_refuse(&self) -> bool {
        self.charge.effect == Effect::Observe && !self.verdict.is_admitted()
    }

    pub(super) fn decision(&self) -> LimitDecision {
        match (self.verdict.is_admitted(), self.charge.effect.is_enforced()) {
            (true, _) => LimitDecision::Admit,
            (false, true) => LimitDecision::Refuse,
            (false, false) => LimitDecision::Observe,
        }
    }
}

/// The decision of each limit, with its position. A limit with several buckets for a key appears once for each key.
pub(super) fn decisions(policy: &Policy, statuses: &[LimitStatus]) -> SmallVec<[(usize, LimitDecision); 2]> {
    let mut found: SmallVec<[(usize, LimitDecision); 2]> = SmallVec::new();
    for status in statuses {
        let (limit, decision) = (status.charge.limit, status.decision());
        if policy.limits[limit].kind == LimitKind::Rate {
            found.push((limit, decision));
            continue;
        }
        let owner = policy.rate_limit_of(limit);
        if decision != LimitDecision::Admit {
            found.iter_mut().filter(|(limit, _)| *limit == owner).for_each(|(_, known)| *known = decision);
            // A known owner may pay from this bucket alone.
            if found.iter().all(|(limit, _)| *limit != owner) {
                found.push((owner, decision));
            }
        }
    }
    found
}

/// Whether the limit that `sub_limit` belongs to lacked the tokens, in any of its buckets.
pub(super) fn is_refused_by_owner(policy: &Policy, statuses: &[LimitStatus], sub_limit: usize) -> bool {
    let owner = policy.rate_limit_of(sub_limit);
    let refused = |status: &LimitStatus| !status.verdict.is_admitted();
    statuses.iter().any(|status| policy.rate_limit_of(status.charge.limit) == owner && refused(status))
}

/// The failures of an admitted attempt's account, made by strangers before it; attempts that are still open count as
/// failures. Those in a row where `max_failures` counts them, otherwise those that the account's limit of failures has not yet
/// refilled.
pub(super) fn failures_before(policy: &Policy, statuses: &[LimitStatus]) -> u32 {
    let of = |LimitStatus { charge, verdict }: &LimitStatus| {
        let here = verdict.left.saturating_add(verdict.receipt.tokens);
        charge.spec.burst().saturating_sub(here)
    };
    let counts_rows = counts_rows(policy, statuses);
    let counts = |status: &&LimitStatus| {
        let limit = &policy.limits[status.charge.limit];
        if counts_rows { limit.kind == LimitKind::Cap } else { limit.counts_failures_of_accounts() }
    };
    statuses.iter().filter(counts).map(of).max().unwrap_or(0)
}

/// Whether one of these limits counts the failures in a row of an account.
pub(super) fn counts_rows(policy: &Policy, statuses: &[LimitStatus]) -> bool {
    statuses.iter().any(|status| policy.limits[status.charge.limit].kind == LimitKind::Cap)
}

pub(super) fn longest_hold(statuses: &[LimitStatus]) -> Span {
    let hold = |status: &LimitStatus| match status.verdict.admission {
        Admission::Held { hold } if status.charge.effect.is_enforced() => hold,
        _ => Span::ZERO,
    };
    statuses.iter().map(hold).max().unwrap_or_default()
}

/// `None` if a limit can never admit the attempt by waiting: it costs more than the bucket holds, or only a success or
/// an operator ends the row of failures.
pub(super) fn longest_wait(policy: &Policy, statuses: &[LimitStatus]) -> Option<Span> {
    let mut longest = Span::ZERO;
    for status in statuses.iter().filter(|status| status.refuses()) {
        match status.verdict.admission {
            _ if policy.limits[status.charge.limit].kind == LimitKind::Cap => return None,
            Admission::Refused { wait } => longest = longest.max(wait),
            Admission::NeverFits => return None,
            Admission::Admitted | Admission::Held { .. } => {}
        }
    }
    Some(longest)
}
