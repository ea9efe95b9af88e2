//! Counters of routes and limits, found by the positions that events carry.
//!
//! Names are looked up when rules change, not for each request. Counters of earlier rules are kept for a while, because
//! an attempt decided under them may be settled much later. Sub-limits (`max_failures`, `escalate`) are counted when
//! they refuse; only the rate counts admissions.

use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tollgate_grammar::record::Optional;
use tollgate_grammar::records;

use crate::defences::COUNTERS;
use crate::event::{LimitDecision, SettledAs};
use crate::policy::outcome::Outcome;
use crate::policy::slots::ConcurrencyFigures;
use crate::policy::{DefenceCounter, Limit, LimitKind, Mode, Policy};

records! {
    /// The routes in force.
    pub(in crate::observe) RoutesPage {
        /// In the order of the file.
        routes: Vec<RoutePart>,
    }

    /// A route in force.
    pub(in crate::observe) RoutePart {
        /// Its name.
        name: String,
        /// What came of its attempts since the start.
        outcomes: OutcomesPart,
        /// The requests at the application, where `in_flight` is "auto".
        in_flight: Optional<InFlightPart>,
    }

    /// Requests at the application and in front of it.
    pub(in crate::observe) InFlightPart {
        /// Those that may be there now.
        limit: u32,
        /// Those that are there.
        requests: u32,
        /// Those that wait in the gate.
        waiting: u32,
        /// Those that were answered 503 since the start.
        refused: u64,
    }

    /// What came of attempts.
    pub(in crate::observe) OutcomesPart {
        /// Right passwords.
        success: u64,
        /// Wrong ones.
        failure: u64,
        /// Neither.
        neutral: u64,
        /// Without an answer of the application.
        error: u64,
    }
}

/// Counts decisions and outcomes of attempts.
#[derive(Debug, Default)]
pub(super) struct RuleCounters {
    decisions: Family<DecisionLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    noted: NotedCounters,
    guesses_worked: Family<RouteLabels, Counter>,
    /// The newest first.
    generations: ArcSwap<Vec<Arc<RuleGeneration>>>,
}

/// What defences count: for each of [`COUNTERS`] its routes.
#[derive(Debug)]
struct NotedCounters([Family<RouteLabels, Counter>; COUNTERS.len()]);

/// The counters of one generation of rules, by position.
#[derive(Debug)]
struct RuleGeneration {
    generation: u64,
    routes: Vec<Arc<str>>,
    limits: Vec<(Arc<str>, LimitKind)>,
    /// For each route the limits that apply to it, by position, ascending.
    decisions: Vec<Box<[LimitCounters]>>,
    attempts: Vec<[Counter; Outcome::ALL.len()]>,
}

/// A limit of a route, with its counters.
type LimitCounters = (usize, [Counter; LimitDecision::ALL.len()]);

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

impl RuleCounters {
    /// A defence of a route noted something of an attempt.
    pub(super) fn count_noted(&self, counter: &DefenceCounter, route: &str) {
        self.noted.of(counter, route).inc();
    }

    /// A stranger signed in after many failures.
    pub(super) fn guess_worked(&self, route: &str) {
        self.guesses_worked.get_or_create_owned(&RouteLabels { route: route.to_owned() }).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let decisions = self.decisions.clone();
        registry.register("tollgate_decisions", "Decisions of limits on attempts", decisions);
        let attempts = self.attempts.clone();
        registry.register("tollgate_attempts", "Outcomes of admitted attempts", attempts);
        for (counter, routes) in COUNTERS.iter().zip(&self.noted.0) {
            registry.register(counter.name, counter.help, routes.clone());
        }
        let guesses = self.guesses_worked.clone();
        registry.register("tollgate_guesses_worked", "Sign-ins of strangers after many failures", guesses);
    }

    /// Adds the names of new rules. Series that earlier rules share go on counting.
    pub(super) fn add_generation(&self, generation: u64, policy: &Policy) {
        let newest = Arc::new(self.resolve(generation, policy));
        for route in &policy.routes {
            // Each exists from now on, at 0.
            route.defences.counters().for_each(|counter| drop(self.noted.of(counter, &route.name)));
        }
        let counts_failures = |limit: &usize| policy.limits[*limit].kind == LimitKind::Cap;
        for route in policy.routes.iter().filter(|route| route.limits.iter().any(counts_failures)) {
            drop(self.guesses_worked.get_or_create_owned(&RouteLabels { route: route.name.to_string() }));
        }
        self.generations.rcu(|generations| {
            let earlier = generations.iter().filter(|rules| rules.generation != generation);
            std::iter::once(&newest).chain(earlier).take(GENERATIONS).cloned().collect::<Vec<_>>()
        });
    }

    pub(super) fn decided(&self, generation: u64, route: usize, limit: usize, decision: LimitDecision) {
        let generations = self.generations.load();
        let Some(rules) = find(&generations, generation) else { return };
        let of_route = rules.decisions.get(route).map_or(&[][..], |limits| limits);
        match of_route.binary_search_by_key(&limit, |(limit, _)| *limit) {
            Ok(at) => drop(of_route[at].1[decision as usize].inc()),
            Err(_) => self.count_by_name(rules, route, limit, decision),
        }
    }

