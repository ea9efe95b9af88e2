//! The status of each limit for one attempt, and what follows from it.
//!
//! The surprising thing: a limit that keeps several buckets for each key speaks with one voice. It refuses if any of them
//! does.

use smallvec::SmallVec;

use super::Refusal;
use crate::bucket::{Admission, Verdict};
use crate::event::LimitDecision;
use crate::policy::{Charge, LimitKind, Policy};
use crate::time::Span;

/// What each limit of an attempt said, in the order of the file.
pub type LimitStatuses = SmallVec<[LimitStatus; 2]>;

/// What one limit said.
#[derive(Debug, Clone, Copy)]
pub struct LimitStatus {
    /// What the attempt was charged to.
    pub charge: Charge,
    /// What the bucket said.
    pub verdict: Verdict,
}

impl Refusal {
    /// The limits that refused.
    pub fn violated(&self) -> impl Iterator<Item = &LimitStatus> {
        self.statuses.iter().filter(|standing| standing.refuses())
    }
}

impl LimitStatus {
    /// Whether this limit refused the attempt.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.charge.enforce && !self.verdict.is_admitted()
    }

    pub(super) fn decision(&self) -> LimitDecision {
        match (self.verdict.is_admitted(), self.charge.enforce) {
            (true, _) => LimitDecision::Admit,
            (false, true) => LimitDecision::Refuse,
            (false, false) => LimitDecision::Observe,
        }
    }
}

/// What each limit said, with its position. One that keeps several buckets for a key is named once for each key.
pub(super) fn decisions(policy: &Policy, standings: &[LimitStatus]) -> SmallVec<[(usize, LimitDecision); 2]> {
    let mut found: SmallVec<[(usize, LimitDecision); 2]> = SmallVec::new();
    for standing in standings {
        let (limit, decision) = (standing.charge.limit, standing.decision());
        if policy.limits[limit].kind == LimitKind::Rate {
            found.push((limit, decision));
            continue;
        }
        let owner = policy.rate_limit_of(limit);
        if decision != LimitDecision::Admit {
            found.iter_mut().filter(|(known, _)| *known == owner).for_each(|(_, said)| *said = decision);
        }
    }
    found
}

/// Whether the limit that this one is a facet of did not have what the attempt costs, in any of its buckets.
pub(super) fn is_refused_by_owner(policy: &Policy, standings: &[LimitStatus], facet: usize) -> bool {
    let owner = policy.rate_limit_of(facet);
    let refused = |standing: &LimitStatus| !standing.verdict.is_admitted();
    standings.iter().any(|standing| policy.rate_limit_of(standing.charge.limit) == owner && refused(standing))
}

pub(super) fn longest_hold(standings: &[LimitStatus]) -> Span {
    let hold = |standing: &LimitStatus| match standing.verdict.admission {
        Admission::Held { hold } if standing.charge.enforce => hold,
        _ => Span::ZERO,
    };
    standings.iter().map(hold).max().unwrap_or_default()
}

/// `None` if some limit can never admit the attempt: it costs more than the bucket holds, or a row of failures has to be
/// broken by something else than time.
pub(super) fn longest_wait(policy: &Policy, standings: &[LimitStatus]) -> Option<Span> {
    let mut longest = Span::ZERO;
    for standing in standings.iter().filter(|standing| standing.refuses()) {
        match standing.verdict.admission {
            _ if policy.limits[standing.charge.limit].kind == LimitKind::Cap => return None,
            Admission::Refused { wait } => longest = longest.max(wait),
            Admission::NeverFits => return None,
            Admission::Admitted | Admission::Held { .. } => {}
        }
    }
    Some(longest)
}
