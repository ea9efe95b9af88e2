//! An admitted attempt that is not settled yet.
//!
//! It asks the rules of the routes that the attempt is counted for. The surprising thing: if it is dropped, because the
//! client went away, the attempt counts as a failure: nobody is to win by hanging up before the answer.

use std::rc::Rc;

use http::HeaderValue;

use super::server::Server;
use crate::engine::Reservation;
use crate::policy::Route;
use crate::policy::outcome::{BodyPrefix, Outcome, ResponseView};
use crate::proxy::runtime_config::WorkerConfig;

/// An admitted attempt until its end is known.
pub(super) struct AdmittedAttempt {
    server: Rc<Server>,
    /// By what it was decided on.
    config: Rc<WorkerConfig>,
    /// Boxed, because it is handed on several times on its way.
    reservation: Option<Box<Reservation>>,
    /// Whether the client speaks TLS.
    is_secure: bool,
}

impl AdmittedAttempt {
    pub(super) fn new(
        gate: &Rc<Server>,
        local: &Rc<WorkerConfig>,
        reservation: Reservation,
        is_secure: bool,
    ) -> Self {
        let (gate, local) = (Rc::clone(gate), Rc::clone(local));
        Self { server: gate, config: local, reservation: Some(Box::new(reservation)), is_secure }
    }

    /// Whether a rule looks into the body of the answer.
    pub(super) fn reads_bodies(&self) -> bool {
        self.routes().any(|route| route.rules.read_bodies())
    }

    /// What the head of the answer says; `None` if more has to be known.
    pub(super) fn by_head(&self, answer: &ResponseView<'_>) -> Option<Outcome> {
        let each = self.routes().map(|route| route.rules.by_head(answer));
        each.reduce(|one, other| match (one, other) {
            (Some(Outcome::Failure), _) | (_, Some(Outcome::Failure)) => Some(Outcome::Failure),
            (one, other) => Some(one?.and(other?)),
        })?
    }

    /// What head and body say.
    pub(super) fn by_body(&self, answer: &ResponseView<'_>, seen: BodyPrefix<'_>) -> Outcome {
        let each = self.routes().map(|route| route.rules.by_body(answer, seen));
        each.reduce(Outcome::and).unwrap_or(Outcome::Failure)
    }

    /// Whether a success has to be known before the head of the answer leaves.
    pub(super) fn settles_before_head(&self) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| reservation.claim().is_some())
    }

    /// This came of it. What is returned is a `Set-Cookie` for the answer: the browser is known from now on.
    pub(super) fn settle(mut self, outcome: Outcome) -> Option<HeaderValue> {
        let reservation = self.reservation.take()?;
        let (engine, rules) = (&self.server.engine, &self.config.shared.rules);
        let claim = reservation.claim().filter(|_| outcome == Outcome::Success).cloned();
        reservation.settle(engine, rules, outcome);
        rules.policy.devices.as_ref()?.issue(&claim?, engine.clock().now(), self.is_secure)
    }

    /// The routes that it is counted for.
    fn routes(&self) -> impl Iterator<Item = &Route> {
        let routes = self.reservation.iter().flat_map(|reservation| reservation.routes());
        routes.filter_map(|&route| self.config.shared.rules.policy.routes.get(route))
    }
}

impl Drop for AdmittedAttempt {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(&self.server.engine, &self.config.shared.rules, Outcome::Failure);
        }
    }
}