    pub(super) fn settled(&self, SettledAs { generation, route, outcome }: SettledAs) {
        let generations = self.generations.load();
        if let Some(counters) = find(&generations, generation).and_then(|rules| rules.attempts.get(route)) {
            counters[outcome as usize].inc();
        }
    }

    /// The routes of the newest rules. `in_flight` is asked for each of them.
    pub(super) fn routes_page(&self, in_flight: impl Fn(&str) -> Option<ConcurrencyFigures>) -> RoutesPage {
        let part = |(route, counters): (&Arc<str>, &[Counter; Outcome::ALL.len()])| {
            let [success, failure, neutral, error] = counters.each_ref().map(Counter::get);
            let outcomes = OutcomesPart { success, failure, neutral, error };
            let in_flight = in_flight(route).map(InFlightPart::from).into();
            RoutePart { name: route.to_string(), outcomes, in_flight }
        };
        let generations = self.generations.load();
        let newest = generations.first().into_iter();
        let routes = newest.flat_map(|rules| rules.routes.iter().zip(&rules.attempts));
        RoutesPage { routes: routes.map(part).collect() }
    }

    /// The decisions of a limit on all routes so far, in the order of [`LimitDecision::ALL`]. Counts nothing.
    pub(super) fn totals(&self, limit: &str) -> [u64; LimitDecision::ALL.len()] {
        let generations = self.generations.load();
        let newest = generations.first();
        let limit = newest.and_then(|rules| rules.limits.iter().find(|(name, _)| **name == *limit));
        LimitDecision::ALL.map(LimitDecision::name).map(|decision| {
            let of_route = |route: &Arc<str>| {
                let labels =
                    DecisionLabels { route: Arc::clone(route), limit: Arc::clone(&limit?.0), decision };
                self.decisions.get(&labels).map(|counter| counter.get())
            };
            let routes = newest.into_iter().flat_map(|rules| &rules.routes);
            routes.filter_map(of_route).sum()
        })
    }

    /// Counts by name: a path with several readings may be charged for limits of another route than the event's.
    fn count_by_name(&self, rules: &RuleGeneration, route: usize, limit: usize, decision: LimitDecision) {
        if let (Some(route), Some((limit, kind))) = (rules.routes.get(route), rules.limits.get(limit)) {
            self.decision(route, limit, *kind, decision.name()).inc();
        }
    }

    fn resolve(&self, generation: u64, policy: &Policy) -> RuleGeneration {
        let routes: Vec<_> = policy.routes.iter().map(|route| Arc::clone(&route.name)).collect();
        let limits: Vec<_> =
            policy.limits.iter().map(|limit| (Arc::clone(&limit.name), limit.kind)).collect();
        let attempts = routes
            .iter()
            .map(|route| Outcome::ALL.map(|outcome| self.attempt(route, outcome.name())))
            .collect();
        let decisions = policy.routes.iter().map(|route| {
            let limits = route.limits.iter().filter_map(|&at| Some((at, policy.limits.get(at)?)));
            let counted = limits.filter(|(_, limit)| limit.mode != Mode::Off);
            counted.map(|(at, limit)| (at, self.decisions_of(&route.name, limit))).collect()
        });
        RuleGeneration { generation, decisions: decisions.collect(), attempts, routes, limits }
    }

    fn decisions_of(&self, route: &Arc<str>, limit: &Limit) -> [Counter; LimitDecision::ALL.len()] {
        LimitDecision::ALL.map(|decision| self.decision(route, &limit.name, limit.kind, decision.name()))
    }

    /// The counter of a decision. A sub-limit gets one that is not shown, unless the decision is a refusal.
    fn decision(
        &self,
        route: &Arc<str>,
        limit: &Arc<str>,
        kind: LimitKind,
        decision: &'static str,
    ) -> Counter {
        if kind != LimitKind::Rate && !REFUSALS.contains(&decision) {
            return Counter::default();
        }
        let labels = DecisionLabels { route: Arc::clone(route), limit: Arc::clone(limit), decision };
        self.decisions.get_or_create_owned(&labels)
    }

    fn attempt(&self, route: &Arc<str>, outcome: &'static str) -> Counter {
        self.attempts.get_or_create_owned(&AttemptLabels { route: Arc::clone(route), outcome })
    }
}

impl From<ConcurrencyFigures> for InFlightPart {
    fn from(ConcurrencyFigures { limit, in_flight, waiting, refused }: ConcurrencyFigures) -> Self {
        Self { limit, requests: in_flight, waiting, refused }
    }
}

impl NotedCounters {
    /// The counter of a route; one that is not shown, if no list has it.
    fn of(&self, counter: &DefenceCounter, route: &str) -> Counter {
        let at = COUNTERS.iter().position(|known| *known == counter);
        let routes = at.and_then(|at| self.0.get(at));
        routes
            .map(|routes| routes.get_or_create_owned(&RouteLabels { route: route.to_owned() }))
            .unwrap_or_default()
    }
}

impl Default for NotedCounters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Family::default()))
    }
}

fn find(generations: &[Arc<RuleGeneration>], generation: u64) -> Option<&RuleGeneration> {
    generations.iter().find(|rules| rules.generation == generation).map(Arc::as_ref)
}

const REFUSALS: [&str; 2] = ["refuse", "observe"];

/// Generations for which late attempts are still counted; reloads are rarer than responses are slow.
const GENERATIONS: usize = 8;
