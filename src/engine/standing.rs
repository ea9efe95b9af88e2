//! What single limits said to an attempt, and what follows from it.
//!
//! The surprising thing: a limit that keeps several buckets for each key speaks with one voice. It refuses if any of them
//! does.

use smallvec::SmallVec;

use super::Refusal;
use crate::bucket::{Answer, Verdict};
use crate::event::Decision;
use crate::policy::{Charge, Facet, Policy};
use crate::time::Span;

/// What each limit of an attempt said, in the order of the file.
pub type Standings = SmallVec<[Standing; 2]>;

/// What one limit said.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// What the attempt was charged to.
    pub charge: Charge,
    /// What the bucket said.
    pub verdict: Verdict,
}

impl Refusal {
    /// The limits that refused.
    pub fn violated(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| standing.refuses())
    }
}

impl Standing {
    /// Whether this limit refused the attempt.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.charge.enforce && !self.verdict.is_admitted()
    }

    pub(super) fn decision(&self) -> Decision {
        match (self.verdict.is_admitted(), self.charge.enforce) {
            (true, _) => Decision::Admit,
            (false, true) => Decision::Refuse,
            (false, false) => Decision::Observe,
        }
    }
}

/// What each limit said, with its position. One that keeps several buckets for a key is named once for each key.
pub(super) fn decisions(policy: &Policy, standings: &[Standing]) -> SmallVec<[(usize, Decision); 2]> {
    let mut found: SmallVec<[(usize, Decision); 2]> = SmallVec::new();
    for standing in standings {
        let (limit, decision) = (standing.charge.limit, standing.decision());
        if policy.limits[limit].facet == Facet::Rate {
            found.push((limit, decision));
            continue;
        }
        let owner = policy.owner_of(limit);
        if decision != Decision::Admit {
            found.iter_mut().filter(|(known, _)| *known == owner).for_each(|(_, said)| *said = decision);
        }
    }
    found
}

/// Whether the limit that this one is a facet of did not have what the attempt costs, in any of its buckets.
pub(super) fn is_refused_by_owner(policy: &Policy, standings: &[Standing], facet: usize) -> bool {
    let owner = policy.owner_of(facet);
    let refused = |standing: &Standing| !standing.verdict.is_admitted();
    standings.iter().any(|standing| policy.owner_of(standing.charge.limit) == owner && refused(standing))
}

pub(super) fn longest_hold(standings: &[Standing]) -> Span {
    let hold = |standing: &Standing| match standing.verdict.answer {
        Answer::Held { hold } if standing.charge.enforce => hold,
        _ => Span::ZERO,
    };
    standings.iter().map(hold).max().unwrap_or_default()
}

/// `None` if some limit can never admit the attempt: it costs more than the bucket holds, or a row of failures has to be
/// broken by something else than time.
pub(super) fn longest_wait(policy: &Policy, standings: &[Standing]) -> Option<Span> {
    let mut longest = Span::ZERO;
    for standing in standings.iter().filter(|standing| standing.refuses()) {
        match standing.verdict.answer {
            _ if policy.limits[standing.charge.limit].facet == Facet::Cap => return None,
            Answer::Refused { wait } => longest = longest.max(wait),
            Answer::NeverFits => return None,
            Answer::Admitted | Answer::Held { .. } => {}
        }
    }
    Some(longest)
}
