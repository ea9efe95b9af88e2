//! What the limits said of an attempt, and what came of it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::policy::outcome::Outcome;
use crate::policy::{AttemptFacts, Limit, Policy};
use crate::time::{Span, Time};

/// The decision of one limit on an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitDecision {
    /// The bucket had the tokens.
    Admit,
    /// The bucket did not have the tokens.
    Refuse,
    /// The bucket did not have the tokens, but the limit only observes.
    Observe,
    /// The limit exempts this client.
    Exempt,
}

impl LimitDecision {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Admit, Self::Refuse, Self::Observe, Self::Exempt];

    /// Its word, in logs, metrics and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Refuse => "refuse",
            Self::Observe => "observe",
            Self::Exempt => "exempt",
        }
    }
}

/// What the limits said of one attempt, and what came of it.
#[derive(Debug, Clone)]
pub struct AttemptRecord {
    /// The rules that decided: positions refer to them.
    pub policy: Arc<Policy>,
    /// Position of the route.
    pub route: usize,
    /// Each limit's decision, in the order of the file; sub-limits count as part of their limit.
    pub limits: SmallVec<[LimitRecord; 2]>,
    /// What else is known of the attempt.
    pub facts: AttemptFacts,
    /// When the limits decided, by the clock of the store: later than the arrival if a body had to be read.
    pub decided: Time,
    /// How an admitted attempt was settled, once it is.
    pub settled: Option<AttemptEnd>,
}

/// The outcome of an attempt, for those who count.
#[derive(Debug, Clone, Copy)]
pub struct SettledAs {
    /// The rules that the position refers to.
    pub generation: u64,
    /// Position of the route.
    pub route: usize,
    /// The outcome.
    pub outcome: Outcome,
}

/// How an attempt was settled, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The outcome.
    pub outcome: Outcome,
    /// The time.
    pub at: Time,
}

impl AttemptEnd {
    /// The end of an attempt that is dropped before an answer: a failure.
    #[must_use]
    pub fn dropped(at: Time) -> Self {
        Self { outcome: Outcome::Failure, at }
    }
}

/// The decision of one limit on an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRecord {
    /// Position of the limit.
    pub limit: usize,
    /// The decision.
    pub decision: LimitDecision,
    /// Whole tokens left in its bucket; zero if it exempts the client.
    pub left: u32,
    /// The time until it would admit the attempt; zero if it did, `None` if time does not help.
    pub wait: Option<Span>,
}

impl AttemptRecord {
    /// The name of the route.
    #[must_use]
    pub fn route_name(&self) -> &str {
        self.policy.routes.get(self.route).map_or("", |route| &route.name)
    }

    /// The name of a limit.
    #[must_use]
    pub fn limit_name(&self, record: &LimitRecord) -> &str {
        self.policy.limits.get(record.limit).map_or("", |limit| &limit.name)
    }

    /// The first limit with this decision.
    #[must_use]
    pub fn first(&self, decision: LimitDecision) -> Option<&LimitRecord> {
        self.limits.iter().find(|record| record.decision == decision)
    }

    /// The name of the first limit that refused, if one did.
    #[must_use]
    pub fn refused_by(&self) -> Option<&str> {
        self.first(LimitDecision::Refuse).map(|record| self.limit_name(record))
    }

    /// The name of the first observing limit that would have refused, if one would. Candidates do not count.
    #[must_use]
    pub fn would_refuse(&self) -> Option<&str> {
        let would = |record: &&LimitRecord| record.decision == LimitDecision::Observe;
        self.live_limits().find(would).map(|record| self.limit_name(record))
    }

    /// Whole tokens left in the scarcest bucket; `None` if no limit applies to the client.
    #[must_use]
    pub fn left(&self) -> Option<u32> {
        let applies = |record: &&LimitRecord| record.decision != LimitDecision::Exempt;
        self.live_limits().filter(applies).map(|record| record.left).min()
    }

    /// When it was settled.
    #[must_use]
    pub fn settled_at(&self) -> Option<Time> {
        self.settled.map(|end| end.at)
    }

    /// The decisions of all limits but candidates: those are experiments, and do not show what this gate would do.
    pub fn live_limits(&self) -> impl Iterator<Item = &LimitRecord> {
        let is_live = |at: usize| self.policy.limits.get(at).is_none_or(Limit::is_live);
        self.limits.iter().filter(move |record| is_live(record.limit))
    }
}
