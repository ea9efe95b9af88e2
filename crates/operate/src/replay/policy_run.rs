//! One policy on its way through the log: its engine, and what each limit has done so far.
//!
//! The order of events is left to [`driver`](super::driver).

use std::sync::Arc;

use http::StatusCode;

use super::ReplayError;
use super::attempt::{LoggedAttempt, Told};
use super::judged::{self, LogColumns, VisibleRules};
use super::report::{GateDifferences, PolicyReport};
use super::tally::LimitTally;
use crate::defences::OWNERS;
use crate::engine::{Decision, Engine, LimitStatus, Reservation, Rules};
use crate::event::{AttemptEnd, AttemptRecord, Events, LimitDecision};
use crate::policy::attempt::Client;
use crate::policy::key::PrefixLengths;
use crate::policy::outcome::Outcome;
use crate::policy::response::ResponseView;
use crate::policy::{Limit, LimitKind, Policy};
use crate::time::{Clock, Time};

/// A policy to be replayed.
#[derive(Debug)]
pub struct ReplayedPolicy {
    /// The name of its file.
    pub name: String,
    /// Routes and limits.
    pub policy: Policy,
    /// Buckets of each limit.
    pub capacity: usize,
    /// The prefix lengths of `[client]`, by which the report tells clients apart.
    pub prefixes: PrefixLengths,
    /// The status of a refusal: a line with it has no outcome.
    pub refuse_status: StatusCode,
}

/// A policy on its way.
pub(super) struct PolicyRun {
    name: String,
    engine: Engine,
    rules: Arc<Rules>,
    clock: Clock,
    prefixes: PrefixLengths,
    refuse_status: StatusCode,
    modes: Vec<&'static str>,
    not_judged: Vec<Option<&'static str>>,
    visible: Vec<VisibleRules>,
    /// One for each limit; only those of rates count.
    limits: Vec<LimitTally>,
    attempts: u64,
    refused: u64,
    refused_elsewhere: u64,
    gate: Option<GateDifferences>,
    notes: Vec<String>,
}

/// What the policy does with an attempt.
pub(super) struct Replayed {
    pub(super) is_refused: bool,
    /// The outcome by the log; `None` if the application did not see the attempt.
    pub(super) outcome: Option<Outcome>,
    /// What the attempt took, until it is settled.
    pub(super) reservation: Option<Box<Reservation>>,
}

impl PolicyRun {
    pub(super) fn new(replayed: ReplayedPolicy, columns: LogColumns) -> Result<Self, ReplayError> {
        let ReplayedPolicy { name, mut policy, capacity, prefixes, refuse_status } = replayed;
        let modes = policy.limits.iter().map(Limit::role).collect();
        let mut notes = notes(&policy, columns);
        let not_judged = judged::restrict(&mut policy, columns);
        let visible: Vec<_> = policy.routes.iter().map(|route| VisibleRules::of(route, columns)).collect();
        let partial = policy.routes.iter().zip(&visible).filter(|(_, rules)| rules.is_partial);
        notes.extend(partial.map(|(route, _)| {
            format!("route {}: some of its outcome rules read what the log does not show", route.name)
        }));
        let limits = policy.limits.iter().map(LimitTally::new).collect();
        let clock = Clock::manual(Time::default());
        let engine = Engine::new(policy, capacity, clock.clone(), Events::default())?;
        let rules = Arc::clone(&engine.rules());
        let (attempts, refused, refused_elsewhere) = (0, 0, 0);
        Ok(Self {
            name,
            engine,
            rules,
            clock,
            prefixes,
            refuse_status,
            modes,
            not_judged,
            visible,
            limits,
            attempts,
            refused,
            refused_elsewhere,
            gate: None,
            notes,
        })
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.rules.policy
    }

    /// Decides on an attempt; `None` if this policy does not count it.
    pub(super) fn decide(&mut self, attempt: &LoggedAttempt, now: Time) -> Option<Replayed> {
        self.clock.set(now);
        if let Told::Refused(limit) = &attempt.told
            && self.leaves_out(limit)
        {
            self.refused_elsewhere += 1;
            return None;
        }
        let decided = self.engine.decide_in_memory(&self.rules, &attempt.request(), now);
        let outcome = self.outcome(attempt);
        let client = self.shown(attempt.client);
        let replayed = match decided {
            Ok(Decision::Admitted(reservation)) => {
                let Reservation { attempt: decided, statuses, .. } = &*reservation;
                let record = decided.record(&self.rules, reservation.route(), statuses);
                self.count(client, &record, statuses, outcome, now);
                self.compare(&attempt.told, &record);
                Replayed { is_refused: false, outcome, reservation: Some(reservation) }
            }
            Ok(Decision::Refused(refusal)) => {
                self.refused += 1;
                let record = refusal.attempt.record(&self.rules, refusal.route, &refusal.statuses);
                self.count(client, &record, &refusal.statuses, outcome, now);
                self.compare(&attempt.told, &record);
                Replayed { is_refused: true, outcome, reservation: None }
            }
            // The gate answers what cannot be charged with 400.
            Ok(Decision::Uncounted | Decision::Denied | Decision::RefusedByDefence(_)) | Err(_) => {
                return None;
            }
        };
        self.attempts += 1;
        Some(replayed)
    }

    /// Settles an attempt as the gate did.
    pub(super) fn settle(&self, reservation: Reservation, end: AttemptEnd, now: Time) {
        self.clock.set(now);
        reservation.settle(&self.engine, &self.rules, end.outcome);
    }

