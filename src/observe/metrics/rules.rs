//! Counters of routes and limits, an index away from the positions that events carry.
//!
//! Names are looked up when rules change, not when a request is decided. The surprising thing: counters of earlier
//! rules are kept for a while, since an attempt that was decided under them may be settled much later. Where a limit
//! has a cap or waits that grow, these are counted when they refuse, and its rate alone says how many it admits.

use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::event::{LimitDecision, Outcome};
use crate::policy::{LimitKind, Mode, Policy};

/// Counts decisions and what came of attempts.
#[derive(Debug, Default)]
pub(super) struct RuleCounters {
    decisions: Family<DecisionLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    /// The newest first.
    generations: ArcSwap<Vec<Arc<RuleGeneration>>>,
}

/// The counters of one generation of rules, by position.
#[derive(Debug)]
struct RuleGeneration {
    generation: u64,
    routes: Vec<Arc<str>>,
    limits: Vec<(Arc<str>, LimitKind)>,
    /// For each route each limit; `None` where the file does not bring the two together.
    decisions: Vec<Option<[Counter; DECISIONS.len()]>>,
    attempts: Vec<[Counter; OUTCOMES.len()]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    route: Arc<str>,
    limit: Arc<str>,
    decision: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    route: Arc<str>,
    outcome: &'static str,
}

impl RuleCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let decisions = self.decisions.clone();
        registry.register("tollgate_decisions", "What limits said to attempts", decisions);
        let attempts = self.attempts.clone();
        registry.register("tollgate_attempts", "What came of admitted attempts", attempts);
    }

    /// Takes over the names of new rules. Series that they share with earlier ones go on counting.
    pub(super) fn add_generation(&self, generation: u64, policy: &Policy) {
        let newest = Arc::new(self.resolve(generation, policy));
        self.generations.rcu(|known| {
            let earlier = known.iter().filter(|rules| rules.generation != generation);
            std::iter::once(&newest).chain(earlier).take(GENERATIONS).cloned().collect::<Vec<_>>()
        });
    }

    pub(super) fn decided(&self, generation: u64, route: usize, limit: usize, decision: LimitDecision) {
        let known = self.generations.load();
        let Some(rules) = find(&known, generation) else { return };
        match rules.decisions.get(route * rules.limits.len() + limit) {
            Some(Some(counters)) => drop(counters[decision_index(decision)].inc()),
            _ => self.count_by_name(rules, route, limit, decision),
        }
    }

    pub(super) fn settled(&self, generation: u64, route: usize, outcome: Outcome) {
        let known = self.generations.load();
        if let Some(counters) = find(&known, generation).and_then(|rules| rules.attempts.get(route)) {
            counters[outcome_index(outcome)].inc();
        }
    }

    /// A path with several readings may be charged for limits of another route than the one that is named.
    fn count_by_name(&self, rules: &RuleGeneration, route: usize, limit: usize, decision: LimitDecision) {
        if let (Some(route), Some((limit, facet))) = (rules.routes.get(route), rules.limits.get(limit)) {
            self.decision(route, limit, *facet, DECISIONS[decision_index(decision)]).inc();
        }
    }

    fn resolve(&self, generation: u64, policy: &Policy) -> RuleGeneration {
        let routes: Vec<_> = policy.routes.iter().map(|route| Arc::clone(&route.name)).collect();
        let limits: Vec<_> =
            policy.limits.iter().map(|limit| (Arc::clone(&limit.name), limit.kind)).collect();
        let attempts =
            routes.iter().map(|route| OUTCOMES.map(|outcome| self.attempt(route, outcome))).collect();
        let pairs = policy.routes.iter().flat_map(|route| {
            policy.limits.iter().enumerate().map(move |(index, limit)| (route, index, limit))
        });
        let decisions = pairs.map(|(route, index, limit)| {
            let met = limit.mode != Mode::Off && route.limits.contains(&index);
            met.then(|| DECISIONS.map(|word| self.decision(&route.name, &limit.name, limit.kind, word)))
        });
        RuleGeneration { generation, decisions: decisions.collect(), attempts, routes, limits }
    }

    /// One that nobody sees for what the rate of the same limit says already.
    fn decision(
        &self,
        route: &Arc<str>,
        limit: &Arc<str>,
        facet: LimitKind,
        decision: &'static str,
    ) -> Counter {
        if facet != LimitKind::Rate && !REFUSALS.contains(&decision) {
            return Counter::default();
        }
        let labels = DecisionLabels { route: Arc::clone(route), limit: Arc::clone(limit), decision };
        self.decisions.get_or_create_owned(&labels)
    }

    fn attempt(&self, route: &Arc<str>, outcome: &'static str) -> Counter {
        self.attempts.get_or_create_owned(&AttemptLabels { route: Arc::clone(route), outcome })
    }
}

fn find(known: &[Arc<RuleGeneration>], generation: u64) -> Option<&RuleGeneration> {
    known.iter().find(|rules| rules.generation == generation).map(Arc::as_ref)
}

fn decision_index(decision: LimitDecision) -> usize {
    match decision {
        LimitDecision::Admit => 0,
        LimitDecision::Refuse => 1,
        LimitDecision::Observe => 2,
        LimitDecision::Exempt => 3,
    }
}

fn outcome_index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Success => 0,
        Outcome::Failure => 1,
        Outcome::Neutral => 2,
        Outcome::Error => 3,
    }
}

const DECISIONS: [&str; 4] = ["admit", "refuse", "observe", "exempt"];
const REFUSALS: [&str; 2] = ["refuse", "observe"];
const OUTCOMES: [&str; 4] = ["success", "failure", "neutral", "error"];

/// So many generations back an attempt is still counted: nobody reloads more often than answers take.
const GENERATIONS: usize = 8;
