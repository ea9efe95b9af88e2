//! An admitted attempt that is not settled yet.
//!
//! The outcome comes from the rules of the routes that count the attempt; the engine settles it. A dropped attempt,
//! whose client hung up, counts as a failure, so hanging up before the response gains nothing.

use std::rc::Rc;

use http::HeaderValue;

use super::access_record::OutcomeCell;
use super::server::Server;
use crate::engine::Reservation;
use crate::policy::Route;
use crate::policy::outcome::{BodyPrefix, Judgement, Outcome, ResponseView};
use crate::proxy::runtime_config::WorkerConfig;

/// An admitted attempt until its outcome is known.
pub(super) struct AdmittedAttempt {
    server: Rc<Server>,
    /// The configuration of the decision.
    config: Rc<WorkerConfig>,
    /// Boxed, because it is moved several times.
    reservation: Option<Box<Reservation>>,
    /// Where the access record reads the outcome.
    outcome: OutcomeCell,
    /// Whether the client speaks TLS.
    is_secure: bool,
}

impl AdmittedAttempt {
    pub(super) fn new(
        server: &Rc<Server>,
        config: &Rc<WorkerConfig>,
        reservation: Box<Reservation>,
        outcome: OutcomeCell,
        is_secure: bool,
    ) -> Self {
        let (server, config) = (Rc::clone(server), Rc::clone(config));
        Self { server, config, reservation: Some(reservation), outcome, is_secure }
    }

    /// Whether a rule reads the body of the response.
    pub(super) fn reads_bodies(&self) -> bool {
        self.routes().any(|route| route.rules.read_bodies())
    }

    /// The judgement by the head of the response; `None` if it depends on the body.
    pub(super) fn by_head(&self, response: &ResponseView<'_>) -> Option<Judgement> {
        let judged = self.routes().map(|route| route.rules.by_head(response));
        judged.reduce(|one, other| match (one, other) {
            (Some(failure), None) | (None, Some(failure)) if failure.outcome == Outcome::Failure => {
                Some(failure)
            }
            (one, other) => Some(one?.and(other?)),
        })?
    }

    /// The judgement by head and body.
    pub(super) fn by_body(&self, response: &ResponseView<'_>, body: BodyPrefix<'_>) -> Judgement {
        let judged = self.routes().map(|route| route.rules.by_body(response, body));
        judged.reduce(Judgement::and).unwrap_or(Outcome::Failure.into())
    }

    /// Whether the outcome has to be known before the head of the response is sent: a success may set a device cookie.
    pub(super) fn settles_before_head(&self) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| reservation.claim().is_some())
    }

    /// Settles the attempt. Returns a `Set-Cookie` for the response if the client becomes a known device.
    pub(super) fn settle(mut self, judged: impl Into<Judgement>) -> Option<HeaderValue> {
        let judged = judged.into();
        let outcome = judged.outcome;
        let reservation = self.reservation.take()?;
        let (engine, rules) = (&self.server.engine, &self.config.shared.rules);
        self.outcome.set(Some((outcome, engine.time())));
        let claim = reservation.claim().filter(|_| outcome == Outcome::Success).cloned();
        reservation.settle(engine, rules, judged);
        rules.policy.devices.as_ref()?.issue(&claim?, engine.clock().now(), self.is_secure)
    }

    /// The routes that count the attempt.
    fn routes(&self) -> impl Iterator<Item = &Route> {
        let routes = self.reservation.iter().flat_map(|reservation| reservation.routes());
        routes.filter_map(|&route| self.config.shared.rules.policy.routes.get(route))
    }
}

impl Drop for AdmittedAttempt {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let engine = &self.server.engine;
            self.outcome.set(Some((Outcome::Failure, engine.time())));
            reservation.settle(engine, &self.config.shared.rules, Outcome::Failure);
        }
    }
}
