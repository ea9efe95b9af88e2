//! Counts what one limit does, in bounded memory.

mod clients;
mod columns;
mod estimate;

pub(super) use self::clients::{CountedClients, RefusedClients};
pub(super) use self::columns::SeriesTally;

use self::estimate::{JudgedAttempt, RateEstimate};
use super::report::LimitReport;
use crate::bucket::Spec;
use crate::engine::LimitStatus;
use crate::event::LimitDecision;
use crate::observe::timestamp::rfc3339;
use crate::policy::attempt::Client;
use crate::policy::outcome::Outcome;
use crate::policy::{ChargeOn, Limit};
use crate::time::Time;

/// What one limit has done so far.
#[derive(Debug)]
pub(super) struct LimitTally {
    attempts: u64,
    exempt: u64,
    refused: u64,
    clients: CountedClients,
    refused_clients: RefusedClients,
    first_refusal: Option<Time>,
    series: SeriesTally,
    estimate: Option<RateEstimate>,
}

impl LimitTally {
    pub(super) fn new(limit: &Limit) -> Self {
        let estimate = match limit.spec {
            Spec::Continuous(rate) => Some(RateEstimate::new(rate, limit.charge_on == ChargeOn::Failures)),
            _ => None,
        };
        Self {
            attempts: 0,
            exempt: 0,
            refused: 0,
            clients: CountedClients::default(),
            refused_clients: RefusedClients::default(),
            first_refusal: None,
            series: SeriesTally::default(),
            estimate,
        }
    }

    /// Counts the limit's decision on an attempt of this client.
    pub(super) fn count(&mut self, client: Client, decision: LimitDecision, now: Time) {
        if decision == LimitDecision::Exempt {
            self.exempt += 1;
            return;
        }
        self.attempts += 1;
        self.clients.insert(client);
        let is_refused = decision != LimitDecision::Admit;
        self.series.add(now, is_refused);
        if is_refused {
            self.refused += 1;
            self.first_refusal.get_or_insert(now);
            self.refused_clients.refuse(client, now);
        }
    }

    /// Notes what came of an attempt, in the bucket of its default rate.
    pub(super) fn learn(&mut self, status: &LimitStatus, outcome: Option<Outcome>, now: Time) {
        if let Some(estimate) = self.estimate.as_mut().filter(|_| status.charge.class == 0) {
            let (key, cost) = (status.charge.key, status.charge.cost);
            let is_refused = !status.verdict.is_admitted();
            estimate.attempt(&JudgedAttempt { key, cost, is_refused, outcome }, now);
        }
    }

    /// The client did not sign in.
    pub(super) fn failed(&mut self, client: Client) {
        self.refused_clients.failed(client);
    }

    /// The client signed in.
    pub(super) fn signed_in(&mut self, client: Client, now: Time) {
        self.refused_clients.signed_in(client, now);
    }

    /// The report, with a rate that refuses at most this share of the good clients.
    pub(super) fn report(
        &self,
        limit: &Limit,
        mode: &'static str,
        not_judged: Option<&'static str>,
        good_share: f64,
    ) -> LimitReport {
        LimitReport {
            limit: limit.name.to_string(),
            mode,
            not_judged,
            attempts: self.attempts,
            exempt: self.exempt,
            refused: self.refused,
            clients: self.clients.count(),
            refused_clients: self.refused_clients.distinct(),
            worst: self.refused_clients.worst(),
            first_refusal: self.first_refusal.map(rfc3339),
            likely_false_positives: self.refused_clients.likely_false_positives(),
            false_positives: self.refused_clients.worst_false_positives(),
            suggestion: self.estimate.as_ref().and_then(|estimate| estimate.suggestion(good_share)),
            series: self.series.report(),
        }
    }
}