    /// Settles an attempt by its response, or undoes it.
    pub(super) fn settle_by_response(&self, replayed: Replayed, told: &Told, now: Time) {
        let Some(taken) = replayed.reservation else { return };
        self.clock.set(now);
        match told {
            Told::Undone => taken.refund(&self.engine, &self.rules),
            // An attempt that was refused then and is not now has no outcome in the log: it counts as failed.
            _ => taken.settle(&self.engine, &self.rules, replayed.outcome.unwrap_or(Outcome::Failure)),
        }
    }

    /// The outcome by the log; `None` if the application did not see the attempt.
    fn outcome(&self, attempt: &LoggedAttempt) -> Option<Outcome> {
        match &attempt.told {
            Told::Settled(end) => return Some(end.outcome),
            Told::Refused(_) | Told::Undone => return None,
            Told::Response | Told::Uncounted => {}
        }
        if attempt.status == StatusCode::TOO_MANY_REQUESTS || attempt.status == self.refuse_status {
            return None;
        }
        let response =
            ResponseView { method: &attempt.method, status: attempt.status, headers: &attempt.response };
        // A route that a body may choose says nothing of the answer where another one is certain.
        let request = attempt.request();
        let routes = self.policy().routes_of(&request);
        let certain = self.policy().certain_routes(&request, &routes);
        let routes = if certain.is_empty() { routes } else { certain };
        routes.iter().map(|&route| self.visible[route].outcome(&response)).reduce(Outcome::and)
    }

    /// The client as reports tell clients apart.
    pub(super) fn shown(&self, client: Client) -> Client {
        client.ip().map_or(client, |ip| Client::Ip(self.prefixes.mask(ip)))
    }

    pub(super) fn report(&self, good_share: f64) -> PolicyReport {
        let limits =
            self.policy().limits.iter().enumerate().filter(|(_, limit)| limit.kind == LimitKind::Rate);
        let limits = limits.map(|(at, limit)| {
            self.limits[at].report(limit, self.modes[at], self.not_judged[at], good_share)
        });
        PolicyReport {
            name: self.name.clone(),
            attempts: self.attempts,
            refused: self.refused,
            refused_elsewhere: self.refused_elsewhere,
            gate: self.gate,
            notes: self.notes.clone(),
            limits: limits.collect(),
        }
    }

    /// Counts the decisions of each limit.
    fn count(
        &mut self,
        client: Client,
        attempt: &AttemptRecord,
        statuses: &[LimitStatus],
        outcome: Option<Outcome>,
        now: Time,
    ) {
        for record in &attempt.limits {
            self.limits[record.limit].count(client, record.decision, now);
        }
        for status in statuses {
            self.limits[status.charge.limit].learn(status, outcome, now);
        }
        match outcome {
            Some(Outcome::Success) => self.limits.iter_mut().for_each(|limit| limit.signed_in(client, now)),
            Some(Outcome::Failure) => self.limits.iter_mut().for_each(|limit| limit.failed(client)),
            _ => {}
        }
    }

    /// Compares the decision with that of the gate that wrote the log.
    fn compare(&mut self, told: &Told, attempt: &AttemptRecord) {
        let refused_by = attempt.first(LimitDecision::Refuse);
        let refused_now = refused_by.map(|record| &*self.rules.policy.limits[record.limit].name);
        if *told == Told::Response {
            return;
        }
        let gate = self.gate.get_or_insert_default();
        let refused_then = match told {
            Told::Response | Told::Uncounted => return gate.uncounted_then += 1,
            Told::Settled(..) | Told::Undone => None,
            Told::Refused(limit) => Some(&**limit),
        };
        gate.compared += 1;
        match (refused_then, refused_now) {
            (Some(_), None) => gate.refused_then += 1,
            (None, Some(_)) => gate.refused_now += 1,
            (Some(then), Some(now)) if then != now => gate.other_limit += 1,
            _ => {}
        }
    }

    /// Whether the limit of this name is one that is not judged.
    fn leaves_out(&self, name: &str) -> bool {
        let limit = self.policy().limits.iter().position(|limit| &*limit.name == name);
        limit.is_some_and(|at| self.not_judged[at].is_some() && self.modes[at] != "off")
    }
}

/// What the log does not show of the policy's routes.
fn notes(policy: &Policy, columns: LogColumns) -> Vec<String> {
    let mut notes = Vec::new();
    let names = |is: fn(&crate::policy::Route) -> bool| {
        let routes = policy.routes.iter().filter(|route| is(route)).map(|route| &*route.name);
        routes.collect::<Vec<_>>().join(", ")
    };
    let mut note = |routes: String, what: &str| {
        if !routes.is_empty() {
            notes.push(format!("route {routes}: {what}"));
        }
    };
    if !columns.host && !columns.decisions {
        note(names(|route| !route.matching.hosts.is_empty()), "the log has no hosts, so it matches any host");
    }
    if !columns.decisions {
        note(
            names(|route| !route.matching.when.is_empty()),
            "the log has no bodies, so every request may have the field of `when`",
        );
    }
    let is_counted =
        |route: &crate::policy::Route| matches!(route.reading.cost, crate::policy::Cost::Counted(_));
    note(names(is_counted), "the log has no bodies, so each request counts as one attempt");
    if policy.owner_cookie.is_some() {
        notes.push(format!("{}, so known {} count as strangers", OWNERS.not_logged, OWNERS.several));
    }
    notes
}
