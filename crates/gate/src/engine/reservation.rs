//! The tokens taken for an attempt, and how they are settled.
//!
//! A reservation is a value: dropping it keeps the charge. A success refunds only its own tokens, because an attacker can have
//! successes, too. Only the buckets of the account that signed in become full again.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::pardon::emptied;
use super::weights::{Weight, extra};
use super::{DecidedAttempt, Engine, LimitStatus, LimitStatuses, Rules, limit_status};
use crate::bucket::{Effect, Op};
use crate::event::{Event, GuessWorked, SettledAs};
use crate::policy::outcome::{Judgement, Outcome};
use crate::policy::response::{BodyPrefix, ResponseView};
use crate::policy::{Charges, FailedAttempt, OwnerClaim, Pace, Unsettled};
use crate::store::DecidedBy;
use crate::time::{Span, Time};

/// The tokens taken for an attempt.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    pub(super) generation: u64,
    /// Positions of all routes that count the attempt.
    pub(super) routes: SmallVec<[usize; 2]>,
    /// How long the attempt is held before it is forwarded: the longest hold of its limits.
    pub hold: Span,
    /// The status of each limit.
    pub statuses: LimitStatuses,
    /// What else is known of the attempt.
    pub attempt: DecidedAttempt,
    pub(super) unsettled: Unsettled,
    decided_by: DecidedBy,
    /// Whether the application demands that the client earns its next attempt.
    is_demanding: bool,
}

impl Reservation {
    pub(super) fn new(
        rules: &Rules,
        found: Charges,
        statuses: LimitStatuses,
        decided_by: DecidedBy,
        now: Time,
    ) -> Box<Self> {
        let (generation, hold) = (rules.generation, limit_status::longest_hold(&statuses));
        let attempt = DecidedAttempt::of(&found, now).with_failures(rules, &statuses);
        let Charges { routes, unsettled, .. } = found;
        let is_demanding = false;
        let reservation =
            Self { generation, routes, hold, statuses, attempt, unsettled, decided_by, is_demanding };
        Box::write(Box::new_uninit(), reservation)
    }

    /// Position of the route.
    #[must_use]
    pub fn route(&self) -> usize {
        self.routes.first().copied().unwrap_or_default()
    }

    /// Positions of all routes that count the attempt.
    #[must_use]
    pub fn routes(&self) -> &[usize] {
        &self.routes
    }

    /// The claim to be known as the owner of the account, granted if the attempt succeeds.
    #[must_use]
    pub fn claim(&self) -> Option<&Arc<dyn OwnerClaim>> {
        self.unsettled.claim.as_ref()
    }

    /// Takes note of whether the application demands, by its answer, that the client earns its next attempt.
    pub fn read_demand(&mut self, rules: &Rules, response: &HeaderMap) {
        let Some(name) = rules.policy.pardon.as_ref().and_then(|pardon| pardon.demand()) else { return };
        let mut values = response.get_all(name).iter();
        self.is_demanding = values.next().is_some_and(|value| value == "1") && values.next().is_none();
    }

    /// The headers in which defences tell the application of the attempt.
    pub fn marks(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.unsettled.notes.marks()
    }

    /// The judgement of a response, by all routes that count the attempt. `rules` have to be those that decided.
    #[must_use]
    pub fn judge(&self, rules: &Rules, response: &ResponseView<'_>, body: BodyPrefix<'_>) -> Judgement {
        let routes = self.routes.iter().filter_map(|&at| rules.policy.routes.get(at));
        let judged = routes.map(|route| route.rules.by_body(response, body));
        judged.reduce(Judgement::and).unwrap_or(Outcome::Failure.into())
    }

    /// The judgement by the head of a response, likewise; `None` if it depends on the body.
    #[must_use]
    pub fn judge_head(&self, rules: &Rules, response: &ResponseView<'_>) -> Option<Judgement> {
        let routes = self.routes.iter().filter_map(|&at| rules.policy.routes.get(at));
        let judged = routes.map(|route| route.rules.by_head(response));
        judged.reduce(|one, other| match (one, other) {
            (Some(failure), None) | (None, Some(failure)) if failure.outcome == Outcome::Failure => {
                Some(failure)
            }
            (one, other) => Some(one?.and(other?)),
        })?
    }

    /// Whether a rule reads the body of the response.
    #[must_use]
    pub fn reads_bodies(&self, rules: &Rules) -> bool {
        let mut routes = self.routes.iter().filter_map(|&at| rules.policy.routes.get(at));
        routes.any(|route| route.rules.read_bodies())
    }

    /// By what the body of the answer passes, if limits that count bytes apply to it.
    #[must_use]
    pub fn paces(&self) -> Option<Box<[Pace]>> {
        self.unsettled.notes.paces()
    }

