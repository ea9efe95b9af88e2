//! An admitted attempt that is not settled yet.
//!
//! The rules of its routes judge the outcome, and the engine settles it. If the client hangs up, the attempt is dropped and counts as
//! a failure, so hanging up before the response gains nothing. Only while it waits for a slot and nothing of it was sent, it was
//! not made yet.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::access_record::{AttemptProgress, EndCell};
use super::attempt_slots::AttemptSlots;
use super::server::Server;
use crate::engine::{OpenAttempt, Reservation};
use crate::event::AttemptEnd;
use crate::policy::outcome::{Judgement, Outcome};
use crate::policy::response::{BodyPrefix, ResponseView};
use crate::policy::slots::{NoSlot, SlotRequest};
use crate::policy::{Pace, Route};
use crate::proxy::headers::{FAILURES, REFUSED};
use crate::proxy::respond::{RateLimitHeaders, refused_mark};
use crate::proxy::runtime_config::WorkerConfig;
use crate::time::{Span, Time};

/// What goes with a request that may pass.
#[derive(Default)]
pub(super) struct Admitted {
    /// `None` if the request is not an attempt.
    pub(super) attempt: Option<AdmittedAttempt>,
    /// How long the attempt is held for its token.
    pub(super) hold: Span,
    pub(super) limit_headers: Option<RateLimitHeaders>,
}

/// An admitted attempt until its outcome is known.
pub(super) struct AdmittedAttempt {
    server: Rc<Server>,
    /// The configuration of the decision.
    config: Rc<WorkerConfig>,
    /// Boxed, because it is moved several times.
    reservation: Option<Box<Reservation>>,
    /// Where the access record reads how it was settled.
    settled: EndCell,
    /// Whether the client speaks TLS.
    is_secure: bool,
}

impl AdmittedAttempt {
    pub(super) fn new(
        server: &Rc<Server>,
        config: &Rc<WorkerConfig>,
        reservation: Box<Reservation>,
        settled: EndCell,
        is_secure: bool,
    ) -> Self {
        let (server, config) = (Rc::clone(server), Rc::clone(config));
        Self { server, config, reservation: Some(reservation), settled, is_secure }
    }

    /// Whether a rule reads the body of the response.
    pub(super) fn reads_bodies(&self) -> bool {
        let rules = &self.config.shared.rules;
        self.reservation.as_ref().is_some_and(|reservation| reservation.reads_bodies(rules))
    }

    /// Whether it needs a slot before it is sent.
    pub(super) fn needs_slots(&self) -> bool {
        self.routes().any(|route| route.permits.has_slots())
    }

    /// Waits for its slots before anything of it is sent. `prefix` is that of its client.
    pub(super) async fn take_slots(&self, prefix: Option<IpAddr>) -> Result<AttemptSlots, NoSlot> {
        self.settled.set(AttemptProgress::Queued);
        let taken = self.take_slots_at_end(prefix).await;
        self.settled.set(AttemptProgress::Open);
        taken
    }

    /// Waits for its slots. The application may have all of it but the end, and may have checked the password: a client that
    /// leaves meanwhile has made the attempt.
    pub(super) async fn take_slots_at_end(&self, prefix: Option<IpAddr>) -> Result<AttemptSlots, NoSlot> {
        let is_known =
            self.reservation.as_ref().is_some_and(|reservation| reservation.attempt.facts.is_owner);
        let clock = self.server.engine.clock();
        AttemptSlots::take(self.routes(), SlotRequest { prefix, is_known }, clock).await
    }

    /// Sets the headers in which the application is told what it should know of the attempt.
    pub(super) fn mark(&self, mut set: impl FnMut(HeaderName, HeaderValue)) {
        let Some(reservation) = &self.reservation else { return };
        if let Some(refused) = refused_mark(&self.config.shared.rules, &reservation.statuses) {
            set(REFUSED, refused);
        }
        reservation.marks().for_each(|(name, value)| set(name, value));
        if reservation.attempt.facts.failures_before > 0 {
            set(FAILURES, reservation.attempt.facts.failures_before.into());
        }
    }

    /// By what the body of the response passes.
    pub(super) fn paces(&self) -> Option<Box<[Pace]>> {
        self.reservation.as_ref()?.paces()
    }

    /// Remembers the cookies of the response for second steps, before its client has them, and what the application demands.
    pub(super) fn read_head(&mut self, response: &HeaderMap) {
        if let Some(reservation) = &mut self.reservation {
            reservation.remember_new_cookies(&self.server.engine, response);
            reservation.read_demand(&self.config.shared.rules, response);
        }
    }

    /// The judgement by the head of the response; `None` if it depends on the body.
    pub(super) fn by_head(&self, response: &ResponseView<'_>) -> Option<Judgement> {
        self.reservation.as_ref()?.judge_head(&self.config.shared.rules, response)
    }

    /// The judgement by head and body.
    pub(super) fn by_body(&self, response: &ResponseView<'_>, body: BodyPrefix<'_>) -> Judgement {
        let rules = &self.config.shared.rules;
        let judged = self.reservation.as_ref().map(|reservation| reservation.judge(rules, response, body));
        judged.unwrap_or(Outcome::Failure.into())
    }

    /// Whether the outcome has to be known before the head of the response is sent: a success may make its client known.
    pub(super) fn settles_before_head(&self) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| reservation.claim().is_some())
    }

    /// Settles the attempt. Returns a `Set-Cookie` for the response if its client becomes known as an owner.
    pub(super) fn settle(self, judged: impl Into<Judgement>) -> Option<HeaderValue> {
        let now = self.server.engine.clock().now();
        self.settle_at(judged.into(), now)
    }

    /// Settles the attempt as a failure.
    pub(super) fn fail(self) {
        drop(self.settle(Outcome::Failure));
    }

    /// As [`settle`](Self::settle), at this time of the process's clock.
    pub(super) fn settle_at(mut self, judged: Judgement, now: Time) -> Option<HeaderValue> {
        let reservation = self.reservation.take()?;
        let (engine, rules) = (&self.server.engine, &self.config.shared.rules);
        let at = engine.store().time(now);
        self.settled.set(AttemptProgress::Settled(AttemptEnd { outcome: judged.outcome, at }));
        reservation.settle_and_claim(engine, rules, (judged, at), self.is_secure)
    }

    /// Gives back what it took: the attempt was never made.
    pub(super) fn undo(mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.refund(&self.server.engine, &self.config.shared.rules);
        }
    }

    /// The attempt without its client's response: its outcome is reported later. `None` if it took nothing.
    pub(super) fn into_open(mut self) -> Option<OpenAttempt> {
        if self.reservation.as_ref().is_some_and(|reservation| reservation.statuses.is_empty()) {
            drop(self.settle(Outcome::Neutral));
            return None;
        }
        let reservation = self.reservation.take()?;
        let rules = Arc::clone(&self.config.shared.rules);
        Some(OpenAttempt { reservation, rules, is_secure: self.is_secure })
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
            let (engine, rules) = (&self.server.engine, &self.config.shared.rules);
            if self.settled.get() == AttemptProgress::Queued {
                return reservation.refund(engine, rules);
            }
            self.settled.set(AttemptProgress::Settled(AttemptEnd::dropped(engine.time())));
            reservation.settle(engine, rules, Judgement::UNANSWERED);
        }
    }
}