    /// As [`settle`](Self::settle), `at` this [time](Engine::time). Returns a `Set-Cookie` if the client becomes known as an
    /// owner; `is_secure` is whether it uses TLS.
    pub fn settle_and_claim(
        self: Box<Self>,
        engine: &Engine,
        rules: &Rules,
        (judged, at): (Judgement, Time),
        is_secure: bool,
    ) -> Option<HeaderValue> {
        let claim = self.claim().filter(|_| judged.outcome == Outcome::Success).cloned();
        self.settle_by(engine, rules, judged, at);
        claim?.grant(engine.clock().now(), is_secure)
    }

    /// Settles the attempt by its outcome. `rules` have to be those that decided; with others nothing is refunded.
    pub fn settle(self, engine: &Engine, rules: &Rules, judged: impl Into<Judgement>) {
        self.settle_by(engine, rules, judged.into(), engine.time());
    }

    /// As [`settle`](Self::settle), which nobody may do twice.
    fn settle_by(&self, engine: &Engine, rules: &Rules, judged: Judgement, at: Time) {
        let Judgement { outcome, weight, is_said } = judged;
        let (generation, route) = (self.generation, self.route());
        engine.events.emit(&Event::Settled(SettledAs { generation, route, outcome }));
        if rules.generation != generation {
            return;
        }
        self.tell_if_guessed(engine, rules, outcome, at);
        let failed = FailedAttempt { decided: self.attempt.decided, failed: at };
        self.unsettled.notes.settled(self.attempt.facts.account, outcome, failed.failed);
        // What nobody waited for is charged: a client could hang up at once, and ask for ever.
        let is_free = outcome == Outcome::Failure
            && is_said
            && !self.unsettled.notes.charge_failure(failed, self.routes.len());
        let (is_failure, charged) = match is_free {
            true => (false, Outcome::Neutral),
            false => (outcome == Outcome::Failure, outcome),
        };
        // Limits that enforced would have refused it: it would have no outcome.
        let is_observed_refusal = self.statuses.iter().any(LimitStatus::would_refuse);
        let settled = self.statuses.iter().filter_map(|status| {
            let is_settled = !(is_observed_refusal && status.charge.effect == Effect::Observe);
            Some((&status.charge, self.settling(status, rules, outcome, charged).filter(|_| is_settled)?))
        });
        let suspicion = if is_failure { self.unsettled.notes.weight_of_failure(failed) } else { 1 };
        let weights = [Weight::Failure(weight), Weight::Suspicion(suspicion)];
        let is_heavy = is_failure && weight.max(suspicion) > 1;
        let heavy = self.statuses.iter().filter(|_| is_heavy);
        let heavy = heavy.flat_map(|status| extra(status, rules, &weights));
        let is_reset = outcome == Outcome::Success && self.unsettled.is_single_account;
        let reset = self.unsettled.refilled_on_success.iter().filter(|_| is_reset);
        let reset = reset.map(|charge| (charge, Op::Give(u32::MAX)));
        let demanded: &[LimitStatus] = if self.is_demanding { &self.statuses } else { &[] };
        let demanded = emptied(demanded, self.unsettled.is_ipv4, rules);
        engine.apply(rules, self.decided_by, settled.chain(heavy).chain(reset).chain(demanded));
        if let Some(client) = self.unsettled.client.as_ref().filter(|_| is_reset) {
            engine.remember(rules, self.decided_by, client);
        }
    }

    fn tell_if_guessed(&self, engine: &Engine, rules: &Rules, outcome: Outcome, at: Time) {
        let failures = self.attempt.facts.failures_before;
        let is_row = limit_status::counts_rows(&rules.policy, &self.statuses);
        let is_guess = is_row && outcome == Outcome::Success && failures >= GuessWorked::MIN_FAILURES;
        // An earlier route, which any client can have count the attempt as well, may have nobody to tell.
        let mut routes = self.routes.iter().filter_map(|&at| rules.policy.routes.get(at));
        let route =
            routes.clone().find(|route| route.defences.alarms().next().is_some()).or_else(|| routes.next());
        let who = route.zip(self.attempt.facts.account);
        if let Some((route, account)) = who.filter(|_| is_guess) {
            engine.events.emit(&Event::GuessWorked(GuessWorked { route, account, failures, at }));
        }
    }

    /// What this outcome does to the bucket of a limit. `charged` is the outcome after what defences forgive: a directory
    /// forgives nothing.
    fn settling(
        &self,
        LimitStatus { charge, verdict }: &LimitStatus,
        rules: &Rules,
        outcome: Outcome,
        charged: Outcome,
    ) -> Option<Op> {
        let limit = &rules.policy.limits[charge.limit];
        let outcome = if limit.directory.is_some() { outcome } else { charged };
        limit.op_of_outcome(outcome, verdict.receipt, self.unsettled.is_single_account)
    }

    /// Refunds all tokens: the attempt was never made.
    pub fn refund(self, engine: &Engine, rules: &Rules) {
        if rules.generation != self.generation {
            return;
        }
        let refunds = self.statuses.iter().map(|status| (&status.charge, Op::Refund(status.verdict.receipt)));
        engine.apply(rules, self.decided_by, refunds);
    }
}
